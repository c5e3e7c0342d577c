package algorithm

import (
	"math/rand/v2"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

// slidingLimit returns a sliding limit of rate per so many microseconds; width is a sub-bucket's width, or 0 for a log.
func slidingLimit(rate, micros, width int64) *Limit {
	l := Limit{Algorithm: SlidingWindow, Rate: rate, Capacity: rate, Micros: micros, Width: width}
	if width == 0 {
		l.Algorithm = SlidingLog
	}
	l, _ = Compile(l)
	return &l
}

// slidingOf returns a state that nothing was charged to.
func slidingOf(l *Limit) *State {
	run := []Record{{Kind: l.Kind, Sibling: l.Sibling}}
	return &State{Limit: l, Stored: &run[0], Run: run, Logs: new(Slab[Log])}
}

// charge charges cost at now.
func (s *State) charge(now, cost int64) {
	s.Now = now
	s.Open()
	s.Limit.Row.Charge(s, cost)
}

// A list has the instants after which charges no longer count, and their costs.
type list [][2]int64

// usedAt returns what the list counts at now.
func (g list) usedAt(now int64) (used int64) {
	for _, e := range g {
		if e[0] > now {
			used += e[1]
		}
	}
	return used
}

// until returns how long after now the list takes to count no more than target.
func (g list) until(now, target int64) (wait int64) {
	left := g.usedAt(now)
	for _, e := range g {
		if left <= target {
			break
		}
		if e[0] > now {
			left -= e[1]
			wait = e[0] - now
		}
	}
	return wait
}

func TestSlidingLimitsCountLikeAList(t *testing.T) {
	testpass.Sequential(t)
	for _, width := range []int64{0, 17, 100, 334, 500} {
		for _, pace := range []int64{1, 5, 40, 300} {
			l := slidingLimit(5000, 1000, width)
			s := slidingOf(l)
			var want list
			ends := func(at int64) int64 {
				if width > 0 {
					at = FloorTo(at, width) + width
				}
				return at + l.Micros
			}
			now := int64(-1_000_000)
			var charged []int64
			for step := range 3000 {
				now += rand.Int64N(pace)
				if rand.IntN(200) == 0 {
					now += rand.Int64N(1500)
				}
				switch cost := 1 + rand.Int64N(20); {
				case rand.IntN(4) > 0:
					s.charge(now, cost)
					if width == 0 {
						cost = min(cost, MaxMembers-want.usedAt(now))
					}
					if n := len(want); n > 0 && want[n-1][0] == ends(now) {
						want[n-1][1] += cost
					} else {
						want = append(want, [2]int64{ends(now), cost})
					}
					charged = append(charged, now)
				case len(charged) > 0:
					at := charged[max(0, len(charged)-1-rand.IntN(50))]
					l.Row.Refund(s, at, NoTurn, cost)
					for i := range want {
						if want[i][0] == ends(at) {
							want[i][1] -= min(cost, want[i][1])
						}
					}
				}
				s.Now = now
				s.Open()
				for range 5 {
					cost := 1 + rand.Int64N(l.Rate)
					must.Equal(t, s.WaitFor(cost, 0), want.until(now, l.Rate-cost), "width %d, step %d: a cost of %d fits after µs", width, step, cost)
				}
				var u Usage
				if s.Report(&u, 0); u.Reset != want.until(now, 0) || u.Refill != min(u.Reset, want.until(now, l.Rate-u.Remaining-1)) {
					t.Fatalf("width %d, step %d: %+v", width, step, u)
				}
			}
		}
	}
}

func TestCountsAreCutAtTheLargestWholeNumber(t *testing.T) {
	s := slidingOf(slidingLimit(9, 1000, 100))
	for now := range int64(3) {
		s.charge(100*now, MaxExact-5)
		expect.True(t, now <= 0 || s.used == MaxExact, "%d used, want %d", s.used, int64(MaxExact))
	}
}

// A log counts its rate and grants, at most MaxMembers together; debts beyond that do not count.
func TestLogHasABoundedNumberOfMembers(t *testing.T) {
	l := slidingLimit(1000, 1000, 0)
	s := slidingOf(l)
	s.Cells = new(Cells)
	s.charge(0, 4000)
	s.charge(1, MaxExact)
	expect.True(t, s.used == MaxMembers && len(s.log().n) == MaxMembers, "%d used, %d instants", s.used, len(s.log().n))
	s.Cells.Grant(l.Kind, 5000, MaxMembers)
	s.Now = 1000
	s.Open()
	if s.WaitFor(6000, 0) != 1 || s.WaitFor(4000, 0) != 0 {
		t.Errorf("with %d in use, 6,000 or 4,000 fit after %d or %dµs", s.used, s.WaitFor(6000, 0), s.WaitFor(4000, 0))
	}
}

func TestLogShrinksWithItsMembers(t *testing.T) {
	s := slidingOf(slidingLimit(1000, 1000, 0))
	s.charge(0, 1000)
	for now := int64(1000); now < 5000; now++ {
		s.charge(now, 1)
		if g := s.log(); cap(g.n) > 8*max(fewMembers, int(s.used)) || g.head > len(g.n)/2+1 {
			t.Fatalf("room for %d instants of %d, which begin at %d", cap(g.n), s.used, g.head)
		}
	}
	s.charge(9000, 1)
	expect.Equal(t, len(s.log().n), 1, "instants after all others have ended")
}

// Charges of one log, and of one ring, take no memory once they are as full as they get.
func TestFullLogIsChargedInPlace(t *testing.T) {
	for _, width := range []int64{0, 100} {
		s := slidingOf(slidingLimit(1000, 1000, width))
		now := int64(0)
		for range 5000 {
			now += 2
			s.charge(now, 1)
		}
		expect.AtMost(t, testing.AllocsPerRun(1000, func() { now += 2; s.charge(now, 1) }), 0, "width %d: allocations", width)
	}
}

func TestCloneOfALogIsIndependent(t *testing.T) {
	s := slidingOf(slidingLimit(9, 1000, 0))
	s.charge(0, 3)
	c := s.log().Clone()
	c.n[0] = 7
	expect.True(t, s.log().n[0] == 0 && len(c.n) == 3, "%v after a clone has changed to %v", s.log().n, c.n)
}

// A new width starts from the fullest: each count is dated to the sub-bucket with its end, and none later than now.
func TestNewWidthStartsFromTheFullest(t *testing.T) {
	wide, narrow := slidingLimit(9, 1000, 500), slidingLimit(9, 1000, 100)
	run := []Record{{Kind: wide.Kind, Sibling: wide.Sibling}, {Kind: wide.Kind, Sibling: narrow.Sibling}}
	s := &State{Limit: wide, Logs: new(Slab[Log])}
	s.Pick(run)
	s.charge(0, 2)   // until 1,500
	s.charge(700, 3) // until 2,000
	s.Limit = narrow
	s.Pick(run)
	s.charge(710, 1)
	g, _ := s.ringOf(&run[1])
	for end, want := range map[int64]int64{600: 2, 800: 4} {
		got := *g.at(end)
		expect.Equal(t, got, want, "in the sub-bucket that ends at %d", end)
	}
	expect.True(t, g.Level == 6 && g.At == 800 && run[0].Level == 6, "%+v and %+v, want 6 in each", run[0], run[1])
}

// A wait begins at the oldest sub-bucket that counts something, so it walks no empty ones.
func TestRingKnowsItsOldestCount(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := slidingLimit(1000, 1000, 100)
	for range 200 {
		s, now := slidingOf(l), int64(5000)
		for range 40 {
			now += random.Int64N(700) - 60
			if s.Now = now; random.IntN(4) == 0 {
				l.Row.Refund(s, now-random.Int64N(1200), NoTurn, 1+random.Int64N(3))
			} else {
				s.charge(now, 1+random.Int64N(3))
			}
			g, ok := s.ringOf(s.Stored)
			if !ok || g.Level == 0 {
				continue
			}
			sum := int64(0)
			for end := g.oldest; end <= g.At; end += g.width {
				sum += *g.at(end)
			}
			if span := g.At - g.oldest; *g.at(g.oldest) == 0 || *g.at(g.At) == 0 || sum != g.Level || span < 0 || span > l.Micros {
				t.Fatalf("the oldest of %v ends at %d and counts %d; the newest ends at %d; %d of %d in between", g.n, g.oldest, *g.at(g.oldest), g.At, sum, g.Level)
			}
		}
	}
}

func windowLimit(rate int64) *Limit {
	l, _ := Compile(Limit{Algorithm: FixedWindow, Rate: rate, Capacity: rate, Micros: 60})
	return &l
}

func TestWindowKeepsItsCountWhenTheClockIsSet(t *testing.T) {
	l, calendar := windowLimit(5), &Limit{Windows: func(at int64) (start, end int64) { return FloorTo(at, 60), FloorTo(at, 60) + 60 }}
	w := Window{}.Advance(l, 1000, 0) // 960 to 1020
	w.Used = 3
	for _, row := range []struct {
		why                      string
		now, offset, used, start int64
	}{
		{"the same window", 1019, 0, 3, 960},
		{"the next window", 1020, 0, 0, 1020},
		{"ahead into the next window", 1010, 15, 3, 1005},
		{"ahead by whole windows", 1010, 600, 3, 960},
		{"back by half a window", 1010, -30, 3, 990},
		{"ahead, at the start of the window", 960, 15, 3, 945},
		{"ahead, after the window has ended", 1020, 15, 0, 1005},
		{"the clock itself went back across the start", 959, 0, 3, 960},
		{"by one period", 900, 0, 3, 960},
		{"by more than one period", 899, 0, 3, 840},
	} {
		want := Window{row.used, row.start, row.start + 60}
		expect.Equal(t, w.Advance(l, row.now, row.offset), want, "%s", row.why)
		expect.Equal(t, w.Advance(calendar, row.now, row.offset), want, "%s, of a calendar", row.why)
	}
}
