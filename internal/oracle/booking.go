package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A booking is a charge for a request that waits for its turn. Until its turn, the bucket holds more than its capacity.

// raised returns the level of b, which is advanced to now, plus an amount that drains exactly when a ban ends. So the
// turns of requests that wait for the end of the ban begin there.
func (b *tokenBucket) raised(l core.Limit, now int64, ban time.Duration) *big.Rat {
	if ban == 0 {
		return b.level
	}
	d := drainOf(l)
	return larger(b.level, d.in(ceilDiv(ban.Microseconds()+now-b.at, d.tick), int64(l.Rate)))
}

// hasRoom reports whether a bucket can hold cost on top of what is booked without exceeding the largest whole number.
func (b *tokenBucket) hasRoom(l core.Limit, peek bool, now int64, ban time.Duration, cost *big.Rat) bool {
	after := b.advanced(l, now)
	if peek && !b.isForgotten(l.Period, now) {
		after = b.drained(drainOf(l), min(b.rate, int64(l.Rate)), now)
	}
	level := new(big.Rat).Add(after.raised(l, now, ban), cost)
	return times(level, drainOf(l).period).Cmp(whole(maxUnits)) <= 0
}

// book charges cost for a request that waits for its turn. A turn is a whole tick.
func (b *tokenBucket) book(l core.Limit, now int64, ban time.Duration, cost int64) {
	d, rate := drainOf(l), int64(l.Rate)
	*b = b.advanced(l, now)
	b.level = b.raised(l, now, ban)
	b.add(&l, d, now, cost)
	if over := new(big.Rat).Sub(b.level, whole(int64(l.Capacity()))); over.Sign() > 0 {
		ticks := roundUp(over.Quo(over, d.in(1, rate)), 1)
		b.level = saturatedLevel(ticks.Add(times(d.in(1, rate), floor(ticks)), whole(int64(l.Capacity()))), d)
	}
}

// giveBack gives back the part of cost that still counts. The cost was charged at one instant for a request with its
// turn at another. If nothing was charged later, all of it counts. While later requests wait, none of it does: their
// turns stay, and nobody may go before them. After their turns, the part that cannot have drained since the request's
// turn counts, if the bucket knows no rate other than l's. If the clock went back since, the turn moves back with it.
func (b *tokenBucket) giveBack(l core.Limit, now, at, turn, cost int64) {
	d := drainOf(l)
	*b = b.in(d)
	if back := at - b.at; back >= d.tick {
		turn -= back
	}
	known := b.rate == int64(l.Rate) && b.slowest == 0
	given := new(big.Rat)
	switch {
	case b.isLast(l, d, turn) && (known || at >= b.at):
		given = whole(cost)
	case known && !b.hasWaiting(l, d, now):
		drained := d.in(ceilDiv(max(0, now-turn), d.tick), b.rate)
		given = larger(drained.Sub(whole(cost), drained), given)
	}
	if at < b.at {
		b.foundLess(at, given)
		if given.Sign() > 0 {
			b.busy = b.at
		}
	}
	b.level = larger(new(big.Rat).Sub(b.level, given), new(big.Rat))
}

// isLast reports whether nothing was charged after a request with a turn: at its turn the bucket is at most full, and
// no charge is later.
func (b *tokenBucket) isLast(l core.Limit, d drain, turn int64) bool {
	over := new(big.Rat).Sub(b.level, whole(int64(l.Capacity())))
	return turn >= b.at && over.Cmp(d.in(ceilDiv(turn-b.at, d.tick), int64(l.Rate))) <= 0
}

// hasWaiting reports whether requests wait for their turns at now: then the bucket is more than full.
func (b *tokenBucket) hasWaiting(l core.Limit, d drain, now int64) bool {
	level := new(big.Rat).Sub(b.level, d.in(max(0, now-b.at)/d.tick, b.rate))
	return level.Cmp(whole(int64(l.Capacity()))) > 0
}
