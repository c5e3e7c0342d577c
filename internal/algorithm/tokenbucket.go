package algorithm

import "math/bits"

// A Bucket is the state of a TokenBucket: its level rises by one period with each request and drains at the rate.
// Counting in requests × period makes every rate a whole number, and a changed rate or burst needs no conversion.
// Unlike the "theoretical arrival time" of ATM Forum TM 4.0, §4.4.2, level and instant are kept apart for the same reason.
type Bucket struct {
	Level int64 // requests used × period, in ticks, at the instant At
	At    int64
	Busy  int64 // At of the last charge that found less than one request in the bucket
}

// MaxBusy is the largest At - Busy, in microseconds: 71 minutes.
const MaxBusy = 1<<32 - 1

// Drain returns b as it is at now, which is not before At, if it drains at rate. Time that does not fill a tick counts
// later, unless it empties b.
func (b Bucket) Drain(l *Limit, rate, now int64) Bucket {
	ticks, rest := now-b.At, int64(0)
	if l.Unit != 1 {
		ticks, rest = ticks/l.Unit, ticks%l.Unit
	}
	if hi, drained := bits.Mul64(uint64(ticks), uint64(rate)); hi > 0 || drained > uint64(b.Level) {
		return Bucket{At: now, Busy: b.Busy}
	}
	b.Level -= ticks * rate
	if b.Level <= rate && b.Level*l.Unit <= rate*rest {
		return Bucket{At: now, Busy: b.Busy}
	}
	b.At = now - rest
	return b
}

// Admits reports whether b has room for cost.
func (b Bucket) Admits(l *Limit, cost int64) bool {
	return cost <= l.Capacity && b.Level <= (l.Capacity-cost)*l.Period
}

// within returns b, emptied if its level drains at rate within the current tick: b may have been advanced at a slower
// rate.
func (b Bucket) within(l *Limit, rate, now int64) Bucket {
	if b.Level <= rate {
		return b.Drain(l, rate, now)
	}
	return b
}

// Wait returns how long after now b admits cost, if it drains at rate, or Never.
func (b Bucket) Wait(l *Limit, rate, now, cost int64) int64 {
	if cost > l.Capacity {
		return Never
	}
	b = b.within(l, rate, now)
	if b.Admits(l, cost) {
		return 0
	}
	return b.until(l, rate, now, (l.Capacity-cost)*l.Period)
}

// until returns how long after now b takes to drain to target, which is below its level.
func (b Bucket) until(l *Limit, rate, now, target int64) int64 {
	ticks := CeilDiv(b.Level-target, rate)
	if l.Unit == 1 {
		return ticks
	}
	hi, micros := bits.Mul64(uint64(ticks), uint64(l.Unit))
	if hi > 0 || micros > 2*MaxExact {
		return MaxExact
	}
	wait := int64(micros) - (now - b.At)
	if last := b.Level - (ticks-1)*rate; last <= rate { // empties within this tick
		wait += CeilDiv(last*l.Unit, rate) - l.Unit
	}
	return min(wait, MaxExact)
}

// Charge returns b with cost in it, whether or not it fits. If at least one request was free before the charge, and
// less than one is free after it, the ban of l begins: when the ban is over, exactly one request fits.
func (b Bucket) Charge(l *Limit, now, cost int64) Bucket {
	last := l.Full - l.Period // the highest level with one request free
	before := b.Level
	b = b.add(l, cost)
	if l.Ban > 0 && before <= last && b.Level > last {
		b.Level = max(b.Level, addProduct(last, l.Rate, CeilDiv(l.Ban+now-b.At, l.Unit)))
	}
	return b
}

// add is Charge without a ban.
func (b Bucket) add(l *Limit, cost int64) Bucket {
	if b.Level < l.Period {
		b.Busy = b.At
	}
	b.Level = addProduct(b.Level, cost, l.Period)
	return b
}

// Report says what b leaves, if it drains at rate.
func (b Bucket) Report(l *Limit, rate, now int64) (u Usage) {
	if l.Unit != 1 {
		b = b.within(l, rate, now)
	}
	free := l.Full - b.Level // negative if a charge has overfilled the bucket
	rest := free
	if free > 0 {
		u.Remaining, rest = free/l.Period, free%l.Period
	}
	switch {
	case u.Remaining == l.Capacity:
	case l.Unit == 1: // same result as until
		u.Refill, u.Reset = CeilDiv(l.Period-rest, rate), CeilDiv(b.Level, rate)
	default:
		u.Refill, u.Reset = b.until(l, rate, now, b.Level-(l.Period-rest)), b.until(l, rate, now, 0)
	}
	return u
}
