package algorithm

import (
	"slices"
	"sort"
)

// SlidingWindow and SlidingLog differ only in the stamp of an admitted request. Both count the request until one period
// after its stamp.

// stamp returns the stamp of a request at now: for a SlidingLog, whose width is 0, the instant itself; for a
// SlidingWindow, the end of its sub-bucket.
func stamp(width, now int64) int64 {
	if width == 0 {
		return now
	}
	return FloorTo(now, width) + width
}

// A Log is the state of a SlidingWindow or a SlidingLog: the admitted costs that still count, by stamp. Its methods
// take time that grows with the logarithm of the number of stamps.
type Log struct {
	entries ring
	width   int64 // width of the widest sub-bucket of any stamp
	grants  grants
}

// Width returns the width of the widest sub-bucket that the log knows of; 0 in a SlidingLog.
func (g *Log) Width() int64 { return g.width }

// Used returns how much the log counts.
func (g *Log) Used() int64 { return g.entries.total }

// Last returns the newest stamp, or 0 if there is none.
func (g *Log) Last() int64 {
	if g.entries.count == 0 {
		return 0
	}
	return g.entries.stamp(g.entries.count - 1)
}

// Advance drops entries that no longer count at now. A stamp that is later than now by more than the widest sub-bucket
// shows that the clock has gone back. Advance changes it to the latest stamp that a request at now can get. It treats grants
// alike.
func (g *Log) Advance(l *Limit, now int64) {
	e := &g.entries
	if len(g.grants) > 0 { // states without a log share an empty log, which must not be modified
		g.grants = g.grants.advance(now, now+l.Micros)
	}
	if e.count == 0 {
		return
	}
	if e.stamp(0)+l.Micros <= now {
		e.dropOldest(sort.Search(e.count, func(i int) bool { return e.stamp(i)+l.Micros > now }))
	}
	g.lower(now + g.width)
}

// Keep records the width of the sub-buckets of l, for the stamps of requests at now and of holds that end.
func (g *Log) Keep(l *Limit, now int64) {
	if g.Advance(l, now); g.entries.count == 0 || l.Width > g.width {
		g.width = l.Width
	}
}

// Finish charges each ended hold at its end. If no held claim has named the limit, a log that counts nothing at that
// instant is not charged.
func (g *Log) Finish(l *Limit, held bool, ended []Ending) {
	for _, e := range ended {
		if g.Advance(l, e.At); held || g.Used() > 0 {
			g.Charge(l, e.At, e.Cost)
		}
	}
}

// Forget drops all entries and grants.
func (g *Log) Forget() {
	g.entries.clear()
	g.grants = nil
}

// Grant grants n requests for one period from now.
func (g *Log) Grant(l *Limit, now, n int64) { g.grants = g.grants.add(n, now+l.Micros) }

// lower makes stamps that are later than limit that one.
func (g *Log) lower(limit int64) {
	later := int64(0)
	for g.entries.count > 0 && g.Last() > limit {
		later += g.entries.dropNewest()
	}
	if later > 0 {
		g.add(limit, later)
	}
}

// add counts cost with a stamp that is not before the newest.
func (g *Log) add(stamp, cost int64) {
	if n := g.entries.count; n > 0 && g.entries.stamp(n-1) == stamp {
		g.entries.add(n-1, cost)
		return
	}
	g.entries.append(stamp, cost)
}

// Wait returns how long after now the log admits cost, or Never. The rate changes each time a grant ends.
func (g *Log) Wait(l *Limit, now, cost int64) int64 {
	if l.Rate == 0 {
		return Never
	}
	from, target := now, l.Rate+g.grants.at(now)-cost
	for _, one := range g.grants {
		if target >= 0 {
			if at := max(from, g.fallsTo(l, target)); at < one.ends {
				return at - now
			}
		}
		from, target = one.ends, target-one.n
	}
	if target < 0 {
		return Never
	}
	return max(from, g.fallsTo(l, target)) - now
}

// fallsTo returns the instant at which the entries shrink to target, or 0 if they are not above it.
func (g *Log) fallsTo(l *Limit, target int64) int64 {
	if g.Used() <= target {
		return 0
	}
	return g.entries.stamp(g.entries.search(g.Used()-target)) + l.Micros
}

// Charge counts cost, whether it fits or not. From then on, entries in a sub-bucket wider than l's count as if made
// now.
func (g *Log) Charge(l *Limit, now, cost int64) {
	g.Keep(l, now)
	last := stamp(l.Width, now)
	g.lower(last)
	g.add(last, min(cost, MaxExact-g.Used()))
}

// Refund takes back a charge of cost at an earlier instant, if it still counts.
func (g *Log) Refund(l *Limit, at, cost int64) {
	e, stamp := &g.entries, stamp(l.Width, at)
	i := sort.Search(e.count, func(i int) bool { return e.stamp(i) >= stamp })
	if i < e.count && e.stamp(i) == stamp {
		n := e.at(i)
		if e.add(i, -min(cost, n)); cost >= n {
			e.trim()
		}
	}
}

// Report says what the log leaves.
func (g *Log) Report(l *Limit, now int64) Usage {
	u, missing := UsageOf(l, g.Used(), g.grants.at(now))
	if !missing {
		return u
	}
	u.Refill, u.Reset = g.Wait(l, now, u.Remaining+1), max(0, g.fallsTo(l, 0)-now)
	switch {
	case u.Remaining == 0:
		u.Reset = max(u.Reset, u.Refill)
	case u.Refill == Never || u.Refill > u.Reset:
		u.Refill = u.Reset
	}
	return u
}

// Clone returns a copy of the log.
func (g *Log) Clone() Log {
	c := *g
	c.entries.cells = slices.Clone(g.entries.cells)
	c.grants = slices.Clone(g.grants)
	return c
}

// slidingWindow and slidingLog are the rows of SlidingWindow and SlidingLog.
var (
	slidingWindow = sliding(8, SlidingWindow)
	slidingLog    = sliding(12, SlidingLog)
)

func sliding(code uint64, a Algorithm) Row {
	return Row{
		Code:     code,
		KeepsLog: true,
		Load: func(s *State) {
			s.Log.Advance(s.Limit, s.Now)
			s.Stored.setLog(s.Log)
		},
		Wait: func(s *State, cost int64) int64 { return s.Log.Wait(s.Limit, s.Now, cost) },
		Charge: func(s *State, cost int64) {
			s.Log.Charge(s.Limit, s.Now, cost)
			s.Stored.setLog(s.Log)
		},
		Report: func(s *State) Usage { return s.Log.Report(s.Limit, s.Now) },
		Grant: func(s *State, n int64) {
			s.Log.Grant(s.Limit, s.Now, n)
			s.Stored.setLog(s.Log)
		},
		Refund: func(p *Packed, g *Log, l *Limit, _, at, cost int64) {
			g.Refund(l, at, cost)
			p.setLog(g)
		},
		Keep: func(s *State) {
			s.Log.Keep(s.Limit, s.Now)
			s.Stored.setLog(s.Log)
		},
		Finish: func(p *Packed, g *Log, l *Limit, _ bool, _, _ int64, ended []Ending) {
			g.Finish(l, p.IsHeld(), ended)
			p.setLog(g)
		},
		Ends: periodEnds,
		EndsAfter: func(p *Packed, g *Log, ended []Ending) int64 {
			return max(periodEnds(p), lastOf(ended)+g.Width()+p.micros())
		},
		LimitOf: func(p *Packed, g *Log) Limit {
			return Limit{Algorithm: a, Kind: p.Kind & kindBits, Micros: p.micros(), Width: g.Width()}
		},
		Forget: func(p *Packed, g *Log) {
			g.Forget()
			p.setLog(g)
		},
	}
}
