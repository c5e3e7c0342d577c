package algorithm

import "testing"

func windowLimit(rate int64) *Limit {
	l, _ := Compile(Limit{Algorithm: FixedWindow, Rate: rate, Capacity: rate, Micros: 60})
	return &l
}

func TestWindowKeepsItsCountWhenTheClockIsSet(t *testing.T) {
	l := windowLimit(5)
	w := Window{}.Advance(l, 1000, 0) // 960 to 1020
	w.Used = 3
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
		if got := w.Advance(l, row.now, row.offset); got.Used != row.used || got.Start != row.start {
			t.Errorf("%s: %+v, want %d used since %d", row.why, got, row.used, row.start)
		}
	}
}

func TestWindowRefundsOnlyItsOwnCharges(t *testing.T) {
	l := windowLimit(5)
	for at, want := range map[int64]int64{959: 3, 960: 1, 1019: 1, 1020: 3} {
		s := &State{Limit: l, Stored: &Record{Level: 3, At: 960}}
		if l.Row.Refund(s, at, NoTurn, 2); s.Stored.Level != want {
			t.Errorf("charged at %d: %d used, want %d", at, s.Stored.Level, want)
		}
	}
}

func TestWindowAdmitsUpToItsRateUntilItEnds(t *testing.T) {
	l := windowLimit(5)
	for _, row := range []struct {
		used, cost, wait int64
		want             Usage
	}{
		{0, 5, 0, Usage{Remaining: 5}},
		{0, 6, Never, Usage{Remaining: 5}},
		{3, 2, 0, Usage{Remaining: 2, Refill: 20, Reset: 20}},
		{3, 3, 20, Usage{Remaining: 2, Refill: 20, Reset: 20}},
		{5, 1, 20, Usage{Refill: 20, Reset: 20}},
		{7, 1, 20, Usage{Over: 2, Refill: 20, Reset: 20}}, // more than fits was charged
	} {
		s := &State{Limit: l, Now: 1000, Stored: &Record{Level: row.used, At: 960}}
		if got := l.Row.Open(s, row.cost); got != row.wait {
			t.Errorf("%d used: a cost of %d waits for %d, want %d", row.used, row.cost, got, row.wait)
		}
		if got := l.Row.Report(s); got != row.want {
			t.Errorf("%d used: %+v, want %+v", row.used, got, row.want)
		}
	}
}

func TestGrantsRaiseAWindowWhileTheyLast(t *testing.T) {
	l := windowLimit(5)
	for _, row := range []struct {
		why        string
		ends, n    int64
		cost, wait int64
		want       Usage
	}{
		{"more than the rate", 1020, 4, 6, 0, Usage{Remaining: 6, Granted: 4, Refill: 20, Reset: 20}},
		{"more than is left, while the grant lasts", 1030, 1, 6, 20, Usage{Remaining: 3, Granted: 1, Refill: 20, Reset: 20}},
		{"never that many again", 1020, 2, 7, Never, Usage{Remaining: 4, Granted: 2, Refill: 20, Reset: 20}},
		{"what was taken away comes back first", 1010, -2, 1, 10, Usage{Granted: -2, Refill: 10, Reset: 20}},
		{"all of it, while nothing else is left", 1050, -5, 1, 50, Usage{Granted: -5, Over: 3, Refill: 50, Reset: 50}},
		{"or last", 1050, -4, 2, 50, Usage{Granted: -4, Over: 2, Refill: 20, Reset: 20}},
	} {
		s := &State{Limit: l, Now: 1000, Stored: &Record{Level: 3, At: 960}, Cells: new(Cells)}
		s.Cells.Grant(l.Kind, row.ends, row.n)
		if got := l.Row.Open(s, row.cost); got != row.wait {
			t.Errorf("%s: a wait of %d, want %d", row.why, got, row.wait)
		}
		if got := l.Row.Report(s); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.why, got, row.want)
		}
	}
}
