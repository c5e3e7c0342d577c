package oracle

import (
	"maps"
	"math/big"
	"slices"

	"github.com/spillgate/spillgate/core"
)

const (
	maxUnits    = 1 << 53   // no bucket holds more, in requests times the period in ticks
	maxBusy     = 1<<32 - 1 // microseconds that busy may lie before at
	maxSiblings = 8         // of one algorithm and period
)

// A tokenBucket has the siblings of one period, by their rates. What is used is what the fullest one holds.
type tokenBucket map[int64]bucket

// A bucket held level requests at the instant at. From there it drains in whole ticks, at its own rate.
type bucket struct {
	level *big.Rat
	ban   *big.Rat // the part of level that a ban has added; only requests of the same rate see it
	at    int64
	busy  int64 // the value of at when a charge last found less than one request, or a fuller sibling
	tick  int64 // microseconds
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

// cut returns a level, but at most the largest that a bucket holds.
func (d drain) cut(level *big.Rat) *big.Rat {
	return smaller(level, new(big.Rat).SetFrac64(maxUnits, d.period))
}

// in returns b counted in the ticks of d. The number of used requests stays the same, rounded up to what ticks can express.
func (b bucket) in(d drain) bucket {
	if b.tick != d.tick {
		b.level, b.ban = d.cut(roundUp(b.level, d.period)), smaller(roundUp(b.ban, d.period), b.level)
		b.tick = d.tick
	}
	return b
}

// at returns b, in ticks of d, as it is at an instant. A bucket that lies after the instant has not drained.
func (b bucket) drained(d drain, rate, then int64) bucket {
	b = b.in(d)
	elapsed := max(0, then-b.at)
	if times(b.level, d.tick).Cmp(d.in(elapsed, rate)) <= 0 {
		return bucket{level: new(big.Rat), ban: new(big.Rat), at: max(b.at, then), busy: b.busy, tick: d.tick}
	}
	ticks := elapsed / d.tick
	b.level = new(big.Rat).Sub(b.level, d.in(ticks, rate))
	b.ban = smaller(b.ban, b.level)
	b.at += ticks * d.tick
	return b
}

// ends returns the instant from which b, in ticks of d, is empty.
func (b bucket) ends(d drain, rate int64) int64 {
	micros := times(b.level, d.period*d.tick)
	return b.at + floor(roundUp(micros.Quo(micros, whole(rate)), 1))
}

// used returns what the fullest sibling holds. Each drains at its own rate.
func (s tokenBucket) used(l core.Limit, _, then int64) *big.Rat {
	fullest, d := new(big.Rat), drainOf(l)
	for rate, b := range s {
		b = b.drained(d, rate, then)
		if rate != int64(l.Rate) {
			b.level = new(big.Rat).Sub(b.level, b.ban)
		}
		fullest = larger(fullest, b.level)
	}
	return fullest
}

// rewind moves siblings back to now. It adds what drains from now to a sibling's instant, up to a full bucket, unless the sibling is
// empty.
func (s tokenBucket) rewind(l core.Limit, now int64) {
	d, full := drainOf(l), whole(int64(l.Capacity()))
	for rate, b := range s {
		if b.at <= now || l.Rate == 0 {
			continue
		}
		b = b.in(d)
		if b.level.Sign() > 0 {
			more := d.in(ceilDiv(b.at-now, d.tick), rate)
			b.level = smaller(more.Add(more, b.level), larger(b.level, full))
		}
		b.at, b.busy = now, min(b.busy, now)
		s[rate] = b
	}
}

// own returns the sibling of l's rate as l sees it at now: as full as the fullest sibling.
func (s tokenBucket) own(l core.Limit, now int64) bucket {
	d, rate, fullest := drainOf(l), int64(l.Rate), s.used(l, now, now)
	b, ok := s[rate]
	if b = b.drainedIf(ok, d, rate, now); b.level.Cmp(fullest) < 0 {
		b = bucket{level: fullest, ban: new(big.Rat), at: max(b.at, now), busy: max(b.at, now), tick: d.tick}
	}
	return b
}

func (b bucket) drainedIf(ok bool, d drain, rate, now int64) bucket {
	if !ok {
		return bucket{level: new(big.Rat), ban: new(big.Rat), at: now, busy: now, tick: d.tick}
	}
	return b.drained(d, rate, now)
}

// put stores b as the sibling of l's rate, and drops siblings that are empty at now. If there are too many, it replaces the one that ends
// first (of several, the slowest).
func (s tokenBucket) put(l core.Limit, now int64, b bucket) {
	d := drainOf(l)
	maps.DeleteFunc(s, func(rate int64, other bucket) bool { // in its own ticks, since a level may be too high for d's
		own := drain{other.tick, ceilDiv(l.Period.Microseconds(), other.tick)}
		return other.drained(own, rate, now).level.Sign() == 0
	})
	if _, ok := s[int64(l.Rate)]; !ok && len(s) == maxSiblings {
		delete(s, slices.MinFunc(slices.Sorted(maps.Keys(s)), func(x, y int64) int {
			return int(s[x].in(d).ends(d, x) - s[y].in(d).ends(d, y))
		}))
	}
	s[int64(l.Rate)] = b
}

func (s tokenBucket) charge(l core.Limit, now, cost int64) { s.put(l, now, s.charged(l, now, cost)) }

// charged returns the sibling of l's rate after a charge. If the sibling had one request free before but none is free afterwards, l's
// ban begins.
func (s tokenBucket) charged(l core.Limit, now, cost int64) bucket {
	d, own := drainOf(l), new(big.Rat)
	if b, ok := s[int64(l.Rate)]; ok {
		own = b.drained(d, int64(l.Rate), now).level
	}
	b := s.own(l, now)
	if b.level.Cmp(whole(1)) < 0 {
		b.busy = b.at
	}
	b.busy = max(b.busy, b.at-maxBusy)
	b.level = d.cut(new(big.Rat).Add(b.level, whole(cost)))
	if last := whole(int64(l.Capacity() - 1)); l.Ban > 0 && own.Cmp(last) <= 0 && b.level.Cmp(last) > 0 {
		raised := larger(b.level, d.cut(d.banned(l, max(0, now-b.at))))
		b.ban = new(big.Rat).Add(b.ban, new(big.Rat).Sub(raised, b.level))
		b.level = raised
	}
	return b
}

// refund gives back the part of cost that still counts. If nothing was charged to the sibling since, all of it counts. Otherwise the part
// counts that cannot have drained, and at least one request if the sibling never held less since.
func (s tokenBucket) refund(l core.Limit, now, at, cost int64) {
	d, rate := drainOf(l), int64(l.Rate)
	b, ok := s[rate]
	if !ok || cost == 0 {
		return
	}
	back := whole(cost)
	if b = b.in(d); at < b.at {
		drained := d.in(ceilDiv(max(0, now-at), d.tick), rate)
		back = larger(back.Sub(back, drained), new(big.Rat))
		if at >= b.busy {
			back = larger(back, whole(1))
		}
		if back.Sign() > 0 { // so the charges since have found less
			b.busy = b.at
		}
	}
	s[rate] = b.lowered(back)
}

// lowered returns b with less in it. Its ban keeps its part of the rest.
func (b bucket) lowered(by *big.Rat) bucket {
	b.level = larger(new(big.Rat).Sub(b.level, by), new(big.Rat))
	b.ban = smaller(b.ban, b.level)
	return b
}

// grant gives back at most what was used, from every sibling. A ban stays. A negative n is charged, but begins no ban.
func (s tokenBucket) grant(l core.Limit, now, n int64) (ends int64) {
	d, rate := drainOf(l), int64(l.Rate)
	if n < 0 {
		l.Ban = 0
		s.charge(l, now, -n)
		return 0
	}
	if last := whole(int64(l.Capacity() - 1)); l.Ban > 0 && s.used(l, now, now).Cmp(last) > 0 {
		return 0
	}
	for r, b := range s {
		b = b.in(d)                        // not drained: a refund still knows what was charged since
		if r != rate && b.ban.Sign() > 0 { // only what was used is given back, not the ban
			b.ban = smaller(b.level, new(big.Rat).Add(b.ban, whole(n)))
		} else {
			b = b.lowered(whole(n))
		}
		s[r] = b
	}
	return 0
}
