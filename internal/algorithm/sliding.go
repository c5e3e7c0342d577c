package algorithm

// A Log is what a record of a sliding limit has no room for. Of a SlidingWindow, it is a ring of counters, one for each
// sub-bucket that may still count; of a SlidingLog, the instant of each request, in order.
type Log struct {
	n    []int64
	head int // SlidingLog: the instants before this one are dropped
}

// Clone returns a copy of g.
func (g *Log) Clone() Log { return Log{n: append([]int64(nil), g.n[g.head:]...)} }

// A ring is the state of a SlidingWindow. A request counts in the sub-bucket of its instant, in full until one period
// after the end of that.
type ring struct {
	*Record
	n     []int64 // the counter of a sub-bucket is at its end / width
	width int64
}

// ringOf returns the ring in r, and whether r is its own or may count something.
func (s *State) ringOf(r *Record) (g ring, ok bool) {
	if r.Extra == 0 || r.Level == 0 && r != s.Stored || !r.Is(s.Limit.Kind) {
		return g, false
	}
	g.Record, g.width, g.n = r, s.Limit.Width, s.Logs.At(r.Extra).n
	if r.Sibling != s.Limit.Sibling {
		g.width = CeilDiv(s.Limit.Micros, int64(r.Sibling))
	}
	return g, true
}

// endOf returns the end of the sub-bucket of an instant.
func (g *ring) endOf(at int64) int64 { return FloorTo(at, g.width) + g.width }

// span returns how far the ends are apart that have counters.
func (g *ring) span() int64 { return int64(len(g.n)) * g.width }

// place returns where the counter of the sub-bucket with this end is.
func (g *ring) place(end int64) int64 {
	n := int64(len(g.n))
	return (end/g.width%n + n) % n
}

// used returns how much g counts at now.
func (g *ring) used(period, now int64) int64 {
	if g.At+period <= now {
		return 0
	}
	used := g.Level
	for end := g.At - g.span() + g.width; end+period <= now; end += g.width {
		used -= g.n[g.place(end)]
	}
	return used
}

// until returns how long after now g takes to count no more than target.
func (g *ring) until(period, now, target int64) (wait int64) {
	switch {
	case g.Level <= target:
		return 0
	case target == 0:
		return max(0, g.At+period-now)
	}
	left, end := g.Level, g.At-g.span()+g.width
	for i := g.place(end); left > target; end += g.width {
		wait = end + period - now
		left -= g.n[i]
		if i++; i == int64(len(g.n)) {
			i = 0
		}
	}
	return max(0, wait)
}

// moveTo makes the sub-bucket with this end the newest. Counts of later sub-buckets, which the clock has left behind, move
// to it.
func (g *ring) moveTo(end int64) {
	var later int64
	for i := int64(0); g.At > end && i < int64(len(g.n)); i++ {
		n := &g.n[g.place(g.At)]
		later, *n = later+*n, 0
		g.At -= g.width
	}
	if end-g.At >= g.span() || g.At > end {
		clear(g.n)
		g.Level, g.At = later, end
	}
	for g.At < end {
		g.At += g.width
		n := &g.n[g.place(g.At)]
		g.Level, *n = g.Level-*n, 0
	}
	g.n[g.place(end)] += later
}

// slidingCode is the code of the first algorithm whose states have a Log.
const slidingCode = 8

// slidingWindow is the row of SlidingWindow. Every sibling counts every charge of the pair.
var slidingWindow = Row{
	Code: slidingCode,
	Open: func(s *State, cost int64) int64 {
		s.used = 0
		for i := range s.Run {
			if g, ok := s.ringOf(&s.Run[i]); ok {
				if end := g.endOf(s.Now); g.At > end && g.Level > 0 {
					g.moveTo(end)
				}
				s.used = max(s.used, g.used(s.Limit.Micros, s.Now))
			}
		}
		return s.waitFor(cost, (*State).untilRing)
	},
	Charge: chargeRing,
	Refund: func(s *State, at, _, cost int64) {
		for i := range s.Run {
			g, ok := s.ringOf(&s.Run[i])
			if !ok {
				continue
			}
			if end := g.endOf(at); end <= g.At && g.At-end < g.span() {
				n := &g.n[g.place(end)]
				back := min(cost, *n)
				*n, g.Level = *n-back, g.Level-back
				for g.Level > 0 && g.n[g.place(g.At)] == 0 {
					g.At -= g.width
				}
			}
		}
	},
	Report: func(s *State) Usage { return s.report(s.used, (*State).untilRing) },
	Ends:   periodEnds,
}

// periodEnds is Ends for states in which each charge counts for one period.
func periodEnds(r *Record) int64 {
	if r.Level == 0 {
		return r.At
	}
	return r.At + r.micros()
}

// untilRing returns how long after s.Now all siblings take to count no more than target.
func (s *State) untilRing(target int64) (longest int64) {
	if s.used <= target {
		return 0
	}
	for i := range s.Run {
		if g, ok := s.ringOf(&s.Run[i]); ok {
			longest = max(longest, g.until(s.Limit.Micros, s.Now, target))
		}
	}
	return longest
}

// chargeRing charges its own ring, and its siblings as far as they count something. A ring that counts nothing starts from
// the fullest sibling (of several, the one with the widest sub-buckets).
func chargeRing(s *State, cost int64) {
	var fullest ring
	var most, own int64
	for i := range s.Run {
		g, ok := s.ringOf(&s.Run[i])
		if !ok {
			continue
		}
		used := g.used(s.Limit.Micros, s.Now)
		if g.Record == s.Stored {
			own = used
		}
		switch {
		case used > most || used == most && used > 0 && g.width > fullest.width:
			fullest, most = g, used
		case used == 0 && g.Record != s.Stored: // it counts no more, even if the clock goes back
			clear(g.n)
			g.Level = 0
		}
	}
	if own == 0 {
		s.start(fullest)
	}
	cost = min(cost, MaxExact-s.used)
	for i := range s.Run {
		if g, ok := s.ringOf(&s.Run[i]); ok {
			end := g.endOf(s.Now)
			g.moveTo(end)
			g.n[g.place(end)] += cost
			g.Level += cost
		}
	}
	s.used += cost
}

// start makes its own ring count what from counts, each count in the sub-bucket that contains its end, but not in a later
// one than now's.
func (s *State) start(from ring) {
	r := s.Stored
	if r.Extra == 0 {
		r.Extra = s.Logs.Add(Log{n: make([]int64, r.Sibling+1)})
	}
	g := ring{r, s.Logs.At(r.Extra).n, s.Limit.Width}
	clear(g.n)
	g.Level, g.At = 0, g.endOf(s.Now)
	for i := range int64(len(from.n)) {
		end := from.At - i*from.width
		if n := from.n[from.place(end)]; n > 0 && end+s.Limit.Micros > s.Now {
			g.n[g.place(min(g.endOf(end), g.At))] += n
			g.Level += n
		}
	}
}
