package algorithm

import "sort"

// SlidingWindow and SlidingLog differ in one thing: the stamp they put on an admitted request. Both count it until one
// period after its stamp.

// Stamp returns what a sliding limit remembers of a request at now: a SlidingLog the instant itself, a SlidingWindow the end
// of its sub-bucket.
func (l *Limit) Stamp(now int64) int64 {
	if l.Width == 0 {
		return now
	}
	return FloorTo(now, l.Width) + l.Width
}

// latest returns the latest stamp that a request up to now can have got, whatever the number of sub-buckets: the fewest
// are two.
func (l *Limit) latest(now int64) int64 {
	if l.Width == 0 {
		return now
	}
	return now + CeilDiv(l.Micros, minBuckets)
}

// A Log is the state of a SlidingWindow or a SlidingLog: the admitted costs that still count, by stamp. Its methods take time that
// grows with the logarithm of the number of stamps.
type Log struct{ entries ring }

// Used returns how much the log counts.
func (g *Log) Used() int64 { return g.entries.total }

// Last returns the newest stamp, or 0 if there is none.
func (g *Log) Last() int64 {
	if g.entries.count == 0 {
		return 0
	}
	return g.entries.stamp(g.entries.count - 1)
}

// Advance drops what no longer counts at now. After the clock went back, what has a later stamp than is possible counts as
// if made now.
func (g *Log) Advance(l *Limit, now int64) {
	e := &g.entries
	if e.count == 0 {
		return
	}
	if e.stamp(0)+l.Micros <= now {
		e.dropOldest(sort.Search(e.count, func(i int) bool { return e.stamp(i)+l.Micros > now }))
	}
	if g.Last() > l.latest(now) {
		g.lower(l.Stamp(now))
	}
}

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

// Wait returns how long after now the log admits cost, which is at most the rate.
func (g *Log) Wait(l *Limit, now, cost int64) int64 { return g.until(l, now, l.Rate-cost) }

// until returns how long after now the log takes to shrink to target. What stands in a sub-bucket that was wider than it
// would be now counts as if made now.
func (g *Log) until(l *Limit, now, target int64) int64 {
	if g.Used() <= target {
		return 0
	}
	stamp := g.entries.stamp(g.entries.search(g.Used() - target))
	return min(stamp, l.Stamp(now)) + l.Micros - now
}

// Charge counts cost, whether it fits or not.
func (g *Log) Charge(l *Limit, now, cost int64) {
	stamp := l.Stamp(now)
	if g.Last() > stamp {
		g.lower(stamp)
	}
	g.add(stamp, min(cost, MaxExact-g.Used()))
}

// Refund takes back a charge of cost at an earlier instant, if it still counts.
func (g *Log) Refund(l *Limit, at, cost int64) {
	e, stamp := &g.entries, l.Stamp(at)
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
	u := Usage{Remaining: max(0, l.Rate-g.Used())}
	if u.Remaining < l.Rate {
		u.Refill = g.until(l, now, l.Rate-u.Remaining-1)
		u.Reset = g.until(l, now, 0)
	}
	return u
}

// Clone returns a copy of the log.
func (g *Log) Clone() Log {
	c := *g
	c.entries.cells = append([]cell(nil), g.entries.cells...)
	return c
}
