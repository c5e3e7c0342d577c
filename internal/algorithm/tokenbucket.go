package algorithm

import "math/bits"

// A Bucket is the state of a TokenBucket: its level rises by one period with each request and drains at the rate.
// Counting in requests × period makes every rate a whole number, and a changed burst needs no conversion. Unlike the
// "theoretical arrival time" of ATM Forum TM 4.0, §4.4.2, level and instant are kept apart for the same reason.
//
// A Record has the tick in its Kind, the rate as Sibling, and At - Busy as Extra. Raised is a cell.
type Bucket struct {
	Level  int64 // requests used × period, in ticks, at the instant At
	At     int64
	Busy   int64 // At, or earlier: At of the last charge that found less than one request in the bucket, or a fuller sibling
	Raised int64 // the part of Level that bans have added, at most
}

// maxBusy is the largest At - Busy, in microseconds: 71 minutes.
const maxBusy = 1<<32 - 1

// Drain returns b as it is at now, which is not before At, if it drains at rate. Time that does not fill a tick counts
// later, unless it empties b.
func (b Bucket) Drain(l *Limit, rate, now int64) Bucket {
	ticks, rest := uint64(now-b.At), int64(0)
	if l.Unit != 1 {
		ticks, rest = ticks/uint64(l.Unit), int64(ticks%uint64(l.Unit))
	}
	hi, drained := bits.Mul64(ticks, uint64(rate))
	level := b.Level - int64(drained)
	if hi > 0 || drained > uint64(b.Level) || level <= rate && level*l.Unit <= rate*rest {
		return Bucket{At: now, Busy: b.Busy}
	}
	b.Level, b.At = level, now-rest
	return b
}

// Until returns how long after now b, which is as it is at now, takes to drain to target, and to be empty. It reaches target after whole
// ticks, but may be empty within one.
func (b *Bucket) Until(l *Limit, rate, now, target int64) (until, empty int64) {
	rest := now - b.At // less than a tick
	empty = min(mulDivUpToTwice(b.Level, l.Unit, rate)-rest, MaxExact)
	if b.Level <= target {
		return 0, empty
	}
	ticks := CeilDiv(b.Level-target, rate)
	if hi, micros := bits.Mul64(uint64(ticks), uint64(l.Unit)); hi == 0 && micros < 2*MaxExact {
		return min(int64(micros)-rest, empty), empty
	}
	return empty, empty
}

// Charge returns b with cost in it, whether or not it fits.
func (b Bucket) Charge(l *Limit, cost int64) Bucket {
	if b.Level < l.Period {
		b.Busy = b.At
	}
	b.Raised = min(b.Raised, b.Level)
	b.Level = addProduct(b.Level, cost, l.Period)
	return b
}

var tokenBucket = Row{
	Name: "token-bucket",
	Open: openBucket,
	UntilUsed: func(s *State, target int64) (until, unused int64) {
		until, unused = s.Until(s.Limit, s.Limit.Rate, s.Now, target)
		if s.Siblings > 0 {
			until, unused = max(until, s.untilSiblings(target)), max(unused, s.untilSiblings(0))
		}
		return until, unused
	},
	Charge: chargeBucket,
	Book:   bookBucket,
	Refund: refundBucket,
	Ends:   bucketEnds,
}

func bucketEnds(r *Record) int64 {
	return r.At + mulDivUp(r.Level, Units[r.Kind&tickBits], int64(r.Sibling))
}

// load returns the bucket in r in ticks of s.Limit. The number of requests used stays the same, rounded up.
func (s *State) load(r *Record) Bucket {
	b := Bucket{Level: r.Level, At: r.At, Busy: r.At - int64(r.Extra)}
	if s.Cells != nil {
		b.Raised = s.Cells.raised(r)
	}
	if tick, l := r.Kind&tickBits, s.Limit; tick != l.Code {
		period := CeilDiv(l.Micros, Units[tick])
		b.Level, b.Raised = mulDivUp(b.Level, l.Period, period), mulDivUp(b.Raised, l.Period, period)
	}
	return b
}

// put stores b, which counts in ticks of s.Limit, in r.
func (s *State) put(r *Record, b *Bucket) {
	r.Kind = s.Limit.Kind | s.Limit.Code
	r.Level, r.At, r.Extra = b.Level, b.At, uint32(min(b.At-b.Busy, maxBusy))
	if s.Cells != nil {
		s.Cells.raise(r, b.Raised)
	}
}

// view returns the bucket in r as it is at s.Now. If the clock has gone back, the level that would have drained until r.At
// still has to drain, but a change of the clock never makes a bucket more than full. An empty bucket equals a new one.
func (s *State) view(r *Record) Bucket {
	l, rate, b := s.Limit, int64(r.Sibling), s.load(r)
	if b.At > s.Now && !s.Ended {
		full, ticks := max(b.Level, l.Full), CeilDiv(b.At-s.Now, l.Unit)
		switch {
		case b.Level == 0:
		case ticks > (full-b.Level)/rate:
			b.Level = full
		default:
			b.Level += ticks * rate
		}
		b.At, b.Busy = s.Now, min(b.Busy, s.Now)
		s.put(r, &b)
	}
	return b.Drain(l, rate, max(b.At, s.Now))
}

// openBucket makes s the bucket of its own rate. A key is as strict as the strictest of its buckets, whatever rates it
// asks at: none of them may be too full.
func openBucket(s *State) (used int64) {
	l, r := s.Limit, s.Stored
	switch {
	case r == nil:
		s.Bucket = Bucket{At: s.Now, Busy: s.Now}
	case r.Kind == l.Kind|l.Code && r.At <= s.Now && s.Cells == nil: // nearly always
		s.Bucket = Bucket{Level: r.Level, At: r.At, Busy: r.At - int64(r.Extra)}.Drain(l, l.Rate, s.Now)
	default:
		s.Bucket = s.view(r)
	}
	s.others, used = 0, s.Level
	for i := 0; s.Siblings > 0 && i < len(s.Run); i++ {
		if r := &s.Run[i]; r.isSibling(l) {
			b := s.view(r)
			s.others = max(s.others, b.Level-b.Raised)
			used = max(used, s.others)
		}
	}
	return used
}

// untilSiblings returns how long after s.Now the siblings take to drain to target. They do not see what bans of another limit have
// added.
func (s *State) untilSiblings(target int64) (longest int64) {
	for i := range s.Run {
		if r := &s.Run[i]; r.isSibling(s.Limit) {
			b := s.view(r)
			until, _ := b.Until(s.Limit, int64(r.Sibling), s.Now, target+b.Raised)
			longest = max(longest, until)
		}
	}
	return longest
}

// siblingsAfter returns what the fullest sibling holds after a time.
func (s *State) siblingsAfter(wait int64) (used int64) {
	for i := range s.Run {
		if r := &s.Run[i]; r.isSibling(s.Limit) {
			b := s.view(r)
			used = max(used, b.Drain(s.Limit, int64(r.Sibling), max(b.At, s.Now+wait)).Level-b.Raised)
		}
	}
	return used
}

// fullest returns the bucket that a charge raises: as full as the fullest sibling. What it did not hold is not given back.
func (s *State) fullest() Bucket {
	if s.others > s.Level {
		now := max(s.At, s.Now)
		return Bucket{Level: s.others, At: now, Busy: now}
	}
	return s.Bucket
}

// chargeBucket begins the ban of the limit if at least one request was free in the bucket before the charge, and less than
// one is free after it: when the ban is over, exactly one request fits.
func chargeBucket(s *State, cost int64) {
	l := s.Limit
	begins := l.Ban > 0 && s.BeginsBan(cost)
	if s.Siblings > 0 {
		s.Bucket = s.fullest()
		s.emptySiblings()
	}
	if s.Bucket = s.Charge(l, cost); begins {
		ticks := CeilDiv(l.Ban+max(0, s.Now-s.At), l.Unit)
		if level := addProduct(l.Full-l.Period, l.Rate, ticks); level > s.Level {
			s.Raised, s.Level = s.Raised+level-s.Level, level
		}
	}
	s.used = s.Level
	s.put(s.Stored, &s.Bucket)
}

// BeginsBan reports whether a charge of cost begins the ban of s.Limit. The pair needs a cell then.
func (s *State) BeginsBan(cost int64) bool {
	l := s.Limit
	last := l.Full - l.Period // the highest level with one request free
	return l.Ban > 0 && s.Level <= last && addProduct(max(s.Level, s.others), cost, l.Period) > last
}

// A booking is a charge for a request that waits for its turn. Until its turn, the bucket is more than full. The level
// says everything about the requests that wait: the next request has its turn when the level leaves room for its cost.

// booked returns the bucket after a booking, and whether it is within the whole numbers. Before it, the level is at least
// what drains until a ban ends, and what siblings hold then, so that requests that wait for the end of the ban get their
// turns after it. If siblings make the request wait, the bucket is full when they no longer do: later requests get later turns.
func (s *State) booked(cost, ban int64) (b Bucket, fit bool) {
	l := s.Limit
	b = s.fullest()
	ticks := func(wait int64) int64 { return CeilDiv(wait+max(0, s.Now-b.At), l.Unit) }
	if ban > 0 {
		b.Level = max(b.Level, addProduct(s.siblingsAfter(ban), l.Rate, ticks(ban)))
	}
	fit = fits(b.Level, cost, l.Period)
	b = b.Charge(l, cost)
	if s.behind > 0 {
		fit = fit && fits(l.Full, l.Rate, ticks(s.behind))
		b.Level = max(b.Level, addProduct(l.Full, l.Rate, ticks(s.behind)))
	}
	return b, fit
}

// CanBook reports whether cost, which is at most the capacity, can be booked, while the pair is banned for ban microseconds more.
// It comes before Book.
func (s *State) CanBook(cost, ban int64) bool {
	s.behind = s.untilSiblings((s.Limit.Capacity - cost) * s.Limit.Period)
	_, fit := s.booked(cost, ban)
	return fit
}

// bookBucket books a turn: a whole tick, so that no two turns are closer than the rate allows.
func bookBucket(s *State, cost, ban int64) {
	l := s.Limit
	s.Bucket, _ = s.booked(cost, ban)
	if s.Level > l.Full {
		s.Level = addProduct(l.Full, l.Rate, CeilDiv(s.Level-l.Full, l.Rate))
	}
	s.used = s.Level
	s.put(s.Stored, &s.Bucket)
	s.emptySiblings()
}

// refundBucket takes from a bucket, opened or not, the part of a charge at an earlier instant that still counts. The
// buckets of siblings stay as they are.
func refundBucket(s *State, at, turn, cost int64) {
	r := s.Stored
	if r == nil {
		return
	}
	b := s.load(r)
	cost = min(cost, s.Limit.Capacity)
	sure := b.undrained(s.Limit, s.Now, at, cost)
	if turn != NoTurn {
		sure = b.unbooked(s.Limit, s.Now, at, turn, cost)
	}
	if at < b.At && sure > 0 { // later charges found a lower level than Busy implies
		b.Busy = b.At
	}
	b.Level = max(0, b.Level-sure)
	b.Raised = min(b.Raised, b.Level)
	s.put(r, &b)
}

// undrained returns how much of a charge at an earlier instant still counts in b. If nothing was charged since, that is
// all of it. Otherwise a part may have drained while the charge was alone in the bucket: then it is the part that cannot
// have drained, and at least one request if the bucket has held as much ever since.
func (b *Bucket) undrained(l *Limit, now, at, cost int64) int64 {
	all := cost * l.Period
	if at >= b.At {
		return all
	}
	sure := drained(l, all, max(0, now-at))
	if at >= b.Busy {
		sure = max(sure, min(all, l.Period))
	}
	return sure
}

// drained returns how much of a level is left after so many microseconds at least.
func drained(l *Limit, level, passed int64) int64 {
	if ticks := CeilDiv(passed, l.Unit); ticks <= level/l.Rate {
		return level - ticks*l.Rate
	}
	return 0
}

// unbooked is undrained for a request that was charged at the instant at and has its turn at turn, which may be past or
// future. If nothing was charged behind it, the whole charge still counts. While other requests wait behind it, nothing
// can be given back, because their turns stay and nobody may go before them. Once they have gone, the part that cannot
// have drained since the turn still counts. If the clock has gone back since, so has the turn.
func (b *Bucket) unbooked(l *Limit, now, at, turn, cost int64) int64 {
	if back := at - b.At; back >= l.Unit {
		turn -= back
	}
	all := cost * l.Period
	switch {
	case turn >= b.At && b.Level <= addProduct(l.Full, l.Rate, CeilDiv(turn-b.At, l.Unit)): // nothing is behind it
		return all
	case b.Level > addProduct(l.Full, l.Rate, max(0, now-b.At)/l.Unit): // requests wait
		return 0
	}
	return drained(l, all, max(0, now-turn))
}

// GiveBack lowers all buckets of the limit by n requests, at most to what was used. Bans stay. A bucket drains as before,
// and a refund still knows what was charged since. A reset ends refunds of charges that the level no longer shows.
func (s *State) GiveBack(n int64) {
	l := s.Limit
	if l.Ban > 0 && max(s.Level, s.others) > l.Full-l.Period {
		return
	}
	for i := range s.Run {
		r := &s.Run[i]
		if !r.Is(l.Kind) {
			continue
		}
		s.view(r) // moves it to now if it lies in the future
		s.Cells.keep(r.Ends())
		b, level := s.load(r), addProduct(0, n, l.Period)
		if r.Sibling != l.Sibling && b.Raised > 0 { // the ban of its own limit stays
			b.Raised = min(b.Level, b.Raised+level)
		} else {
			b.Level -= min(b.Level, level)
			b.Raised = min(b.Raised, b.Level)
		}
		s.put(r, &b)
	}
}
