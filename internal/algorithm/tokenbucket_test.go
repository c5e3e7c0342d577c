package algorithm

import (
	"math/rand/v2"
	"testing"
)

// bucketLimit returns rate per so many microseconds, with a capacity.
func bucketLimit(t *testing.T, rate, micros, capacity int64) *Limit {
	t.Helper()
	l, ok := Compile(Limit{Rate: rate, Capacity: capacity, Micros: micros})
	if !ok {
		t.Fatalf("%d/%d of %d does not fit", rate, micros, capacity)
	}
	return &l
}

func TestTicksAreTheFinestThatFit(t *testing.T) {
	for _, row := range []struct{ capacity, micros, tick, period int64 }{
		{1, MaxExact, 1, MaxExact},
		{2, MaxExact, 1000, MaxExact/1000 + 1},
		{1 << 20, 1 << 33, 1, 1 << 33},
		{1<<20 + 1, 1 << 33, 1000, 8589935},
		{1_000_000, 315_360_000_000_000, 1_000_000, 315_360_000},
		{0, 1000, 1, 1000},
	} {
		l, ok := Compile(Limit{Rate: 1, Capacity: row.capacity, Micros: row.micros})
		if !ok || l.Unit != row.tick || l.Period != row.period || l.Full != row.capacity*row.period || Units[l.Code] != l.Unit {
			t.Errorf("%+v: got %+v, %t", row, l, ok)
		}
	}
	if l, ok := Compile(Limit{Rate: 1, Capacity: 1_000_000_000, Micros: 315_360_000_000_000}); ok {
		t.Errorf("%+v fits", l)
	}
}

func TestLongestWaitThatIsNotCut(t *testing.T) {
	const longest = MaxExact / 1000 // in ms
	l := &Limit{Unit: 1000}
	for level, want := range map[int64]int64{longest: longest * 1000, longest + 1: MaxExact, longest + 2: MaxExact} {
		if got := (&Bucket{Level: level}).until(l, 1, 0, 0); got != want {
			t.Errorf("%d ticks: wait of %dµs, want %d", level, got, want)
		}
	}
	if got := (&Bucket{Level: 1 << 44}).until(&Limit{Unit: 1_000_000}, 1, 0, 0); got != MaxExact { // seconds
		t.Errorf("a wait of more microseconds than an int64 holds is %dµs, want %d", got, int64(MaxExact))
	}
	if got := (&Bucket{Level: longest + 1}).until(l, 1, 10, 0); got != (longest+1)*1000-10 {
		t.Errorf("wait of %dµs, want %d: 10µs of the last tick have passed", got, (longest+1)*1000-10)
	}
}

// One request per period and a capacity of one: during a ban the level is at most the rate times the ban.
func TestBannedBucketNeedsCoarserTicksOnlyIfItsLevelDoesNotFit(t *testing.T) {
	for ban, unit := range map[int64]int64{MaxExact: 1, MaxExact + 1: 1000} {
		if l, ok := Compile(Limit{Rate: 1, Capacity: 1, Micros: 1000, Ban: ban}); !ok || l.Unit != unit {
			t.Errorf("ban of %dµs: ticks of %dµs, %t, want %d", ban, l.Unit, ok, unit)
		}
	}
}

// 2^44 microseconds at 2^20 per second are 2^64 units, of which a machine word keeps 0.
func TestBucketIsEmptyAfterMonths(t *testing.T) {
	l := bucketLimit(t, 1<<20, 1_000_000, 1<<20)
	full := Bucket{Level: l.Full}
	for _, now := range []int64{1 << 44, 1<<44 + 1, 3 << 44} {
		if b := full.Drain(l, l.Rate, now); b.Level != 0 || b.At != now {
			t.Errorf("after %dµs: %+v, want an empty bucket", now, b)
		}
	}
}

// bucketOf returns a state with a bucket, as it was opened at b.At.
func bucketOf(l *Limit, b Bucket) *State {
	s := &State{Limit: l, Stored: &Record{Sibling: l.Sibling}, Now: b.At, Bucket: b}
	s.put(s.Stored, &b)
	return s
}

// 3 per millisecond drain 3 units of 1000 per request each microsecond. A burst of 4 is 4000 units, of which 2000 are used.
func TestClockThatGoesBackFillsABucketUpToFull(t *testing.T) {
	const then = 1_000_000
	l := bucketLimit(t, 3, 1000, 4)
	for _, row := range []struct {
		why         string
		back, level int64
	}{
		{"what would have drained is still to drain", 1, 2003},
		{"the last microsecond that fits", 666, 3998},
		{"one more would be more than full", 667, 4000},
		{"full is the most", then, 4000},
	} {
		s := bucketOf(l, Bucket{Level: 2000, At: then, Busy: then})
		s.Now = then - row.back
		l.Row.Open(s, 1)
		if want := (Bucket{Level: row.level, At: s.Now, Busy: s.Now}); s.Bucket != want || s.load(s.Stored) != want {
			t.Errorf("%s: %dµs back: %+v, stored %+v, want %+v", row.why, row.back, s.Bucket, s.load(s.Stored), want)
		}
	}
}

// 10^10 microseconds at 10^9 per second are more units than an int64 holds.
func TestRefundAfterHoursGivesNothingBack(t *testing.T) {
	const then, hours = 1_000_000, 10_000_000_000
	l := bucketLimit(t, 1_000_000_000, 1_000_000, 1_000_000_000)
	s := bucketOf(l, Bucket{Level: 5 * l.Period, At: then + hours, Busy: then + 1})
	if l.Row.Refund(s, then, NoTurn, 1); s.Stored.Level != 5*l.Period {
		t.Errorf("level %d, want the %d of what was charged since", s.Stored.Level, 5*l.Period)
	}
}

func TestRefundGivesTheLastUnitBack(t *testing.T) {
	l := bucketLimit(t, 3, 1000, 3)
	for elapsed, back := range map[int64]int64{332: 4, 333: 1, 334: 0} { // of 1000 units, of which 3 drain each microsecond
		s := bucketOf(l, Bucket{Level: 2000, At: 1001, Busy: 1001})
		s.Now = 1000 + elapsed
		if l.Row.Refund(s, 1000, NoTurn, 1); s.Stored.Level != 2000-back {
			t.Errorf("after %dµs: level %d, want %d", elapsed, s.Stored.Level, 2000-back)
		}
	}
}

func TestRefundOfABucketThatWasChargedSince(t *testing.T) {
	l := bucketLimit(t, 3, 1000, 9)
	for _, row := range []struct {
		why           string
		now, at, busy int64
		cost, back    int64
	}{
		{"what cannot have drained", 1001, 1000, 900, 5, 4997},
		{"one request if the bucket never held less since", 9000, 1000, 900, 5, 1000},
		{"nothing if it did", 9000, 1000, 1001, 5, 0},
		{"all if nothing was charged since", 9000, 1001, 1001, 5, 5000},
		{"at most the capacity", 9000, 1001, 1001, 99, 9000},
	} {
		s := bucketOf(l, Bucket{Level: 20_000, At: 1001, Busy: row.busy})
		s.Now = row.now
		if l.Row.Refund(s, row.at, NoTurn, row.cost); 20_000-s.Stored.Level != row.back {
			t.Errorf("%s: %d units, want %d", row.why, 20_000-s.Stored.Level, row.back)
		}
	}
}

func TestLevelIsConvertedToTheTicksOfTheLimit(t *testing.T) {
	l := bucketLimit(t, 10, 86_400_000_000, 10)
	s := &State{Limit: l}
	if b := s.load(&Record{Kind: l.Kind | 1, Level: 86_400_000}); b.Level != l.Period {
		t.Errorf("%+v, want one request in ticks of 1µs", b)
	}
}

func TestBucketEndsWhenItIsEmpty(t *testing.T) {
	for range 10_000 {
		l := bucketLimit(t, 1+rand.Int64N(1000), 1_000_000, 1000)
		s := bucketOf(l, Bucket{Level: 1 + rand.Int64N(1<<30), At: 1000})
		for before := range int64(2) {
			if s.Now = s.Stored.Ends() - before; s.view(s.Stored).Level > 0 != (before > 0) {
				t.Fatalf("%+v ends at %d", s.Stored, s.Stored.Ends())
			}
		}
	}
}

func TestLevelAboveFullIsExact(t *testing.T) {
	l := bucketLimit(t, 100, 60_000_000, 100)
	b := Bucket{}.Charge(l, 100).Charge(l, 563)
	if u := b.Report(l, l.Rate, 0); u.Remaining != 0 || u.Refill != 338_400_000 || u.Reset != 397_800_000 {
		t.Errorf("663 of 100 used: %+v, want one more in 338.4s", u)
	}
	if b = b.Charge(l, MaxExact); b.Level != MaxExact {
		t.Errorf("level %d, want the largest whole number", b.Level)
	}
}

// 5 per 10 minutes and a ban of an hour.
func TestBanIsFollowedByOneRequest(t *testing.T) {
	const hour = 3_600_000_000
	l, ok := Compile(Limit{Rate: 5, Capacity: 5, Micros: 600_000_000, Ban: hour})
	if !ok {
		t.Fatal("it does not fit")
	}
	s := bucketOf(&l, Bucket{})
	s.Cells = new(Cells)
	charge := func(now, cost int64) {
		s.Now = now
		l.Row.Open(s, cost)
		l.Row.Charge(s, cost)
	}
	wait := func(now, cost int64) int64 {
		s.Now = now
		return l.Row.Open(s, cost)
	}
	if charge(0, 4); s.Level != 4*l.Period {
		t.Errorf("four of five have banned: %+v", s.Bucket)
	}
	charge(0, 1)
	for now, want := range map[int64]int64{0: hour, hour - 1: 1, hour: 0} {
		if got := wait(now, 1); got != want || wait(now, 2) == 0 {
			t.Errorf("after %dµs: a wait of %d for one, want %d", now, got, want)
		}
	}
	for _, now := range []int64{0, hour / 2} {
		wait(now, 1)
		before := s.Level
		if charge(now, 1); s.Level != before+l.Period {
			t.Errorf("a charge during the ban, after %dµs: level %d, want %d", now, s.Level, before+l.Period)
		}
	}
	s = bucketOf(&l, Bucket{Level: l.Full - l.Period, At: hour, Busy: hour})
	s.Cells = new(Cells)
	if charge(hour, 1); wait(2*hour-1, 1) != 1 || wait(2*hour, 1) != 0 {
		t.Error("the request after the ban does not begin another one")
	}
}

// A limit of another rate does not see the level that a ban has added.
func TestSiblingsDoNotSeeABan(t *testing.T) {
	const hour = 3_600_000_000
	strict, _ := Compile(Limit{Rate: 5, Capacity: 5, Micros: 600_000_000, Ban: hour})
	lax := bucketLimit(t, 100, 600_000_000, 100)
	run := []Record{{Kind: strict.Kind, Sibling: strict.Sibling}}
	cells := new(Cells)
	s := &State{Limit: &strict, Cells: cells}
	s.Pick(run)
	strict.Row.Open(s, 5)
	strict.Row.Charge(s, 5)
	s = &State{Limit: lax, Cells: cells}
	s.Pick(run)
	for now, want := range map[int64]int64{0: 95, 120_000_000: 96} {
		if s.Now = now; lax.Row.Open(s, 1) != 0 || lax.Row.Report(s).Remaining != want {
			t.Errorf("after %dµs: %+v, want %d of 100 to remain", now, lax.Row.Report(s), want)
		}
	}
	s = &State{Limit: &strict, Cells: cells}
	s.Pick(run)
	if wait := strict.Row.Open(s, 1); wait != hour {
		t.Errorf("the banned limit waits for %dµs, want an hour", wait)
	}
}

// The ban must not get shorter if part of a tick of a millisecond has passed.
func TestBanInCoarseTicksIsNoShorter(t *testing.T) {
	l, ok := Compile(Limit{Rate: 1000, Capacity: 1_000_000, Micros: 86_400_000_000, Ban: 200_000_000})
	if !ok || l.Unit == 1 {
		t.Fatalf("%+v, want coarse ticks", l)
	}
	s := bucketOf(&l, Bucket{At: 1000})
	s.Now = 1999
	l.Row.Charge(s, 1_000_000)
	if wait := l.Row.Open(s, 1); wait < l.Ban || wait > l.Ban+1000 {
		t.Errorf("wait of %dµs, want %d", wait, l.Ban)
	}
}

func TestSiblingsAreAsFullAsTheFullest(t *testing.T) {
	strict, lax := bucketLimit(t, 10, 60_000_000, 10), bucketLimit(t, 100, 60_000_000, 100)
	run := []Record{{Kind: strict.Kind, Sibling: 10}, {Kind: lax.Kind, Sibling: 100}}
	one, two := &State{Limit: strict}, &State{Limit: lax}
	one.Pick(run)
	two.Pick(run)
	strict.Row.Open(one, 10)
	strict.Row.Charge(one, 10)
	if lax.Row.Open(two, 90) != 0 || lax.Row.Open(two, 91) != 6_000_000 {
		t.Error("a lax limit does not have 90 left after 10 of 10, or gets more before the strict bucket has drained")
	}
	lax.Row.Charge(two, 1)
	if a, b := run[0].Level/strict.Period, run[1].Level/lax.Period; a != 10 || b != 11 {
		t.Errorf("levels of %d and %d, want 10 and 11", a, b)
	}
	if u := lax.Row.Report(two); u.Remaining != 89 || u.Reset != 60_000_000 || u.Refill != 600_000 {
		t.Errorf("%+v", u)
	}
	if one.Now = 6_000_000; strict.Row.Open(one, 1) != 0 {
		t.Error("a lax request has left the strict limit a debt")
	}
}

func TestANinthSiblingReplacesTheOneThatEndsFirst(t *testing.T) {
	kind := bucketLimit(t, 1, 1000, 1).Kind
	run := []Record{{Kind: CellsKind, At: 1}}
	for i := range uint32(maxSiblings) {
		run = append(run, Record{Kind: kind, Level: 1000, At: int64(100 - i), Sibling: 1})
	}
	for _, row := range []struct {
		now  int64
		n    int
		full bool
		want int
	}{
		{100, 8, false, -1}, {100, 8, true, 7}, {100, 9, false, 8}, {1094, 8, false, -1}, {1095, 8, false, 7},
	} {
		got := -1
		if place := Place(run[:row.n], kind, row.now, row.full); place != nil {
			for i := range run {
				if &run[i] == place {
					got = i
				}
			}
		}
		if got != row.want {
			t.Errorf("%+v: record %d", row, got)
		}
	}
}
