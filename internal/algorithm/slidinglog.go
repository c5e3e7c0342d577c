package algorithm

import "sort"

// MaxMembers is how many requests a SlidingLog counts at most: its rate and grants together. What is charged beyond that
// does not count.
const MaxMembers = 10_000

// fewMembers is how many instants an empty log keeps room for.
const fewMembers = 32

// noLog is the log of states that have none. It never changes.
var noLog Log

func (s *State) log() *Log {
	if s.Stored == nil || s.Stored.Extra == 0 {
		return &noLog
	}
	return s.Logs.At(s.Stored.Extra)
}

// after returns the index of the first instant that is later than at.
func (g *Log) after(at int64) int {
	if g.head == len(g.n) || g.n[g.head] > at { // nearly always
		return g.head
	}
	return g.head + sort.Search(len(g.n)-g.head, func(i int) bool { return g.n[g.head+i] > at })
}

// A Record of a SlidingLog has the number of requests as Level, the newest instant as At, and the number of its Log as Extra.
var slidingLog = Row{
	Name: "sliding-log",
	Open: func(s *State) int64 {
		g := s.log()
		for i := len(g.n) - 1; i >= g.head && g.n[i] > s.Now; i-- { // the clock has gone back
			g.n[i], s.Stored.At = s.Now, s.Now
		}
		return int64(len(g.n) - g.after(s.Now-s.Limit.Micros))
	},
	UntilUsed: func(s *State, target int64) (until, unused int64) {
		n := s.log().n
		from := s.Limit.Micros - s.Now
		return n[int64(len(n))-target-1] + from, n[len(n)-1] + from
	},
	Charge: func(s *State, cost int64) {
		r := s.Stored
		if r.Extra == 0 {
			r.Extra = s.Logs.Add(Log{})
		}
		g := s.log()
		g.drop(g.after(s.Now - s.Limit.Micros))
		for range min(cost, MaxMembers-s.used) {
			g.n = append(g.n, s.Now)
			s.used++
		}
		r.Level, r.At = s.used, s.Now
	},
	Refund: func(s *State, at, _, cost int64) {
		g := s.log()
		first, end := g.after(at-1), g.after(at)
		if n := min(int(cost), end-first); n > 0 {
			g.n = append(g.n[:end-n], g.n[end:]...)
			s.Stored.Level -= int64(n)
			if len(g.n) > g.head {
				s.Stored.At = g.n[len(g.n)-1]
			}
		}
	},
	Ends: periodEnds,
}

// drop drops the instants before index n. It moves the others to the front if that makes room for as many or for the next one.
func (g *Log) drop(n int) {
	g.head = n
	kept := g.n[n:]
	switch {
	case cap(g.n) > fewMembers && cap(g.n) > 4*len(kept):
		*g = Log{n: append(make([]int64, 0, 2*len(kept)), kept...)}
	case 2*n >= len(g.n) || len(g.n) == cap(g.n):
		*g = Log{n: append(g.n[:0], kept...)}
	}
}
