package algorithm

import "testing"

// A tier may have other sub-buckets. A stamp of a wider one counts as long as it said, and its wait says so.
func TestStampOfAWiderSubBucketIsKept(t *testing.T) {
	const now = 1_000_000
	wide, narrow := logLimit(9, 1000, 500), logLimit(9, 1000, 100)
	var g Log
	g.Charge(wide, now+10, 9)
	if g.Advance(narrow, now+20); g.Last() != now+500 || g.Wait(narrow, now+20, 1) != 1480 {
		t.Errorf("stamp %d, and a wait of %d; want %d and 1480", g.Last(), g.Wait(narrow, now+20, 1), now+500)
	}
	if g.Charge(narrow, now+20, 1); g.Last() != now+100 || g.entries.count != 1 {
		t.Errorf("stamp %d in %d entries after a charge with narrower sub-buckets, want all made now", g.Last(), g.entries.count)
	}
}

// After the clock went back, nothing counts for longer than if it was made now.
func TestStampsOfAClockThatWentBackAreMadeNow(t *testing.T) {
	const now = 1_000_000
	for _, row := range []struct{ width, back, stamp int64 }{{100, 10, 100}, {100, 11, 99}, {100, 1000, -890}, {500, 10, 500}, {500, 11, 499}, {0, 1, 9}} {
		l := logLimit(9, 1000, row.width)
		var g Log
		g.Charge(l, now+10, 9)
		if g.Advance(l, now+10-row.back); g.Last() != now+row.stamp {
			t.Errorf("width %d, back by %d: stamp %d, want %d", row.width, row.back, g.Last(), now+row.stamp)
		}
	}
}

func TestLogEndsBeforeTheUnixEpoch(t *testing.T) {
	l := logLimit(9, 1000, 100)
	var g Log
	g.Charge(l, -5000, 1)
	if g.Advance(l, -2000); g.Used() != 0 || g.Last() != 0 {
		t.Errorf("%d used until %d of a log that has ended", g.Used(), g.Last())
	}
}

func TestLogIsCutAtTheLargestWholeNumber(t *testing.T) {
	l := logLimit(9, 1000, 0)
	var g Log
	g.Charge(l, 0, 5)
	for now := range int64(2) {
		if g.Charge(l, now, MaxExact); g.Used() != MaxExact {
			t.Errorf("%d used, want %d", g.Used(), int64(MaxExact))
		}
	}
}

// A log of n entries, of which one ends each microsecond from 100,000 on.
func logOf(n int64) (*Limit, Log) {
	l := logLimit(100_000, 100_000, 0)
	var g Log
	for now := range n {
		g.Charge(l, now, 1)
	}
	return l, g
}

func TestLogShrinksWithItsEntries(t *testing.T) {
	l, g := logOf(1024)
	for g.Used() > 0 {
		g.Advance(l, 100_000+1024-g.Used())
		if n := len(g.entries.cells); n > few && n > 4*g.entries.count {
			t.Fatalf("%d cells for %d entries", n, g.entries.count)
		}
	}
}

// Rebuilding the tree for each entry that ends would take time in proportion to the others.
func TestEntryThatEndsMovesNoOthers(t *testing.T) {
	l, g := logOf(1000)
	now := int64(100_000)
	if n := testing.AllocsPerRun(100, func() { g.Advance(l, now); now++ }); n > 0 || g.Used() != 1000-101 {
		t.Errorf("%v allocations for each entry, %d left", n, g.Used())
	}
}

func TestShortLogKeepsItsCells(t *testing.T) {
	l, g := logOf(few)
	const now = 1_000_000
	if g.Advance(l, now); len(g.entries.cells) != few || g.Used() != 0 {
		t.Errorf("%d cells, %d used", len(g.entries.cells), g.Used())
	}
}

func TestLogGivesItsCellsBackWhenAllIsRefunded(t *testing.T) {
	for _, first := range []int64{0, 999} {
		l, g := logOf(1000)
		for i := range int64(1000) {
			g.Refund(l, max(first-i, i-first), 1)
			if n := g.entries.count; n > few && int64(n) > 2*g.Used() {
				t.Fatalf("%d entries for %d used", n, g.Used())
			}
		}
		if g.Used() != 0 || g.entries.count != 0 || len(g.entries.cells) > few {
			t.Errorf("%d used, %d entries, %d cells", g.Used(), g.entries.count, len(g.entries.cells))
		}
	}
}

func TestRefundMovesNoOtherEntries(t *testing.T) {
	l, g := logOf(1000)
	at := int64(0)
	if n := testing.AllocsPerRun(100, func() { g.Refund(l, at, 1); at++ }); n > 0 || g.Used() != 1000-101 {
		t.Errorf("%v allocations for each refund, %d used", n, g.Used())
	}
}

func TestRingHasTheLeastPowerOfTwoOfCells(t *testing.T) {
	for n, want := range map[int]int{1: few, few: few, few + 1: 2 * few, 256: 256, 257: 512} {
		if got := size(n); got != want {
			t.Errorf("%d cells for %d entries, want %d", got, n, want)
		}
	}
}
