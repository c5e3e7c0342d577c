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

// 3 per millisecond drain 3 units of 1000 per request each microsecond. A burst of 4 is 4000 units, of which 2000 are used.
func TestClockThatGoesBackFillsABucketUpToFull(t *testing.T) {
	const then = 1_000_000
	l := bucketLimit(t, 3, 1000, 4)
	b := RatedBucket{Unit: 1}.Advance(l, then)
	b.Bucket = b.Charge(l, then, 2)
	for _, row := range []struct {
		why         string
		back, level int64
	}{
		{"what would have drained is still to drain", 1, 2003},
		{"the last microsecond that fits", 666, 3998},
		{"one more would be more than full", 667, 4000},
		{"full is the most", then, 4000},
	} {
		now := then - row.back
		if got := b.Advance(l, now); got.Level != row.level || got.At != now || got.Busy != now {
			t.Errorf("%s: %dµs back: %+v at %d, want level %d", row.why, row.back, got, now, row.level)
		}
	}
}

func TestLongestWaitThatIsNotCut(t *testing.T) {
	const longest = MaxExact / 1000 // in ms
	l := &Limit{Unit: 1000}
	for level, want := range map[int64]int64{longest: longest * 1000, longest + 1: MaxExact, longest + 2: MaxExact} {
		if got := (Bucket{Level: level}).until(l, 1, 0, 0); got != want {
			t.Errorf("%d ticks: wait of %dµs, want %d", level, got, want)
		}
	}
	if got := (Bucket{Level: 1 << 44}).until(&Limit{Unit: 1_000_000}, 1, 0, 0); got != MaxExact { // seconds
		t.Errorf("a wait of more microseconds than an int64 holds is %dµs, want %d", got, int64(MaxExact))
	}
	if got := (Bucket{Level: longest + 1}).until(l, 1, 10, 0); got != (longest+1)*1000-10 {
		t.Errorf("wait of %dµs, want %d: 10µs of the last tick have passed", got, (longest+1)*1000-10)
	}
}

// 10^10 microseconds at 10^9 per second are more units than an int64 holds.
func TestRefundAfterHoursGivesNothingBack(t *testing.T) {
	const then, hours = 1_000_000, 10_000_000_000
	l := bucketLimit(t, 1_000_000_000, 1_000_000, 1_000_000_000)
	b := RatedBucket{Bucket: Bucket{Level: 5 * l.Period, At: then + hours, Busy: then + 1}, Unit: l.Unit, Rate: l.Rate}
	if got := b.Refund(l, then+hours, then, 1).Level; got != b.Level {
		t.Errorf("level %d, want the %d of what was charged since", got, b.Level)
	}
}

func TestRefundGivesTheLastUnitBack(t *testing.T) {
	l := bucketLimit(t, 3, 1000, 3)
	for elapsed, back := range map[int64]int64{332: 4, 333: 1, 334: 0} { // of 1000 units, of which 3 drain each microsecond
		b := RatedBucket{Bucket: Bucket{Level: 2000, At: 1001, Busy: 1001}, Unit: 1, Rate: 3}
		if got := b.Refund(l, 1000+elapsed, 1000, 1).Level; got != 2000-back {
			t.Errorf("after %dµs: level %d, want %d", elapsed, got, 2000-back)
		}
	}
}

func TestRefundOfABucketAskedAtTwoRates(t *testing.T) {
	l := bucketLimit(t, 3, 1000, 30)
	for _, row := range []struct {
		why           string
		rate, slowest int64
		at, busy      int64
		back          int64
	}{
		{"the rate of the charge alone: what cannot have drained", 3, 0, 1000, 900, 4997},
		{"another rate was named last: one request", 5, 0, 1000, 900, 1000},
		{"another rate was named before: one request", 3, 2, 1000, 900, 1000},
		{"the bucket held less since: nothing", 3, 2, 1000, 1001, 0},
		{"nothing was charged since: all", 5, 2, 1001, 1001, 5000},
	} {
		b := RatedBucket{Bucket: Bucket{Level: 9000, At: 1001, Busy: row.busy}, Unit: 1, Rate: row.rate, Slowest: row.slowest}
		if got := 9000 - b.Refund(l, 1001, row.at, 5).Level; got != row.back {
			t.Errorf("%s: %d units, want %d", row.why, got, row.back)
		}
	}
}

func TestLevelIsConvertedToTheTicksOfTheLimit(t *testing.T) {
	l := bucketLimit(t, 10, 86_400_000_000, 10)
	if b := (RatedBucket{Bucket: Bucket{Level: 86_400_000}, Unit: 1000}).in(l); b.Level != l.Period || b.Unit != 1 {
		t.Errorf("%+v, want one request in ticks of 1µs", b)
	}
}

func TestRatesFitElevenBits(t *testing.T) {
	if p := PackRate(0); p != 0 || UnpackRate(0) != 0 {
		t.Errorf("no rate is packed as %d, and 0 unpacked as %d", p, UnpackRate(0))
	}
	for n := int64(0); n < 1<<31; n += 1 + n/1000 + rand.Int64N(2) {
		c := coarse(n)
		if c > n || n-c > n/64 || n < 128 && c != n {
			t.Fatalf("%d is cut to %d", n, c)
		}
		if p := PackRate(c); p >= 1<<11 || UnpackRate(p) != c || p == 0 && n > 0 {
			t.Fatalf("%d, cut to %d, is packed as %d, which is %d", n, c, p, UnpackRate(p))
		}
	}
}

func TestBucketIsDroppedWhenItIsEmpty(t *testing.T) {
	if b := (RatedBucket{Bucket: Bucket{At: 1000}}); b.Ends() != 1000 {
		t.Errorf("a bucket that was never charged ends at %d, want 1000", b.Ends())
	}
	for range 10_000 {
		b := RatedBucket{Bucket: Bucket{Level: 1 + rand.Int64N(1<<30), At: 1000}, Unit: Units[rand.IntN(3)], Rate: 1 + rand.Int64N(1000)}
		if rand.IntN(2) == 0 {
			b.Slowest = coarse(1 + rand.Int64N(b.Rate))
		}
		if end := b.Ends(); b.IsForgotten(end-1) || !b.IsForgotten(end) {
			t.Fatalf("%+v ends at %d", b, end)
		}
	}
}

func TestLevelAboveFullIsExact(t *testing.T) {
	l := bucketLimit(t, 100, 60_000_000, 100)
	b := Bucket{}.Charge(l, 0, 100).Charge(l, 0, 563)
	if u := b.Report(l, l.Rate, 0); u.Remaining != 0 || u.Refill != 338_400_000 || u.Reset != 397_800_000 {
		t.Errorf("663 of 100 used: %+v, want one more in 338.4s", u)
	}
	if b = b.Charge(l, 0, MaxExact); b.Level != MaxExact {
		t.Errorf("level %d, want the largest whole number", b.Level)
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

// 10 units drain each millisecond, of which a part has passed since At. The bucket has 5, as it may if it was advanced at a
// slower rate, and is empty after half a millisecond.
func TestLevelThatDrainsWithinATickIsWaitedForExactly(t *testing.T) {
	l := &Limit{Rate: 10, Capacity: 3, Unit: 1000, Period: 100, Full: 300}
	for now, want := range map[int64]int64{400: 100, 499: 1, 500: 0, 600: 0} {
		b := Bucket{Level: 5}
		u := b.Report(l, l.Rate, now)
		if got := b.Wait(l, l.Rate, now, 3); got != want || u.Reset != want || (u.Remaining == 3) != (want == 0) {
			t.Errorf("after %dµs: wait of %dµs and %+v, want %dµs", now, got, u, want)
		}
	}
}

func TestBucketWithoutABanIsChargedNoMore(t *testing.T) {
	l := bucketLimit(t, 1000, 86_400_000_000, 1_000_000)
	if l.Unit == 1 {
		t.Fatalf("%+v, want coarse ticks", l)
	}
	b := Bucket{Level: l.Full - 2*l.Period + 1, At: 1000} // one request and a part are free
	if got := b.Charge(l, 1999, 1).Level; got != b.Level+l.Period {
		t.Errorf("level %d, want %d", got, b.Level+l.Period)
	}
}

func TestPeekLeavesARateThatIsNoLongerNeeded(t *testing.T) {
	l, none := bucketLimit(t, 10, 1000, 10), bucketLimit(t, 0, 1000, 0)
	b := RatedBucket{Bucket: Bucket{Level: 1000, At: 0}, Unit: 1, Rate: 5, Slowest: 1}
	for now, want := range map[int64]int64{199: 5, 200: 10, 999: 10, 1000: 10} { // empty after 200µs, forgotten after 1000µs
		if got := b.AdvanceUnnamed(l, now); got.Rate != want {
			t.Errorf("after %dµs: %+v, want rate %d", now, got, want)
		}
	}
	if got := b.AdvanceUnnamed(none, 100); got != b {
		t.Errorf("%+v after a peek at rate 0, want %+v", got, b)
	}
}
