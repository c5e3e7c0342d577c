package algorithm

// A booking is a charge for a request that waits for its turn. Until its turn, the bucket is more than full. The level
// says everything about the requests that wait: the next request has its turn when the level leaves room for its cost.

// raised returns b, which is advanced to now, with a level of at least what drains until a ban ends, so that requests
// that wait for the end of the ban get their turns after it.
func (b Bucket) raised(l *Limit, now, ban int64) Bucket {
	if ban > 0 {
		b.Level = max(b.Level, addProduct(0, l.Rate, CeilDiv(ban+now-b.At, l.Unit)))
	}
	return b
}

// CanBook reports whether b, which is advanced to now, can hold cost on top of what is booked without exceeding
// MaxExact. ban is how long the pair is still banned, in microseconds.
func (b Bucket) CanBook(l *Limit, now, ban, cost int64) bool {
	return fits(b.raised(l, now, ban).Level, cost, l.Period)
}

// Book charges the bucket in s for a request that waits for its turn, and stores it. A turn is a whole tick, so that no
// two turns are closer than the rate allows.
func (s *State) Book(ban, cost int64) {
	l := s.Limit
	b := s.Bucket.raised(l, s.Now, ban).Charge(l, s.Now, cost)
	if b.Level > l.Full {
		b.Level = addProduct(l.Full, l.Rate, CeilDiv(b.Level-l.Full, l.Rate))
	}
	s.Bucket.Bucket = b
	s.Stored.setBucket(&s.Bucket, l)
}

// RefundTurn is Refund for a TokenBucket whose requests may wait: see RatedBucket.RefundTurn.
func (p *Packed) RefundTurn(l *Limit, now, at, turn, cost int64) {
	b := p.bucket()
	if b.At > now { // as for a request: the clock has gone back
		b = b.Rewind(l, now)
	}
	b = b.RefundTurn(l, now, at, turn, cost)
	p.setBucket(&b, l)
}

// RefundTurn returns b, advanced or not, without the part of a charge that still counts. The request was charged at the
// instant at, and its turn is at turn, which may be past or future. If nothing was charged behind it, the whole charge
// still counts. While other requests wait behind it, nothing can be given back, because their turns stay and nobody may
// go before them. Once they have gone, the part that cannot have drained since the turn still counts, if only the rate
// of l was named. If the clock has gone back since, so has the turn.
func (b RatedBucket) RefundTurn(l *Limit, now, at, turn, cost int64) RatedBucket {
	b = b.in(l)
	if back := at - b.At; back >= l.Unit {
		turn -= back
	}
	all, given := min(cost, l.Capacity)*l.Period, int64(0)
	known := b.Rate == l.Rate && b.Slowest == 0
	switch {
	case b.isLast(l, turn) && (known || at >= b.At):
		given = all
	case known && !b.hasWaiting(l, now):
		if ticks := CeilDiv(max(0, now-turn), l.Unit); ticks <= all/b.Rate {
			given = all - ticks*b.Rate
		}
	}
	if at < b.At && given > 0 { // later charges found a lower level than Busy implies
		b.Busy = b.At
	}
	b.Level = max(0, b.Level-given)
	return b
}

// isLast reports whether nothing was charged behind a request with a turn: at its turn b is no more than full, and
// nothing was charged later.
func (b *Bucket) isLast(l *Limit, turn int64) bool {
	return turn >= b.At && b.Level <= addProduct(l.Full, l.Rate, CeilDiv(turn-b.At, l.Unit))
}

// hasWaiting reports whether requests wait for their turns at now.
func (b *RatedBucket) hasWaiting(l *Limit, now int64) bool {
	return b.Level > addProduct(l.Full, b.Rate, max(0, now-b.At)/l.Unit)
}
