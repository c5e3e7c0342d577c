package core

import "math/bits"

// A bucket is the state of a TokenBucket: its level rises by one period with each request and drains at the rate.
// Counting in requests × period makes every rate a whole number, and a changed rate or burst needs no conversion.
// Unlike the "theoretical arrival time" of ATM Forum TM 4.0, §4.4.2, level and instant are kept apart for the same reason.
//
// Between two requests that name different rates a bucket drains at the slower of both.
type bucket struct {
	level   int64 // requests used × period, in ticks, at the instant at
	at      int64 // microseconds since the Unix epoch
	busy    int64 // at of the last charge that found less than one request in the bucket, or maxBusy before at
	tick    int64 // microseconds
	rate    int64 // named by the last request that was no peek
	slowest int64 // rate since the bucket was last empty, coarse; 0 if rate is the only one
}

// maxBusy is how far back busy reaches, in microseconds: 71 minutes.
const maxBusy = 1<<32 - 1

// advance returns b as it is at now after a request has named the rate of l.
func (b bucket) advance(l *scale, now int64) bucket {
	if l.rate == 0 { // nothing drains, nothing is admitted
		return b
	}
	if b.at > now {
		b = b.rewind(l, now)
	}
	if b.rate == l.rate && b.slowest == 0 && b.tick == l.tick {
		return b.drain(l, l.rate, now)
	}
	if b.isForgotten(now) {
		return bucket{at: now, busy: b.busy, tick: l.tick, rate: l.rate}
	}
	before, slowest := b.rate, b.slowestRate()
	b = b.in(l).drain(l, min(before, l.rate), now)
	b.rate = l.rate
	switch {
	case b.level == 0:
		b.slowest = 0
	case before != l.rate:
		b.slowest = coarse(min(slowest, l.rate))
	}
	return b
}

// drain returns b, which counts in ticks of l, as it is at now if it drains at rate. Time that does not fill a tick stays
// to be counted later, unless it empties b.
func (b bucket) drain(l *scale, rate, now int64) bucket {
	ticks, rest := now-b.at, int64(0)
	if l.tick != 1 {
		ticks, rest = ticks/l.tick, ticks%l.tick
	}
	if hi, drained := bits.Mul64(uint64(ticks), uint64(rate)); hi > 0 || drained > uint64(b.level) {
		b.level, b.at = 0, now
		return b
	}
	b.level -= ticks * rate
	b.at = now - rest
	if b.level <= rate && b.level*l.tick <= rate*rest {
		b.level, b.at = 0, now
	}
	return b
}

// isForgotten reports whether b is empty at now even at the slowest rate that it has to drain at.
func (b *bucket) isForgotten(now int64) bool {
	if b.level == 0 {
		return true
	}
	if now <= b.at {
		return false
	}
	hi, lo := bits.Mul64(uint64(b.level), uint64(b.tick))
	drainedHi, drained := bits.Mul64(uint64(now-b.at), uint64(b.slowestRate()))
	return hi < drainedHi || hi == drainedHi && lo <= drained
}

func (b *bucket) slowestRate() int64 {
	if b.slowest == 0 {
		return b.rate
	}
	return b.slowest
}

// coarse returns a rate with its seven highest bits, all others 0: a record has room for so many.
func coarse(rate int64) int64 {
	rest := max(0, bits.Len64(uint64(rate))-7)
	return rate >> rest << rest
}

// in returns b counted in the ticks of l: the requests used stay the same, rounded up.
func (b bucket) in(l *scale) bucket {
	if b.tick != l.tick {
		b.level = mulDivUp(b.level, l.period, ceilDiv(l.micros, b.tick))
		b.tick = l.tick
	}
	return b
}

// rewind returns b after the clock went back to now. What would have drained until b.at is still to drain, but a bucket
// never holds more than a full one because of the clock.
func (b bucket) rewind(l *scale, now int64) bucket {
	b = b.in(l)
	rate := min(b.rate, l.rate)
	full := max(b.level, l.capacity*l.period)
	ticks := ceilDiv(b.at-now, l.tick)
	if ticks > (full-b.level)/rate {
		b.level = full
	} else {
		b.level += ticks * rate
	}
	b.at, b.busy = now, min(b.busy, now)
	return b
}

// admits reports whether an advanced b has room for cost.
func (b bucket) admits(l *scale, cost int64) bool {
	return cost <= l.capacity && b.level <= (l.capacity-cost)*l.period
}

// wait returns how long after now an advanced b admits cost, which is at most the capacity.
func (b bucket) wait(l *scale, now, cost int64) int64 {
	if b.admits(l, cost) {
		return 0
	}
	return b.until(l, now, (l.capacity-cost)*l.period)
}

// until returns how long after now an advanced b takes to drain to target, which is below its level.
func (b bucket) until(l *scale, now, target int64) int64 {
	ticks := ceilDiv(b.level-target, b.rate)
	if ticks > maxExact/l.tick+1 {
		return maxExact
	}
	wait := ticks*l.tick - (now - b.at)
	if last := b.level - (ticks-1)*b.rate; last <= b.rate { // empties within this tick
		wait += ceilDiv(last*l.tick, b.rate) - l.tick
	}
	return min(wait, maxExact)
}

// charge returns an advanced b with cost in it.
func (b bucket) charge(l *scale, cost int64) bucket {
	if b.level < l.period {
		b.busy = b.at
	}
	b.level += cost * l.period
	return b
}

// refund returns b, advanced or not, without what a charge of cost at an earlier instant still counts for. All of it does
// if nothing was charged since. Otherwise some may have drained while it was alone in the bucket: what surely counts is
// what cannot have drained since, if only the rate of l was named, and one request if the bucket has held as much ever since.
func (b bucket) refund(l *scale, now, at, cost int64) bucket {
	b = b.in(l)
	sure := cost * l.period
	if at < b.at {
		whole := min(sure, l.period)
		ticks := ceilDiv(max(0, now-at), l.tick)
		if b.rate != l.rate || b.slowest != 0 || l.rate == 0 || ticks > sure/l.rate {
			sure = 0
		} else {
			sure = max(0, sure-ticks*l.rate)
		}
		if at >= b.busy {
			sure = max(sure, whole)
		}
		if sure > 0 { // later charges found less in the bucket than busy says
			b.busy = b.at
		}
	}
	b.level = max(0, b.level-sure)
	return b
}

// report says what an advanced b leaves.
func (b bucket) report(l *scale, now int64) usage {
	free := max(0, l.full-b.level)
	u := usage{remaining: l.byPeriod.floor(free)}
	if u.remaining == l.capacity || l.rate == 0 {
		return u
	}
	target := (l.capacity - u.remaining - 1) * l.period
	if l.tick == 1 { // until comes to the same, for an advanced b is as it is at now
		u.refill, u.reset = ceilDiv(b.level-target, b.rate), ceilDiv(b.level, b.rate)
	} else {
		u.refill, u.reset = b.until(l, now, target), b.until(l, now, 0)
	}
	return u
}
