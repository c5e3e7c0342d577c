package algorithm

import "testing"

func TestWindowKeepsItsCountWhenTheClockIsSet(t *testing.T) {
	l, _ := Compile(Limit{Algorithm: FixedWindow, Rate: 5, Capacity: 5, Micros: 60})
	w := Window{}.Advance(&l, 1000, 0).Charge(3) // 960 to 1020
	for _, row := range []struct {
		why         string
		now, offset int64
		used, start int64
	}{
		{"the same window", 1019, 0, 3, 960},
		{"the next window", 1020, 0, 0, 1020},
		{"ahead into the next window", 1010, 15, 3, 1005},
		{"ahead by whole windows", 1010, 600, 3, 960},
		{"back by half a window", 1010, -30, 3, 990},
		{"ahead, after the window has ended", 1020, 15, 0, 1005},
		{"the clock itself went back across the turn", 959, 0, 3, 960},
		{"by one period", 900, 0, 3, 960},
		{"by more than one period", 899, 0, 3, 840},
	} {
		if got := w.Advance(&l, row.now, row.offset); got.Used != row.used || got.Start != row.start {
			t.Errorf("%s: %+v, want %d used since %d", row.why, got, row.used, row.start)
		}
	}
}

func TestWindowRefundsOnlyItsOwnCharges(t *testing.T) {
	w := Window{Used: 3, Start: 960, End: 1020}
	for at, want := range map[int64]int64{959: 3, 960: 1, 1019: 1, 1020: 3} {
		if got := w.Refund(at, 2).Used; got != want {
			t.Errorf("charged at %d: %d used, want %d", at, got, want)
		}
	}
}

func TestWindowAdmitsUpToItsRateUntilItEnds(t *testing.T) {
	l, _ := Compile(Limit{Algorithm: FixedWindow, Rate: 5, Capacity: 5, Micros: 60})
	w := Window{}.Advance(&l, 1000, 0) // 960 to 1020
	for _, row := range []struct {
		used, cost, wait int64
		want             Usage
	}{
		{0, 5, 0, Usage{Remaining: 5}},
		{3, 2, 0, Usage{Remaining: 2, Refill: 20, Reset: 20}},
		{3, 3, 20, Usage{Remaining: 2, Refill: 20, Reset: 20}},
		{5, 1, 20, Usage{Refill: 20, Reset: 20}},
		{7, 1, 20, Usage{Over: 2, Refill: 20, Reset: 20}}, // more than fits was charged
	} {
		used := w.Charge(row.used)
		if got := used.Wait(&l, 1000, row.cost); got != row.wait {
			t.Errorf("%d used: a cost of %d waits for %d, want %d", row.used, row.cost, got, row.wait)
		}
		if got := used.Report(&l, 1000); got != row.want {
			t.Errorf("%d used: %+v, want %+v", row.used, got, row.want)
		}
	}
}
