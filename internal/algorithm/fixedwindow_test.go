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
