package algorithm

import (
	"math/rand/v2"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// bucketLimit returns rate per so many microseconds, with a capacity.
func bucketLimit(t *testing.T, rate, micros, capacity int64) *Limit {
	t.Helper()
	l, ok := Compile(Limit{Rate: rate, Capacity: capacity, Micros: micros})
	must.True(t, ok, "%d/%d of %d does not fit", rate, micros, capacity)
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
	l, ok := Compile(Limit{Rate: 1, Capacity: 1_000_000_000, Micros: 315_360_000_000_000})
	expect.True(t, !ok, "%+v fits", l)
}

func TestLongestWaitThatIsNotCut(t *testing.T) {
	const longest = MaxExact / 1000 // in ms
	l := &Limit{Unit: 1000}
	for level, want := range map[int64]int64{longest: longest * 1000, longest + 1: MaxExact, longest + 2: MaxExact} {
		until, _ := (&Bucket{Level: level}).Until(l, 1, 0, 0)
		expect.Equal(t, until, want, "%d ticks: wait of µs", level)
	}
	if got, _ := (&Bucket{Level: 1 << 44}).Until(&Limit{Unit: 1_000_000}, 1, 0, 0); got != MaxExact { // seconds
		t.Errorf("a wait of more microseconds than an int64 holds is %dµs, want %d", got, int64(MaxExact))
	}
	until, empty := (&Bucket{Level: longest + 1}).Until(l, 1, 10, 0)
	expect.Equal(t, until, (longest+1)*1000-10, "wait of µs (10µs of the last tick have passed)")
	expect.Equal(t, empty, until, "wait of µs until the bucket is empty")
}

// One request per period and a capacity of one: during a ban the level is at most the rate times the ban.
func TestBannedBucketNeedsCoarserTicksOnlyIfItsLevelDoesNotFit(t *testing.T) {
	for ban, unit := range map[int64]int64{MaxExact: 1, MaxExact + 1: 1000} {
		l, ok := Compile(Limit{Rate: 1, Capacity: 1, Micros: 1000, Ban: ban})
		expect.True(t, ok && l.Unit == unit, "ban of %dµs: ticks of %dµs, %t, want %d", ban, l.Unit, ok, unit)
	}
}

// 2^44 microseconds at 2^20 per second are 2^64 units, of which a machine word keeps 0.
func TestBucketIsEmptyAfterMonths(t *testing.T) {
	l := bucketLimit(t, 1<<20, 1_000_000, 1<<20)
	full := Bucket{Level: l.Full}
	for _, now := range []int64{1 << 44, 1<<44 + 1, 3 << 44} {
		b := full.Drain(l, l.Rate, now)
		expect.True(t, b.Level == 0 && b.At == now, "after %dµs: %+v, want an empty bucket", now, b)
	}
}

// bucketOf returns a state with a bucket, as it was opened at b.At.
func bucketOf(l *Limit, b Bucket) *State {
	s := &State{Limit: l, Stored: &Record{Sibling: l.Sibling}, Now: b.At, Bucket: b}
	s.put(s.Stored, &b)
	return s
}

// 10^10 microseconds at 10^9 per second are more units than an int64 holds.
func TestRefundAfterHoursGivesNothingBack(t *testing.T) {
	const then, hours = 1_000_000, 10_000_000_000
	l := bucketLimit(t, 1_000_000_000, 1_000_000, 1_000_000_000)
	s := bucketOf(l, Bucket{Level: 5 * l.Period, At: then + hours, Busy: then + 1})
	l.Row.Refund(s, then, NoTurn, 1)
	expect.True(t, s.Stored.Level == 5*l.Period, "level %d, want the %d of what was charged since", s.Stored.Level, 5*l.Period)
}

func TestLevelIsConvertedToTheTicksOfTheLimit(t *testing.T) {
	l := bucketLimit(t, 10, 86_400_000_000, 10)
	s := &State{Limit: l}
	b := s.load(&Record{Kind: l.Kind | 1, Level: 86_400_000})
	expect.Equal(t, b.Level, l.Period, "%+v (one request in ticks of 1µs)", b)
}

func TestBucketEndsWhenItIsEmpty(t *testing.T) {
	for range 10_000 {
		s := bucketOf(bucketLimit(t, 1+rand.Int64N(1000), 1_000_000, 1000), Bucket{Level: 1 + rand.Int64N(1<<30), At: 1000})
		for before := range int64(2) {
			s.Now = s.Stored.Ends() - before
			must.Equal(t, s.view(s.Stored).Level > 0, before > 0, "%+v ends at %d", s.Stored, s.Stored.Ends())
		}
	}
}

func TestLevelAboveFullIsExact(t *testing.T) {
	l := bucketLimit(t, 100, 60_000_000, 100)
	b := Bucket{}.Charge(l, 100).Charge(l, 563)
	s := &State{Limit: l, Bucket: b, used: b.Level}
	var u Usage
	if s.Report(&u, 0); u.Remaining != 0 || u.Refill != 338_400_000 || u.Reset != 397_800_000 {
		t.Errorf("663 of 100 used: %+v, want one more in 338.4s", u)
	}
	b = b.Charge(l, MaxExact)
	expect.Equal(t, b.Level, MaxExact, "level (the largest whole number)")
}

// The ban must not get shorter if part of a tick of a millisecond has passed.
func TestBanInCoarseTicksIsNoShorter(t *testing.T) {
	l, ok := Compile(Limit{Rate: 1000, Capacity: 1_000_000, Micros: 86_400_000_000, Ban: 200_000_000})
	must.True(t, ok && l.Unit != 1, "%+v, want coarse ticks", l)
	s := bucketOf(&l, Bucket{At: 1000})
	s.Now = 1999
	l.Row.Charge(s, 1_000_000)
	s.Open()
	wait := s.WaitFor(1, 0)
	expect.True(t, wait >= l.Ban && wait <= l.Ban+1000, "wait of %dµs, want %d", wait, l.Ban)
}

func TestNinthSiblingReplacesTheFirstToEnd(t *testing.T) {
	kind := bucketLimit(t, 1, 1000, 1).Kind
	run := []Record{{Kind: CellsKind, At: 1}}
	for i := range uint32(maxSiblings) {
		run = append(run, Record{Kind: kind, Level: 1000, At: int64(100 - i), Sibling: 1})
	}
	for _, row := range []struct {
		now  int64
		n    int
		want int
	}{
		{100, 8, -1}, {100, 9, 8}, {1094, 8, -1}, {1095, 8, 7},
	} {
		got := -1
		if place := Place(run[:row.n], kind, row.now); place != nil {
			for i := range run {
				if &run[i] == place {
					got = i
				}
			}
		}
		expect.Equal(t, got, row.want, "%+v: record", row)
	}
}
