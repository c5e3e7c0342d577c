package algorithm

import "math/bits"

// A RatedBucket is a Bucket and the rates that requests have named.
//
// Each request names the rate of its limit, but a peek names only a faster rate. Between two requests, a bucket drains
// at the slower of their rates. It is forgotten once it would be empty at the slowest rate. So nobody can refill a
// strict limit by asking for a lax one.
type RatedBucket struct {
	Bucket
	Unit    int64 // tick of Level, in microseconds
	Rate    int64 // rate of the last request, at which b drains from then on
	Slowest int64 // slowest rate since the bucket was last empty, coarse; 0 if Rate is the only one
}

// Advance returns b as it is at now after a request has named the rate of l.
func (b RatedBucket) Advance(l *Limit, now int64) RatedBucket {
	if l.Rate == 0 { // rate 0: nothing drains and nothing is admitted
		return b
	}
	if b.At > now {
		b = b.Rewind(l, now)
	}
	if b.IsForgotten(now) {
		return RatedBucket{Bucket: Bucket{At: now, Busy: b.Busy}, Unit: l.Unit, Rate: l.Rate}
	}
	b = b.in(l)
	b.Bucket = b.Drain(l, min(b.Rate, l.Rate), now)
	return b.named(l.Rate)
}

// named returns b after a request has named a rate.
func (b RatedBucket) named(rate int64) RatedBucket {
	switch before, slowest := b.Rate, b.slowestRate(); {
	case b.Level == 0:
		b.Slowest = 0
	case before != rate:
		b.Slowest = coarse(min(slowest, rate))
	}
	b.Rate = rate
	return b
}

// Finish returns b after charging each ended hold at its end. l is the limit of the request at now; if the request names
// none, l has the rate and the ticks of b. If the rate of l is the slower one, b drains at that rate meanwhile, unless
// b is forgotten at now anyway, or the request is a peek. held says that a held claim has named the rate of b; if none
// has, a bucket that is forgotten when a hold ends is not charged for it.
func (b RatedBucket) Finish(l *Limit, peek, held bool, now int64, ended []Ending) RatedBucket {
	after := b.ended(l, b.Rate, held, ended)
	if !peek && l.Rate < b.Rate && !after.IsForgotten(now) {
		return b.ended(l, l.Rate, held, ended)
	}
	return after
}

// ended is End for a bucket that drains at rate. If b.At is later than the end of a hold, because the clock has gone
// back, b is charged without draining.
func (b RatedBucket) ended(l *Limit, rate int64, held bool, ended []Ending) RatedBucket {
	for _, e := range ended {
		switch {
		case !b.IsForgotten(e.At):
			if b = b.in(l); e.At > b.At {
				b.Bucket = b.Drain(l, rate, e.At)
			}
			b = b.named(rate)
		case held:
			b = RatedBucket{Bucket: Bucket{At: max(b.At, e.At), Busy: b.Busy}, Unit: l.Unit, Rate: rate}
		default:
			continue
		}
		b.Bucket = b.Charge(l, max(b.At, e.At), e.Cost)
	}
	return b
}

// AdvanceUnnamed is Advance for a request whose rate the bucket must not record: from then on, it drains at the slower
// of the two rates.
func (b RatedBucket) AdvanceUnnamed(l *Limit, now int64) RatedBucket {
	after := b.Advance(l, now)
	if after.Level > 0 && l.Rate > 0 && !b.IsForgotten(now) {
		after.Rate = min(b.Rate, l.Rate)
	}
	return after
}

// in returns b in the ticks of l. The number of requests used stays the same, rounded up.
func (b RatedBucket) in(l *Limit) RatedBucket {
	if b.Unit != l.Unit {
		b.Level = mulDivUp(b.Level, l.Period, CeilDiv(l.Micros, b.Unit))
		b.Unit = l.Unit
	}
	return b
}

// Rewind returns b after the clock went back to now. The level that would have drained until b.At still has to drain,
// but a change of the clock never makes a bucket more than full.
func (b RatedBucket) Rewind(l *Limit, now int64) RatedBucket {
	b = b.in(l)
	rate := min(b.Rate, l.Rate)
	full := max(b.Level, l.Full)
	ticks := CeilDiv(b.At-now, l.Unit)
	if ticks > (full-b.Level)/rate {
		b.Level = full
	} else {
		b.Level += ticks * rate
	}
	b.At, b.Busy = now, min(b.Busy, now)
	return b
}

// Refund returns b, advanced or not, without the part of a charge of cost at an earlier instant that still counts. If
// nothing was charged since, the whole charge still counts. Otherwise a part may have drained while the charge was
// alone in the bucket. Refund then takes back the part that cannot have drained, if only the rate of l was named, and
// at least one request if the bucket has held as much ever since.
func (b RatedBucket) Refund(l *Limit, now, at, cost int64) RatedBucket {
	b = b.in(l)
	sure := min(cost, l.Capacity) * l.Period
	if at < b.At {
		whole := min(sure, l.Period)
		ticks := CeilDiv(max(0, now-at), l.Unit)
		if b.Rate != l.Rate || b.Slowest != 0 || l.Rate == 0 || ticks > sure/l.Rate {
			sure = 0
		} else {
			sure = max(0, sure-ticks*l.Rate)
		}
		if at >= b.Busy {
			sure = max(sure, whole)
		}
		if sure > 0 { // later charges found a lower level than Busy implies
			b.Busy = b.At
		}
	}
	b.Level = max(0, b.Level-sure)
	return b
}

// Grant returns b, which is before as it is at now, after n requests were given back, at most what was used, or taken away
// if n is negative. A ban stays. What is given back leaves before in place: the level drains to the same, and a refund
// still knows that nothing was charged since. What is taken away counts from now on, like a charge.
func (b RatedBucket) Grant(before RatedBucket, l *Limit, now, n int64) RatedBucket {
	switch {
	case n < 0:
		b.Bucket = b.add(l, -n)
		return b
	case b.Level == 0:
		return b
	case before.At > now:
		before = before.Rewind(l, now)
	}
	if before = before.in(l); l.Ban == 0 || b.Level <= l.Full-l.Period {
		before.Level -= min(before.Level, addProduct(0, n, l.Period))
	}
	return before
}

// Remembers reports whether the rates of b matter at now and l's rate is not the only one. holds says whether the pair
// holds anything.
func (b *RatedBucket) Remembers(l *Limit, holds bool, now int64) bool {
	return l.Rate > 0 && b.Rate != l.Rate && (holds || !b.IsForgotten(now))
}

// IsForgotten reports whether b is empty at now even at the slowest rate that it has to drain at. It then equals a bucket
// never used.
func (b *RatedBucket) IsForgotten(now int64) bool {
	return b.Level == 0 || now > b.At && !exceeds(b.Level, b.Unit, now-b.At, b.slowestRate())
}

// Ends returns the first instant at which b is forgotten.
func (b *RatedBucket) Ends() int64 {
	if b.Level == 0 {
		return b.At
	}
	return b.At + mulDivUp(b.Level, b.Unit, b.slowestRate())
}

func (b *RatedBucket) slowestRate() int64 {
	if b.Slowest == 0 {
		return b.Rate
	}
	return b.Slowest
}

// coarse returns a rate with its seven highest bits, all others 0, so that PackRate loses nothing.
func coarse(rate int64) int64 {
	rest := max(0, bits.Len64(uint64(rate))-7)
	return rate >> rest << rest
}

// PackRate returns a coarse rate below 2^32 in 11 bits, which are 0 for 0: the position of its highest bit and the six bits
// below.
func PackRate(rate int64) uint64 {
	n := bits.Len64(uint64(rate))
	return uint64(n)<<6 | uint64(rate)<<7>>n&(1<<6-1)
}

// UnpackRate returns what PackRate packed.
func UnpackRate(packed uint64) int64 {
	return int64((1<<6 | packed&(1<<6-1)) << (packed >> 6) >> 7)
}

// tokenBucket is the row of TokenBucket.
var tokenBucket = Row{
	Load: func(s *State) {
		p, l := s.Stored, s.Limit
		switch {
		case p.isOf(l) && p.At <= s.Now: // nearly always
			s.Bucket.Bucket = p.plainBucket().Drain(l, l.Rate, s.Now)
			s.Bucket.Unit, s.Bucket.Rate, s.Bucket.Slowest = l.Unit, l.Rate, 0
		case s.Own && !s.Peek:
			s.Bucket = p.bucket().Advance(l, s.Now)
		default:
			s.Bucket = p.bucket().AdvanceUnnamed(l, s.Now)
		}
	},
	Wait: func(s *State, cost int64) int64 { return s.Bucket.Wait(s.Limit, s.Bucket.Rate, s.Now, cost) },
	Charge: func(s *State, cost int64) {
		s.Bucket.Bucket = s.Bucket.Charge(s.Limit, s.Now, cost)
		s.Stored.setBucket(&s.Bucket, s.Limit)
	},
	Report: func(s *State) Usage { return s.Bucket.Report(s.Limit, s.Bucket.Rate, s.Now) },
	Grant: func(s *State, n int64) {
		b := s.Bucket.Grant(s.Stored.bucket(), s.Limit, s.Now, n)
		s.Stored.setBucket(&b, s.Limit)
	},
	Refund: func(p *Packed, _ *Log, l *Limit, now, at, cost int64) {
		b := p.bucket()
		if b.At > now { // as for a request: the clock has gone back
			b = b.Rewind(l, now)
		}
		b = b.Refund(l, now, at, cost)
		p.setBucket(&b, l)
	},
	NameRate: nameBucket,
	Keep: func(s *State) {
		b := s.Stored.bucket()
		if b.Rate == s.Limit.Rate {
			return
		}
		after := b.Advance(s.Limit, s.Now)
		if !s.Own {
			if after = b.AdvanceUnnamed(s.Limit, s.Now); b.Rate > 0 {
				after.Rate = min(after.Rate, b.Rate)
			}
		}
		s.Stored.setBucket(&after, s.Limit)
	},
	Finish: func(p *Packed, _ *Log, l *Limit, peek bool, now, _ int64, ended []Ending) {
		b := p.bucket()
		if after := b.Finish(l, peek, p.IsHeld(), now, ended); after != b {
			p.setBucket(&after, l)
		}
	},
	Ends: func(p *Packed) int64 {
		b := p.bucket()
		return b.Ends()
	},
	EndsAfter: func(p *Packed, g *Log, ended []Ending) int64 {
		l := bucketLimitOf(p, g)
		b := p.bucket().Finish(&l, false, p.IsHeld(), 0, ended)
		return b.Ends()
	},
	LimitOf: bucketLimitOf,
	Forget: func(p *Packed, g *Log) {
		l := bucketLimitOf(p, g)
		p.setBucket(&RatedBucket{Bucket: Bucket{At: p.At, Busy: p.At}, Unit: l.Unit, Rate: l.Rate}, &l)
	},
}

// nameBucket also rewinds the bucket if the clock has gone back. Otherwise denials would last until the clock is back
// where it was.
func nameBucket(s *State, holds bool) {
	p, l, now := s.Stored, s.Limit, s.Now
	if l.Rate == 0 {
		return
	}
	b := p.bucket()
	if b.At > now {
		b = b.Rewind(l, now)
		p.setBucket(&b, l)
	}
	switch {
	case !b.Remembers(l, holds, now):
		return
	case !s.Peek && !s.Own:
		b = b.AdvanceUnnamed(l, now)
	case !s.Peek || s.Own && l.Rate > b.Rate: // so that a peek reports the same wait as a charge
		b = b.Advance(l, now)
	default:
		return
	}
	p.setBucket(&b, l)
}

func bucketLimitOf(p *Packed, _ *Log) Limit {
	b := p.bucket()
	l := Limit{Algorithm: TokenBucket, Kind: p.Kind & kindBits &^ tickBits, Micros: p.micros(), Rate: b.Rate, Unit: b.Unit, Code: p.Kind & tickBits}
	l.Period = CeilDiv(l.Micros, l.Unit)
	return l
}
