package algorithm

// A Log is what a record of a sliding limit has no room for. Of a SlidingWindow, it is a ring of counters, one for each
// sub-bucket that may still count; of a SlidingLog, the instant of each request, in order.
type Log struct {
	n      []int64
	head   int   // SlidingLog: the instants before this one are dropped
	oldest int64 // SlidingWindow: the end of the oldest sub-bucket that counts something
}

// Clone returns a copy of g.
func (g *Log) Clone() Log { return Log{n: append([]int64(nil), g.n[g.head:]...), oldest: g.oldest} }

// A ring is the state of a SlidingWindow. A request counts in the sub-bucket of its instant, in full until one period
// after the end of that. A Record has the sum of the counters as Level, the end of the newest sub-bucket that counts something as
// At, the number of sub-buckets as Sibling, and the number of its Log as Extra.
type ring struct {
	*Record
	*Log        // the counter of a sub-bucket is at its end / width
	width int64 // of a sub-bucket
}

// ringOf returns the ring in r. It reports false unless r is s.Stored, or a sibling that may count something.
func (s *State) ringOf(r *Record) (g ring, ok bool) {
	if r.Extra == 0 || r.Level == 0 && r != s.Stored || !r.Is(s.Limit.Kind) {
		return g, false
	}
	width := s.Limit.Width
	if r.Sibling != s.Limit.Sibling {
		width = CeilDiv(s.Limit.Micros, int64(r.Sibling))
	}
	return ring{r, s.Logs.At(r.Extra), width}, true
}

func (g *ring) endOf(at int64) int64 { return FloorTo(at, g.width) + g.width }

// at returns the counter of the sub-bucket with this end.
func (g *ring) at(end int64) *int64 {
	i := end / g.width % int64(len(g.n))
	if i < 0 {
		i += int64(len(g.n))
	}
	return &g.n[i]
}

func (g *ring) used(period, now int64) int64 {
	if g.Level == 0 || g.At+period <= now {
		return 0
	}
	used := g.Level
	for end := g.oldest; end+period <= now; end += g.width {
		used -= *g.at(end)
	}
	return used
}

// until returns how long after now g takes to count no more than target.
func (g *ring) until(period, now, target int64) int64 {
	if g.Level <= target {
		return 0
	}
	left, end := g.Level-*g.at(g.oldest), g.oldest
	for left > target && end < g.At {
		end += g.width
		left -= *g.at(end)
	}
	return max(0, end+period-now)
}

// UntilCounted returns how long after now a ring takes to count no more than target: it has the sum of its counters, the ends of the
// newest and of the oldest sub-bucket that counts something, and the counters, where a sub-bucket has the index end / width.
func (l *Limit) UntilCounted(sum, newest, oldest int64, counters []int64, now, target int64) int64 {
	g := ring{&Record{Level: sum, At: newest}, &Log{n: counters, oldest: oldest}, l.Width}
	return g.until(l.Micros, now, target)
}

// moveTo makes the sub-bucket of now the newest. Counts of later sub-buckets, which the clock has left behind, move to it. Counts
// that have ended are cleared, so that they stay ended even if the clock goes back.
func (g *ring) moveTo(period, now int64) {
	end, later := g.endOf(now), int64(0)
	for ; g.At > end && g.At >= g.oldest; g.At -= g.width {
		n := g.at(g.At)
		later, *n = later+*n, 0
	}
	for ; g.oldest <= g.At && (*g.at(g.oldest) == 0 || g.oldest+period <= now); g.oldest += g.width {
		n := g.at(g.oldest)
		g.Level, *n = g.Level-*n, 0
	}
	if g.oldest > g.At {
		g.oldest = end
	}
	g.At = end
	*g.at(end) += later
}

// slidingWindow is the row of SlidingWindow. Every sibling counts every charge of the pair.
var slidingWindow = Row{
	Name: "sliding-window",
	Open: func(s *State) (used int64) {
		for i := range s.Run {
			if g, ok := s.ringOf(&s.Run[i]); ok {
				if g.At-g.width > s.Now && g.Level > 0 {
					g.moveTo(s.Limit.Micros, s.Now)
				}
				used = max(used, g.used(s.Limit.Micros, s.Now))
			}
		}
		return used
	},
	UntilUsed: func(s *State, target int64) (until, unused int64) {
		for i := range s.Run {
			if g, ok := s.ringOf(&s.Run[i]); ok && g.Level > 0 {
				until = max(until, g.until(s.Limit.Micros, s.Now, target))
				unused = max(unused, periodEnds(g.Record)-s.Now)
			}
		}
		return until, unused
	},
	Charge: chargeRing,
	Refund: func(s *State, at, _, cost int64) {
		for i := range s.Run {
			g, ok := s.ringOf(&s.Run[i])
			if !ok {
				continue
			}
			if end := g.endOf(at); end <= g.At && end >= g.oldest {
				n := g.at(end)
				back := min(cost, *n)
				*n, g.Level = *n-back, g.Level-back
				for g.Level > 0 && *g.at(g.At) == 0 {
					g.At -= g.width
				}
				for g.Level > 0 && *g.at(g.oldest) == 0 {
					g.oldest += g.width
				}
			}
		}
	},
	Ends: periodEnds,
}

// periodEnds is Ends for states in which each charge counts for one period.
func periodEnds(r *Record) int64 { return r.At + r.micros() }

// chargeRing charges its own ring, and its siblings as far as they count something.
func chargeRing(s *State, cost int64) {
	own := s.Stored
	if own.Extra == 0 {
		own.Extra = s.Logs.Add(Log{n: make([]int64, own.Sibling+1)})
	}
	if s.Siblings > 0 {
		s.emptySiblings()
	}
	if own.Level == 0 || periodEnds(own) <= s.Now {
		s.startRing()
	}
	cost = min(cost, MaxExact-s.used)
	for i := range s.Run {
		if g, ok := s.ringOf(&s.Run[i]); ok {
			if s.Now >= g.At || s.Now < g.At-g.width || g.oldest+s.Limit.Micros <= s.Now {
				g.moveTo(s.Limit.Micros, s.Now)
			}
			*g.at(g.At) += cost
			g.Level += cost
		}
	}
	s.used += cost
}

// startRing starts its own ring, which counts nothing, from the fullest sibling (of several, the one with the widest sub-buckets):
// it counts what that counts, each count in the sub-bucket that contains its end, but not in a later one than now's.
func (s *State) startRing() {
	g, _ := s.ringOf(s.Stored)
	clear(g.n)
	g.Level, g.At = 0, g.endOf(s.Now)
	g.oldest = g.At
	from, most, period := g, int64(0), s.Limit.Micros
	for i := range s.Run {
		if other, ok := s.ringOf(&s.Run[i]); ok {
			if used := other.used(period, s.Now); used > most || used == most && other.width > from.width {
				from, most = other, used
			}
		}
	}
	for end := from.oldest; end <= from.At; end += from.width {
		if n := *from.at(end); n > 0 && end+period > s.Now {
			to := min(g.endOf(end), g.At)
			g.oldest = min(g.oldest, to)
			*g.at(to) += n
			g.Level += n
		}
	}
}
