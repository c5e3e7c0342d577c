package core

import "math/bits"

// A bucket is the state of a TokenBucket: a meter that each request raises by one period and that drains at the rate.
// Counting in requests × period makes every rate a whole number, and a changed rate or burst needs no conversion.
// Unlike the "theoretical arrival time" of ATM Forum TM 4.0, §4.4.2, level and instant are kept apart for the same reason.
type bucket struct {
	level int64 // requests used × period, in ticks, at the instant at
	at    int64 // microseconds since the Unix epoch
	busy  int64 // at of the last charge that found less than one request in the bucket, or maxBusy before at
}

// maxBusy is how far back busy reaches, in microseconds: 71 minutes.
const maxBusy = 1<<32 - 1

// settle returns b as it is at now. Time that does not fill a tick stays to be counted later, unless it empties b.
func (b bucket) settle(l *scale, now int64) bucket {
	if l.rate == 0 { // nothing drains, nothing is admitted
		return b
	}
	if b.at > now {
		b = b.rewind(l, now)
	}
	ticks, rest := now-b.at, int64(0)
	if l.tick != 1 {
		ticks, rest = ticks/l.tick, ticks%l.tick
	}
	if hi, drained := bits.Mul64(uint64(ticks), uint64(l.rate)); hi > 0 || drained > uint64(b.level) {
		return bucket{at: now, busy: b.busy}
	}
	b.level -= ticks * l.rate
	b.at = now - rest
	if b.level <= l.rate && b.level*l.tick <= l.rate*rest {
		return bucket{at: now, busy: b.busy}
	}
	return b
}

// convert returns a level that counts in other ticks, in those of l: the requests used stay the same, rounded up.
func (l *scale) convert(level, tick int64) int64 {
	return mulDivUp(level, l.period, ceilDiv(l.micros, tick))
}

// rewind returns b after the clock went back to now. What would have drained until b.at is still to drain, but a bucket
// never holds more than a full one because of the clock.
func (b bucket) rewind(l *scale, now int64) bucket {
	full := max(b.level, l.capacity*l.period)
	ticks := ceilDiv(b.at-now, l.tick)
	if ticks > (full-b.level)/l.rate {
		b.level = full
	} else {
		b.level += ticks * l.rate
	}
	b.at, b.busy = now, min(b.busy, now)
	return b
}

// admits reports whether a settled b has room for cost.
func (b bucket) admits(l *scale, cost int64) bool {
	return cost <= l.capacity && b.level <= (l.capacity-cost)*l.period
}

// wait returns how long after now a settled b admits cost, which is at most the capacity.
func (b bucket) wait(l *scale, now, cost int64) int64 {
	if b.admits(l, cost) {
		return 0
	}
	return b.until(l, now, (l.capacity-cost)*l.period)
}

// until returns how long after now a settled b takes to drain to target, which is below its level.
func (b bucket) until(l *scale, now, target int64) int64 {
	ticks := l.byRate.ceil(b.level - target)
	if ticks > maxExact/l.tick {
		return maxExact
	}
	wait := ticks * l.tick
	if last := b.level - (ticks-1)*l.rate; last <= l.rate { // empties within this tick
		wait += l.byRate.ceil(last*l.tick) - l.tick
	}
	return wait - (now - b.at)
}

// charge returns a settled b with cost in it.
func (b bucket) charge(l *scale, cost int64) bucket {
	if b.level < l.period {
		b.busy = b.at
	}
	b.busy = max(b.busy, b.at-maxBusy)
	b.level += cost * l.period
	return b
}

// refund returns b, settled or not, without what a charge of cost at an earlier instant still counts for. All of it does
// if nothing was charged since. Otherwise some may have drained while it was alone in the bucket: what surely counts is
// what cannot have drained since, and one request if the bucket has held as much ever since.
func (b bucket) refund(l *scale, now, at, cost int64) bucket {
	sure := cost * l.period
	if at < b.at {
		whole := min(sure, l.period)
		if ticks := ceilDiv(max(0, now-at), l.tick); l.rate > 0 && ticks > sure/l.rate {
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

// report says what a settled b leaves.
func (b bucket) report(l *scale, now int64) usage {
	free := max(0, l.full-b.level)
	u := usage{remaining: l.byPeriod.floor(free)}
	if u.remaining == l.capacity || l.rate == 0 {
		return u
	}
	target := (l.capacity - u.remaining - 1) * l.period
	if l.tick == 1 { // until comes to the same, for a settled b is as it is at now
		u.refill, u.reset = l.byRate.ceil(b.level-target), l.byRate.ceil(b.level)
	} else {
		u.refill, u.reset = b.until(l, now, target), b.until(l, now, 0)
	}
	return u
}
