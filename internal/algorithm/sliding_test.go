package algorithm

import (
	"math/rand/v2"
	"testing"
	"time"
)

// logLimit returns a sliding limit of rate per so many microseconds; width is a sub-bucket's width, or 0 for a log.
func logLimit(rate, micros, width int64) *Limit {
	l, _ := Compile(Limit{Algorithm: SlidingLog, Rate: rate, Capacity: rate, Micros: micros, Width: width})
	return &l
}

// A slowLog is a Log as a list.
type slowLog []struct{ stamp, count int64 }

func (g *slowLog) advance(l *Limit, now int64) {
	var kept slowLog
	for _, e := range *g {
		if e.stamp+l.Micros > now {
			kept = append(kept, e)
		}
	}
	*g = kept
}

func (g slowLog) used() (sum int64) {
	for _, e := range g {
		sum += e.count
	}
	return sum
}

func (g slowLog) until(l *Limit, now, target int64) int64 {
	left := g.used()
	for _, e := range g {
		if left <= target {
			break
		}
		if left -= e.count; left <= target {
			return e.stamp + l.Micros - now
		}
	}
	return 0
}

func (g *slowLog) charge(stamp, cost int64) {
	if n := len(*g); n > 0 && (*g)[n-1].stamp == stamp {
		(*g)[n-1].count += cost
		return
	}
	*g = append(*g, struct{ stamp, count int64 }{stamp, cost})
}

func (g slowLog) refund(stamp, cost int64) {
	for i := range g {
		if g[i].stamp == stamp {
			g[i].count -= min(cost, g[i].count)
		}
	}
}

func TestLogCountsLikeAList(t *testing.T) {
	for _, width := range []int64{0, 1, 7, 100} {
		for _, pace := range []int64{1, 5, 40, 300} {
			l := logLimit(1000, 1000, width)
			var g Log
			var want slowLog
			var charged []int64
			now := int64(1_000_000)
			for step := range 5000 {
				now += rand.Int64N(pace)
				if rand.IntN(200) == 0 {
					now += rand.Int64N(1500)
				}
				g.Advance(l, now)
				want.advance(l, now)
				switch cost := 1 + rand.Int64N(20); {
				case rand.IntN(4) > 0:
					g.Charge(l, now, cost)
					want.charge(stamp(l.Width, now), cost)
					charged = append(charged, now)
				case len(charged) > 0:
					at := charged[max(0, len(charged)-1-rand.IntN(50))]
					g.Refund(l, at, cost)
					want.refund(stamp(l.Width, at), cost)
				}
				if g.Used() != want.used() {
					t.Fatalf("width %d, step %d: %d used, want %d", width, step, g.Used(), want.used())
				}
				for range 5 {
					target := rand.Int64N(1 + want.used())
					if got, want := max(now, g.fallsTo(l, target))-now, want.until(l, now, target); got != want {
						t.Fatalf("width %d, step %d: %dµs until %d, want %d", width, step, got, target, want)
					}
				}
				if n := len(g.entries.cells); n > few && n > 8*max(1, g.entries.count) {
					t.Fatalf("width %d, step %d: %d cells for %d entries", width, step, n, g.entries.count)
				}
			}
		}
	}
}

func TestRefundedEntriesDoNotPileUp(t *testing.T) {
	l := logLimit(10, 1_000_000_000, 0)
	var g Log
	g.Charge(l, 1, 1)
	for now := int64(2); now < 5000; now++ {
		g.Charge(l, now, 1)
		g.Refund(l, now-1, 1)
	}
	if g.Used() != 1 || len(g.entries.cells) > 4*few {
		t.Errorf("%d used, want 1; %d cells", g.Used(), len(g.entries.cells))
	}
}

func TestClockThatGoesBackLeavesOneEntryOfAnInstant(t *testing.T) {
	l := logLimit(9, 1_000_000, 0)
	const now = 1_000_000
	var g Log
	for _, at := range []int64{now, now + 100, now + 200} {
		g.Charge(l, at, 1)
	}
	g.Advance(l, now)
	g.Charge(l, now, 2)
	g.Refund(l, now, 2)
	if g.Used() != 3 || g.entries.count != 1 || g.Last() != now {
		t.Errorf("%d used until %d, want the 3 that were not given back, in one entry", g.Used(), g.Last())
	}
}

func TestEmptyLogKeepsNoEntry(t *testing.T) {
	l := logLimit(9, 1_000_000, 0)
	var g Log
	g.Charge(l, 100, 3)
	g.Charge(l, 200, 2)
	g.Refund(l, 100, 9)
	g.Refund(l, 200, 9)
	if g.Used() != 0 || g.entries.count != 0 || g.Last() != 0 {
		t.Errorf("%+v is left of nothing", g)
	}
	for now := range int64(1000) {
		g.Charge(l, now, 1)
	}
	if g.Advance(l, 2_000_000); g.entries.cells != nil {
		t.Errorf("%d cells are left of a log that has ended", len(g.entries.cells))
	}
}

func TestCloneOfALogIsIndependent(t *testing.T) {
	l := logLimit(9, 1_000_000, 0)
	var g Log
	g.Charge(l, 100, 3)
	c := g.Clone()
	c.Charge(l, 100, 1)
	c.Charge(l, 200, 1)
	if g.Used() != 3 || g.entries.at(0) != 3 || g.Last() != 100 || c.Used() != 5 {
		t.Errorf("%d used until %d, and %d by the clone", g.Used(), g.Last(), c.Used())
	}
}

// A decision locks its shard, so its cost must not grow with the number of entries in the log.
func TestLongLogIsDecidedAsFastAsAShortOne(t *testing.T) {
	l := logLimit(10_000, 3_600_000_000, 0)
	fastest := func(entries int64) time.Duration {
		var g Log
		for now := range entries {
			g.Charge(l, now, 1)
		}
		best := time.Hour
		for range 20 {
			begin := time.Now()
			for i := range int64(100) {
				g.Advance(l, entries)
				g.Wait(l, entries, l.Rate-entries/2) // in the middle
				g.Report(l, entries)
				g.Refund(l, entries/2+i, 0)
			}
			best = min(best, time.Since(begin))
		}
		return best
	}
	if short, long := fastest(16), fastest(10_000); long > 20*short {
		t.Errorf("a hundred decisions take %v with 16 entries and %v with 10000", short, long)
	}
}
