package algorithm

import (
	"slices"
	"testing"
)

var (
	windows = []Limit{*windowLimit(5)}
	buckets = []Limit{{Rate: 5, Capacity: 5, Row: &Table[TokenBucket], Kind: 1000 << 4}}
	both    = []Limit{windows[0], buckets[0]}
)

func TestHoldLastsFor60To66Seconds(t *testing.T) {
	const base = 6_000_000 * 1000
	for _, into := range []int64{0, 1, 3_000_000, 5_999_999} {
		var c Cells
		c.Hold(base+into, 5, 1, windows)
		end := int64(base + 66_000_000)
		if c.Ends() != end || EndOf(base+into) != end || c.IsDue(end-1) || len(c.Drop(end-1)) > 0 {
			t.Errorf("made %dµs into a sub-bucket: ends at %d, want %d", into, c.Ends(), end)
		}
		if cost, count, _ := c.Sum(); cost != 5 || count != 1 {
			t.Errorf("made %dµs into a sub-bucket: %d held by %d requests before the end", into, cost, count)
		}
		if !c.IsDue(end) {
			t.Errorf("made %dµs into a sub-bucket: not due at the end", into)
		}
		if ended := c.Drop(end); len(ended) != 1 || ended[0].N != 5 || ended[0].Ends != end || len(c) != 0 {
			t.Errorf("made %dµs into a sub-bucket: %+v has ended, and %+v is left", into, ended, c)
		}
	}
}

func TestHoldsOfTheSameSecondsAndLimitsShareACell(t *testing.T) {
	inFlight, none := Limit{Rate: 9, Row: &Table[InFlight]}, Limit{Row: &Table[TokenBucket]}
	other := slices.Clone(windows)
	other[0].Rate++
	var c Cells
	for _, limits := range [][]Limit{windows, slices.Clone(windows), {inFlight, windows[0]}, {windows[0], none}, other, both, nil, {inFlight}} {
		c.Hold(5_999_999, 1, 1, limits)
	}
	c.Hold(6_000_000, 1, 1, windows)
	var counts []int64
	for _, x := range c {
		counts = append(counts, x.Count)
	}
	if !slices.Equal(counts, []int64{4, 1, 1, 2, 1}) {
		t.Errorf("cells of %d holds, want 4 of one limit, 1 of its other rate, 1 of both, 2 of none and 1 later", counts)
	}
}

func TestCellsOfAClockThatWentBackAreMadeNow(t *testing.T) {
	log := slidingLimit(9, 1_000_000, 0)
	var c Cells
	for _, at := range []int64{60_000_000, 66_000_000, 72_000_000} {
		c.Hold(at, 2, 1, windows)
	}
	c.Grant(log.Kind, 72_000_000, 5)
	c.Grant(windows[0].Kind, 72_000_000, 5)
	if !c.IsDue(65_000_000) {
		t.Error("not due although it lies in the future")
	}
	c.Rewind(65_000_000)
	want := Cells{
		{Kind: Grant, Of: log.Kind, Ends: 66_000_000, N: 5}, {Kind: Grant, Of: windows[0].Kind, Ends: 72_000_000, N: 5},
		{Kind: Hold, Ends: 126_000_000, N: 6, Count: 3},
	}
	for i := range c {
		c[i].Limits = nil
	}
	if !slices.EqualFunc(c, want, func(a, b Cell) bool {
		return a.Kind == b.Kind && a.Of == b.Of && a.Ends == b.Ends && a.N == b.N && a.Count == b.Count
	}) {
		t.Errorf("%+v, want %+v", c, want)
	}
}

func TestHeldCostsAreCutAtTheLargestWholeNumber(t *testing.T) {
	var c Cells
	c.Hold(0, MaxExact, 1, nil)
	c.Hold(0, MaxExact, 1, nil)
	c.Hold(6_000_000, 5, 1, nil)
	if cost, count, _ := c.Sum(); cost != MaxExact || count != 3 {
		t.Errorf("%d held by %d", cost, count)
	}
}

// banned returns until when the pair with c is banned.
func banned(c Cells) int64 {
	_, _, ends := c.Sum()
	return ends
}

func TestLongestBanStays(t *testing.T) {
	var c Cells
	if banned(c) != 0 {
		t.Error("banned without a ban")
	}
	for _, ends := range []int64{5, 9, 7} {
		c.Ban(ends)
	}
	if c.Drop(9); banned(c) != 9 || len(c) != 1 {
		t.Errorf("%+v, want a ban until 9, which is not forgotten in case the clock goes back", c)
	}
}

func TestResetForgetsAllButHolds(t *testing.T) {
	var c Cells
	c.Ban(500)
	c.Grant(windows[0].Kind, 500, 5)
	c.Hold(0, 3, 1, windows)
	c.Forget(100, 900)
	if at, ends := c.Reset(); at != 101 || ends != 900 || banned(c) != 0 || len(c) != 2 {
		t.Errorf("%+v, reset at %d, which matters until %d", c, at, ends)
	}
	c.Forget(200, 300)
	if at, ends := c.Reset(); at != 201 || ends != 900 {
		t.Errorf("%+v, reset at %d, which matters until %d", c, at, ends)
	}
	c.Forget(1000, 1000)
	if _, ends := c.Reset(); ends > 0 || len(c) != 1 {
		t.Errorf("%+v, want the hold alone", c)
	}
}

// If there are too many grants, two are merged. The merged grant never grants more than both.
func TestMergedGrantsNeverAddUpToMore(t *testing.T) {
	for _, row := range [][2]int64{{3, 4}, {3, -4}, {-3, 4}, {-3, -4}, {5, -5}, {-5, 5}} {
		var c Cells
		for i := range int64(maxGrants - 1) {
			c.Grant(32, 1000+i, 1)
		}
		c.Grant(16, 100, row[0])
		c.Grant(16, 200, row[1])
		if len(c) > maxGrants {
			t.Errorf("%d: %d grants", row, len(c))
		}
		for at, most := range map[int64]int64{0: row[0] + row[1], 99: row[0] + row[1], 100: row[1], 199: row[1], 200: 0} {
			if n, _ := c.Granted(16, at); n > most {
				t.Errorf("%d: %d granted at %d, want at most %d", row, n, at, most)
			}
		}
		if n, _ := c.Granted(16, 0); n != min(row[0]+row[1], row[1]) && row[1] < 0 || row[1] >= 0 && n != row[0]+row[1] {
			t.Errorf("%d: %d granted at first", row, n)
		}
	}
}
