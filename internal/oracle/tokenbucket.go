package oracle

import (
	"math/big"
	"math/bits"
	"time"

	"github.com/spillgate/spillgate/core"
)

const (
	maxUnits = 1 << 53   // no bucket holds more, in requests times the period in ticks
	maxBusy  = 1<<32 - 1 // microseconds that busy may lie before at
)

// A tokenBucket held level requests at the instant at. From there it drains in whole ticks.
//
// Each Take names the rate of its limit; a peek names its rate only if it is faster. Between two named rates a bucket
// drains at the slower one. It is forgotten once it would be empty even at the slowest rate named since it was last empty.
type tokenBucket struct {
	level   *big.Rat
	at      int64
	busy    int64 // the value of at when a charge last found less than one request
	tick    int64 // microseconds
	rate    int64 // the last one named
	slowest int64 // the slowest since the bucket was last empty, as coarse returns it; 0 if only rate was named
	found   []finding
}

// A finding is the level that a charge found at an instant. A bucket knows all findings since its first charge ahead.
type finding struct {
	at    int64
	level *big.Rat
}

// coarse returns a rate with all but its seven highest bits set to 0: a store has room for no more.
func coarse(rate int64) int64 {
	rest := max(0, bits.Len64(uint64(rate))-7)
	return rate >> rest << rest
}

// A drain is how a limit empties a bucket.
type drain struct {
	tick   int64 // microseconds
	period int64 // ticks
}

// drainOf chooses the finest tick in which neither a full bucket nor a banned one has more than maxUnits.
func drainOf(l core.Limit) drain {
	var d drain
	for _, d.tick = range []int64{1, 1000, 1_000_000} {
		d.period = ceilDiv(l.Period.Microseconds(), d.tick)
		units := func(level *big.Rat) *big.Rat { return times(level, d.period) }
		full := units(whole(int64(l.Capacity())))
		if full.Cmp(whole(maxUnits)) <= 0 && (l.Ban == 0 || units(d.banned(l, 0)).Cmp(whole(maxUnits)) <= 0) {
			break
		}
	}
	return d
}

// banned returns the level from which one request fits when l's ban ends, if rest of the current tick has passed.
func (d drain) banned(l core.Limit, rest int64) *big.Rat {
	ban := d.in(ceilDiv(l.Ban.Microseconds()+rest, d.tick), int64(l.Rate))
	return ban.Add(ban, whole(int64(l.Capacity()-1)))
}

// in returns how many requests drain at a rate in a number of ticks.
func (d drain) in(ticks, rate int64) *big.Rat {
	return times(new(big.Rat).SetFrac64(rate, d.period), ticks)
}

// in returns b counted in the ticks of d. The number of used requests stays the same, as far as ticks can express it.
func (b tokenBucket) in(d drain) tokenBucket {
	if b.tick != d.tick {
		b.level = smaller(roundUp(b.level, d.period), new(big.Rat).SetFrac64(maxUnits, d.period))
		b.tick, b.found = d.tick, nil
	}
	return b
}

// own returns how b drains at its own rate, if period is the period of its limits.
func (b *tokenBucket) own(period time.Duration) drain {
	return drain{tick: b.tick, period: ceilDiv(period.Microseconds(), b.tick)}
}

// isForgotten reports whether b is empty at now even if it drained at the slowest named rate.
func (b *tokenBucket) isForgotten(period time.Duration, now int64) bool {
	if b.level.Sign() == 0 {
		return true
	}
	d := b.own(period)
	return times(b.level, d.tick).Cmp(d.in(now-b.at, b.slowestRate())) <= 0
}

func (b *tokenBucket) slowestRate() int64 {
	if b.slowest == 0 {
		return b.rate
	}
	return b.slowest
}

// rewind moves b back to now, if b.at is later. It adds what drains from now to b.at to the level, up to a full bucket.
func (b *tokenBucket) rewind(l core.Limit, now int64) {
	if b.at <= now || l.Rate == 0 {
		return
	}
	d := drainOf(l)
	*b = b.in(d)
	more := d.in(ceilDiv(b.at-now, d.tick), min(b.rate, int64(l.Rate)))
	full := larger(b.level, whole(int64(l.Capacity())))
	b.level = smaller(more.Add(more, b.level), full)
	b.at, b.busy, b.found = now, min(b.busy, now), nil
}

// name records that a request named the rate of l, even if the request is not charged.
func (b *tokenBucket) name(l core.Limit, peek bool, now int64, holds bool) {
	if rate := int64(l.Rate); rate > 0 && rate != b.rate && (!peek || rate > b.rate) && (holds || !b.isForgotten(l.Period, now)) {
		*b = b.advanced(l, now)
	}
}

func (b *tokenBucket) keep(l core.Limit, now int64) { b.name(l, false, now, true) }

func (b *tokenBucket) forget() {
	*b = tokenBucket{level: new(big.Rat), at: b.at, tick: b.tick, rate: b.rate}
}

// end charges what ended holds become, each at its end. Meanwhile b drains at its own rate; or at l's rate, if l's is
// slower, b is not yet forgotten at now, and the call is not a peek.
func (b *tokenBucket) end(l *core.Limit, peek bool, period time.Duration, held bool, now int64, ended []ending) {
	after := b.ended(l, period, b.rate, held, ended)
	if l != nil && !peek && int64(l.Rate) < b.rate && !after.isForgotten(period, now) {
		after = b.ended(l, period, int64(l.Rate), held, ended)
	}
	*b = after
}

// ended returns b charged with the costs of ended holds. Between them b drains at rate. A bucket later than the end of
// a hold, because the clock went back, is charged without draining.
func (b tokenBucket) ended(l *core.Limit, period time.Duration, rate int64, held bool, ended []ending) tokenBucket {
	d := b.own(period)
	if l != nil {
		d = drainOf(*l)
	}
	for _, e := range ended {
		switch {
		case !b.isForgotten(period, e.at):
			if b = b.in(d); e.at > b.at {
				b = b.drained(d, rate, e.at)
			}
			b = b.named(rate)
		case held:
			b = tokenBucket{level: new(big.Rat), at: max(b.at, e.at), busy: b.busy, tick: d.tick, rate: rate}
		default:
			continue
		}
		b.busy = max(b.busy, b.at-maxBusy)
		b.add(l, d, max(b.at, e.at), e.cost)
	}
	return b
}

// named returns b after a request has named a rate.
func (b tokenBucket) named(rate int64) tokenBucket {
	switch before, slowest := b.rate, b.slowestRate(); {
	case b.level.Sign() == 0:
		b.slowest = 0
	case rate != before:
		b.slowest = coarse(min(slowest, rate))
	}
	b.rate = rate
	return b
}

// advanced returns b as it is at now after a request has named the rate of l.
func (b tokenBucket) advanced(l core.Limit, now int64) tokenBucket {
	rate := int64(l.Rate)
	if b.isForgotten(l.Period, now) {
		return tokenBucket{level: new(big.Rat), at: now, busy: b.busy, tick: drainOf(l).tick, rate: rate}
	}
	b = b.drained(drainOf(l), min(b.rate, rate), now).named(rate)
	b.busy = max(b.busy, b.at-maxBusy)
	return b
}

// drained returns b as it is at now, in ticks of d, if it drains at rate.
func (b tokenBucket) drained(d drain, rate, now int64) tokenBucket {
	b = b.in(d)
	elapsed := now - b.at
	if times(b.level, d.tick).Cmp(d.in(elapsed, rate)) <= 0 {
		b.level, b.at = new(big.Rat), now
		return b
	}
	ticks := elapsed / d.tick
	b.level = new(big.Rat).Sub(b.level, d.in(ticks, rate))
	b.at += ticks * d.tick
	return b
}

// used returns what is used at then. For a peek, b drains at the slower rate, because a peek names no slower one.
func (b *tokenBucket) used(l core.Limit, peek bool, now, then int64) *big.Rat {
	rate := int64(l.Rate)
	if peek && !b.isForgotten(l.Period, now) {
		rate = min(rate, b.rate)
	}
	return b.advanced(l, now).drained(drainOf(l), rate, then).level
}

func (b *tokenBucket) charge(l core.Limit, now, cost int64) {
	*b = b.advanced(l, now)
	b.add(&l, drainOf(l), now, cost)
}

// add adds cost to b, which is already advanced to now. If l is not nil, and one request was free before but none is
// free afterwards, l's ban begins.
func (b *tokenBucket) add(l *core.Limit, d drain, now, cost int64) {
	if b.level.Cmp(whole(1)) < 0 {
		b.busy = b.at
	}
	before := b.level
	switch {
	case before.Sign() == 0: // nothing counts any more
		b.found = nil
	case len(b.found) > 0:
		b.found = append(b.found, finding{now, before})
	}
	b.level = saturatedLevel(new(big.Rat).Add(before, whole(cost)), d)
	if l == nil || l.Ban == 0 {
		return
	}
	if last := whole(int64(l.Capacity() - 1)); before.Cmp(last) <= 0 && b.level.Cmp(last) > 0 {
		b.level = larger(b.level, saturatedLevel(d.banned(*l, now-b.at), d))
	}
}

// watch makes b, which was just charged ahead, record what later charges find.
func (b *tokenBucket) watch(now int64) {
	if len(b.found) == 0 {
		b.found = []finding{{now, b.level}}
	}
	b.found[0].at = min(b.found[0].at, now) // the clock may have stepped back within a tick
}

// least returns the lowest level that a charge found after an instant, or 0 if b does not know it.
func (b *tokenBucket) least(at int64) *big.Rat {
	if len(b.found) == 0 || at < b.found[0].at {
		return new(big.Rat)
	}
	least := b.level
	for _, f := range b.found {
		if f.at > at {
			least = smaller(least, f.level)
		}
	}
	return least
}

// refund gives back the part of cost that still counts. If nothing was charged since, all of it counts. Otherwise at
// most the lowest level that a later charge found counts. If b does not know these levels, the part that cannot have
// drained counts, provided that b knows no rate other than l's; and one request counts if b never held less since.
func (b *tokenBucket) refund(l core.Limit, now, at, cost int64) {
	if cost == 0 {
		return
	}
	d := drainOf(l)
	*b = b.in(d)
	back := whole(cost)
	if at < b.at {
		back = new(big.Rat)
		if b.rate == int64(l.Rate) && b.slowest == 0 {
			drained := d.in(ceilDiv(max(0, now-at), d.tick), b.rate)
			back = larger(back.Sub(whole(cost), drained), new(big.Rat))
		}
		if at >= b.busy {
			back = larger(back, whole(1))
		}
		back = larger(back, smaller(whole(cost), b.least(at)))
		b.foundLess(at, back)
		if back.Sign() > 0 { // so the charges since have found less
			b.busy = b.at
		}
	}
	b.level = larger(new(big.Rat).Sub(b.level, back), new(big.Rat))
}

// foundLess lowers the levels that charges after an instant found.
func (b *tokenBucket) foundLess(at int64, less *big.Rat) {
	for i, f := range b.found {
		if f.at > at {
			b.found[i].level = larger(new(big.Rat).Sub(f.level, less), new(big.Rat))
		}
	}
}

// grant gives back at most what was used, as if it had never been charged, or charges what is taken away. A ban stays.
func (b *tokenBucket) grant(l core.Limit, now, n int64) (ends int64) {
	d := drainOf(l)
	switch after := b.advanced(l, now); {
	case n < 0:
		*b = after
		b.add(nil, d, now, -n)
	case after.level.Sign() == 0:
		*b = after
	case l.Ban == 0 || after.level.Cmp(whole(int64(l.Capacity()-1))) <= 0:
		*b = b.in(d)
		b.level = larger(new(big.Rat).Sub(b.level, whole(n)), new(big.Rat))
	}
	return 0
}
