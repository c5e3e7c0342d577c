package algorithm

import "testing"

func TestHoldCountsFor60To66Seconds(t *testing.T) {
	const base = 6_000_000 * 1000
	for _, into := range []int64{0, 1, 3_000_000, 5_999_999} {
		var h Holds
		h.Add(base+into, 5, 1)
		end := int64(base + 66_000_000)
		if h.Drop(end - 1); h.Ends() != end {
			t.Errorf("made %dµs into a sub-bucket: ends at %d, want %d", into, h.Ends(), end)
		}
		if cost, count := h.Sum(end); cost != 0 || count != 0 || len(h.Ended(end-1)) > 0 {
			t.Errorf("made %dµs into a sub-bucket: %d held by %d requests at the end, %v ended before", into, cost, count, h.Ended(end-1))
		}
		if ended := h.Ended(end); len(ended) != 1 || ended[0] != (Ending{end, 5}) || EndOf(base+into) != end {
			t.Errorf("made %dµs into a sub-bucket: %v has ended, want 5 at %d", into, ended, end)
		}
		if cost, count := h.Sum(end - 1); cost != 5 || count != 1 {
			t.Errorf("made %dµs into a sub-bucket: %d held by %d requests before the end", into, cost, count)
		}
		if h.Drop(end); len(h.cells) != 0 || h.Ends() != 0 {
			t.Errorf("made %dµs into a sub-bucket: %+v is held at the end", into, h)
		}
	}
}

func TestHoldsOfOneSubBucketExpireTogetherAndNoOthers(t *testing.T) {
	var h Holds
	for _, at := range []int64{0, 5_999_999, 6_000_000, 11_999_999, 24_000_000} {
		h.Add(at, 1, 1)
	}
	for _, row := range []struct{ now, held, subBuckets int64 }{
		{24_000_000, 5, 3}, {65_999_999, 5, 3}, {66_000_000, 3, 2}, {72_000_000, 1, 1}, {90_000_000, 0, 0},
	} {
		h.Drop(row.now)
		if _, held := h.Sum(row.now); held != row.held || len(h.cells) != int(row.subBuckets) {
			t.Errorf("after %dµs: %+v, want %d held in %d sub-buckets", row.now, h, row.held, row.subBuckets)
		}
	}
}

func TestHoldsAreReleasedFromTheirSubBucket(t *testing.T) {
	const a, b = 6_000_000, 18_000_000
	for why, row := range map[string]struct {
		at, cost, released int64
		ok                 bool
		left               Holds
	}{
		"of the first":             {a + 5, 3, 3, true, Holds{[]holdCell{{a, 4, 1}, {b, 9, 1}}}},
		"of the second":            {b, 9, 9, true, Holds{[]holdCell{{a, 7, 2}}}},
		"no more than is there":    {a, 8, 7, true, Holds{[]holdCell{{a, 0, 1}, {b, 9, 1}}}},
		"nothing of an expired":    {a - 1, 3, 0, false, Holds{[]holdCell{{a, 7, 2}, {b, 9, 1}}}},
		"nothing of one between":   {a + 6_000_000, 3, 0, false, Holds{[]holdCell{{a, 7, 2}, {b, 9, 1}}}},
		"of the last from a later": {b + 60_000_000, 2, 2, true, Holds{[]holdCell{{a, 7, 2}}}},
	} {
		h := Holds{[]holdCell{{a, 7, 2}, {b, 9, 1}}}
		released, ok := h.Release(row.at, row.cost)
		if released != row.released || ok != row.ok || len(h.cells) != len(row.left.cells) {
			t.Errorf("%s: %d, %t, left %+v", why, released, ok, h)
			continue
		}
		for i := range h.cells {
			if h.cells[i] != row.left.cells[i] {
				t.Errorf("%s: left %+v, want %+v", why, h, row.left)
			}
		}
	}
	var none Holds
	if _, ok := none.Release(a, 1); ok {
		t.Error("something was released of nothing")
	}
}

func TestHoldsOfAClockThatWentBackAreMadeNow(t *testing.T) {
	var h Holds
	for _, at := range []int64{60_000_000, 66_000_000, 72_000_000} {
		h.Add(at, 2, 1)
	}
	h.Rewind(65_000_000)
	if len(h.cells) != 1 || h.cells[0] != (holdCell{60_000_000, 6, 3}) {
		t.Errorf("%+v, want all three in the sub-bucket of 60s", h)
	}
	if _, ok := h.Release(72_000_000, 2); !ok || h.cells[0] != (holdCell{60_000_000, 4, 2}) {
		t.Errorf("%+v after a release of the latest", h)
	}
}

func TestHeldCostsAreCutAtTheLargestWholeNumber(t *testing.T) {
	var h Holds
	h.Add(0, MaxExact, 1)
	h.Add(0, MaxExact, 1)
	h.Add(6_000_000, 5, 1)
	if cost, count := h.Sum(0); cost != MaxExact || count != 3 {
		t.Errorf("%d held by %d", cost, count)
	}
}

func TestCloneOfHoldsIsIndependent(t *testing.T) {
	var h Holds
	h.Add(0, 5, 1)
	c := h.Clone()
	c.Add(1, 5, 1)
	if cost, _ := h.Sum(0); cost != 5 {
		t.Errorf("%d held, want 5", cost)
	}
}

func TestUsageWhileSomethingIsHeldOrBanned(t *testing.T) {
	u := Usage{Remaining: 7, Refill: 100, Reset: 3_000_000}
	for _, row := range []struct {
		held, ban int64
		want      Usage
	}{
		{0, 0, u},
		{0, -5, u},
		{2, 0, Usage{Remaining: 5, Refill: HoldHint, Reset: 3_000_000}},
		{9, 0, Usage{Refill: HoldHint, Reset: 3_000_000}},
		{0, 2_000_000, Usage{Refill: 2_000_000, Reset: 3_000_000}},
		{2, 5_000_000, Usage{Refill: 5_000_000, Reset: 5_000_000}},
	} {
		if got := u.Less(row.held, row.ban); got != row.want {
			t.Errorf("%d held, banned for %d: %+v, want %+v", row.held, row.ban, got, row.want)
		}
	}
}

// 5 per 10 minutes and a ban of an hour.
func TestBanIsFollowedByOneRequest(t *testing.T) {
	const hour = 3_600_000_000
	l, ok := Compile(Limit{Rate: 5, Capacity: 5, Micros: 600_000_000, Ban: hour})
	if !ok {
		t.Fatal("it does not fit")
	}
	b := Bucket{}.Charge(&l, 0, 4)
	if b.Level != 4*l.Period {
		t.Errorf("four of five have banned: %+v", b)
	}
	b = b.Charge(&l, 0, 1)
	for now, want := range map[int64]bool{0: false, hour - 1: false, hour: true} {
		if got := b.Drain(&l, l.Rate, now); got.Admits(&l, 1) != want || got.Admits(&l, 2) {
			t.Errorf("after %dµs: one is admitted: %t", now, !want)
		}
	}
	if c := b.Charge(&l, 0, 1); c.Level != b.Level+l.Period {
		t.Errorf("a charge during the ban: level %d, want %d", c.Level, b.Level+l.Period)
	}
	half := b.Drain(&l, l.Rate, hour/2)
	if c := half.Charge(&l, hour/2, 1); c.Level != half.Level+l.Period {
		t.Errorf("a charge in the middle of the ban: level %d, want %d", c.Level, half.Level+l.Period)
	}
	again := b.Drain(&l, l.Rate, hour).Charge(&l, hour, 1)
	if again.Drain(&l, l.Rate, 2*hour-1).Admits(&l, 1) || !again.Drain(&l, l.Rate, 2*hour).Admits(&l, 1) {
		t.Error("the request after the ban does not begin another one")
	}
}

// The ban must not get shorter if part of a tick of a millisecond has passed.
func TestBanInCoarseTicksIsNoShorter(t *testing.T) {
	l, ok := Compile(Limit{Rate: 1000, Capacity: 1_000_000, Micros: 86_400_000_000, Ban: 200_000_000})
	if !ok || l.Unit == 1 {
		t.Fatalf("%+v, want coarse ticks", l)
	}
	b := Bucket{At: 1000}.Charge(&l, 1999, 1_000_000)
	if wait := b.Wait(&l, l.Rate, 1999, 1); wait < l.Ban || wait > l.Ban+1000 {
		t.Errorf("wait of %dµs, want %d", wait, l.Ban)
	}
}

// Both stores find the holds of a pair by the record's kind.
func TestLimitInFlightHasTheKindOfHolds(t *testing.T) {
	if l, _ := Compile(Limit{Algorithm: InFlight, Rate: 2, Capacity: 2}); l.Kind != HoldKind {
		t.Errorf("kind %d, want %d", l.Kind, HoldKind)
	}
	if l, _ := Compile(Limit{Algorithm: FixedWindow, Rate: 2, Capacity: 2, Micros: 1}); l.Kind == HoldKind {
		t.Error("a window has the kind of holds")
	}
}
