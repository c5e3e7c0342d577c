package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A booking is a charge for a request that waits for its turn. Until its turn, the bucket holds more than its capacity.

// booked returns the sibling of l's rate after a charge for a request that waits. A ban first raises the level by an amount that drains
// exactly when the ban ends, so the turns of requests that wait for its end begin there. If siblings of other rates make the request
// wait, the level is raised so that the bucket is full once they do not: later requests get later turns.
func (s tokenBucket) booked(l core.Limit, now int64, behind, ban time.Duration, cost *big.Rat) bucket {
	d, rate := drainOf(l), int64(l.Rate)
	b := s.own(l, now)
	drains := func(wait time.Duration) *big.Rat {
		return d.in(ceilDiv(wait.Microseconds()+max(0, now-b.at), d.tick), rate)
	}
	if ban > 0 {
		b.level = larger(b.level, drains(ban))
	}
	if b.level.Cmp(whole(1)) < 0 {
		b.busy = b.at
	}
	b.busy = max(b.busy, b.at-maxBusy)
	b.level = new(big.Rat).Add(b.level, cost)
	if behind > 0 {
		b.level = larger(b.level, new(big.Rat).Add(drains(behind), whole(int64(l.Capacity()))))
	}
	return b
}

// hasRoom reports whether a bucket can hold cost on top of what is booked without exceeding the largest whole number.
func (s tokenBucket) hasRoom(l core.Limit, now int64, behind, ban time.Duration, cost *big.Rat) bool {
	return times(s.booked(l, now, behind, ban, cost).level, drainOf(l).period).Cmp(whole(maxUnits)) <= 0
}

// book charges cost for a request that waits for its turn. A turn is a whole tick.
func (s tokenBucket) book(l core.Limit, now int64, behind, ban time.Duration, cost int64) {
	d := drainOf(l)
	b, full := s.booked(l, now, behind, ban, whole(cost)), whole(int64(l.Capacity()))
	if over := new(big.Rat).Sub(b.level, full); over.Sign() > 0 {
		ticks := roundUp(over.Quo(over, d.in(1, int64(l.Rate))), 1)
		b.level = new(big.Rat).Add(times(d.in(1, int64(l.Rate)), floor(ticks)), full)
	}
	b.level = d.cut(b.level)
	s.put(l, now, b)
}

// giveBack gives back the part of cost that still counts. The cost was charged at one instant for a request with its
// turn at another. If nothing was charged later, all of it counts. While later requests wait, none of it does: their
// turns stay, and nobody may go before them. After their turns, the part counts that cannot have drained since the request's
// turn. If the clock went back since, the turn moves back with it.
func (s tokenBucket) giveBack(l core.Limit, now, at, turn, cost int64) {
	d, rate := drainOf(l), int64(l.Rate)
	b, ok := s[rate]
	if !ok {
		return
	}
	b = b.in(d)
	if back := at - b.at; back >= d.tick {
		turn -= back
	}
	given := new(big.Rat)
	switch {
	case b.isLast(l, d, turn):
		given = whole(cost)
	case !b.hasWaiting(l, d, now):
		drained := d.in(ceilDiv(max(0, now-turn), d.tick), rate)
		given = larger(drained.Sub(whole(cost), drained), given)
	}
	if at < b.at && given.Sign() > 0 {
		b.busy = b.at
	}
	s[rate] = b.lowered(given)
}

// isLast reports whether nothing was charged after a request with a turn: at its turn the bucket is at most full, and
// no charge is later.
func (b bucket) isLast(l core.Limit, d drain, turn int64) bool {
	over := new(big.Rat).Sub(b.level, whole(int64(l.Capacity())))
	return turn >= b.at && over.Cmp(d.in(ceilDiv(turn-b.at, d.tick), int64(l.Rate))) <= 0
}

// hasWaiting reports whether requests wait for their turns at now: then the bucket is more than full.
func (b bucket) hasWaiting(l core.Limit, d drain, now int64) bool {
	level := new(big.Rat).Sub(b.level, d.in(max(0, now-b.at)/d.tick, int64(l.Rate)))
	return level.Cmp(whole(int64(l.Capacity()))) > 0
}
