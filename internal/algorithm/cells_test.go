package algorithm

import (
	"slices"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
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
		expect.True(t, c.Ends() == end && EndOf(base+into) == end && !c.IsDue(end-1) && len(c.DropHolds(end-1)) <= 0,
			"made %dµs into a sub-bucket: ends at %d, want %d", into, c.Ends(), end)
		if cost, count, _ := c.Sum(0); cost != 5 || count != 1 {
			t.Errorf("made %dµs into a sub-bucket: %d held by %d requests before the end", into, cost, count)
		}
		expect.True(t, c.IsDue(end), "made %dµs into a sub-bucket: not due at the end", into)
		if ended := c.DropHolds(end); len(ended) != 1 || ended[0].N != 5 || ended[0].Ends != end || len(c) != 0 {
			t.Errorf("made %dµs into a sub-bucket: %+v has ended, and %+v is left", into, ended, c)
		}
	}
}

func TestHoldsOfTheSameSecondsAndLimitsShareACell(t *testing.T) {
	inFlight, none := Limit{Rate: 9, Algorithm: InFlight}, Limit{}
	all := [][]Limit{{inFlight, windows[0]}, windows, slices.Clone(windows), {windows[0], none}, both, nil, {inFlight}}
	for _, change := range []func(*Limit){func(l *Limit) { l.Rate++ }, func(l *Limit) { l.Capacity++ }, func(l *Limit) { l.Width++ }, func(l *Limit) { l.Ban++ }} {
		other := slices.Clone(windows)
		change(&other[0])
		all = append(all, other)
	}
	var c Cells
	for _, limits := range all {
		c.Hold(5_999_999, 1, 1, limits)
	}
	c.Hold(6_000_000, 1, 1, windows)
	var counts []int64
	for _, x := range c {
		counts = append(counts, x.Count)
	}
	expect.Elements(t, counts, []int64{4, 1, 2, 1, 1, 1, 1, 1}, "cells of holds (4 of one limit, 1 of both, 2 of none, 4 of other limits and 1 later)")
}

func TestHoldsAreReleasedFromTheirCell(t *testing.T) {
	const a, b = 6_000_000, 18_000_000
	for why, row := range map[string]struct {
		at, cost, released int64
		limits             []Limit
		ok                 bool
		left               [3]int64
	}{
		"of the first":             {a + 5, 3, 3, windows, true, [3]int64{4, 2, 9}},
		"of the second":            {b, 9, 9, windows, true, [3]int64{7, 2, 0}},
		"of the other limits":      {a + 5, 1, 1, both, true, [3]int64{7, 1, 9}},
		"no more than is there":    {a, 8, 7, windows, true, [3]int64{0, 2, 9}},
		"nothing of an earlier":    {a - 1, 3, 0, windows, false, [3]int64{7, 2, 9}},
		"nothing of one between":   {a + 6_000_000, 3, 0, windows, false, [3]int64{7, 2, 9}},
		"nothing of other limits":  {a, 3, 0, buckets, false, [3]int64{7, 2, 9}},
		"nothing of the ban":       {b + 60_000_000, 2, 0, []Limit{{Rate: 9, Algorithm: InFlight}}, false, [3]int64{7, 2, 9}},
		"of the last from a later": {b + 60_000_000, 2, 2, windows, true, [3]int64{7, 2, 7}},
		"of the last of its limit": {b, 2, 2, both, true, [3]int64{7, 0, 9}},
	} {
		var c Cells
		c.Hold(a, 7, 2, windows)
		c.Hold(a, 2, 2, both)
		c.Hold(b, 9, 2, windows)
		c.Ban(b, 80_000_000)
		released, ok := c.Release(row.at, row.cost, row.limits)
		expect.True(t, released == row.released && ok == row.ok, "%s: %d, %t", why, released, ok)
		for i, n := range row.left {
			expect.True(t, c[i].N == n, "%s: left %+v, want %d", why, c, row.left)
		}
	}
	var none Cells
	_, ok := none.Release(1, 1, windows)
	expect.True(t, !ok, "something was released of nothing")
}

func TestCellsOfAClockThatWentBackAreMadeNow(t *testing.T) {
	log := slidingLimit(9, 1_000_000, 0)
	var c Cells
	for _, at := range []int64{60_000_000, 66_000_000, 72_000_000} {
		c.Hold(at, 2, 1, windows)
	}
	c.Grant(log.Kind, 72_000_000, 5)
	c.Grant(windows[0].Kind, 72_000_000, 5)
	expect.True(t, c.IsDue(65_000_000), "not due although it lies in the future")
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
	c = nil
	for ends := int64(180); ends <= 360; ends += 60 {
		c.Grant(windows[0].Kind, ends, 1)
	}
	fixedWindow.Open(&State{Limit: &windows[0], Now: 61, Cells: &c})
	expect.True(t, len(c) == 2 && c[0].Ends == 120 && c[0].N == 3 && c[1].Ends == 180, "%+v, want 3 grants in this window and 1 in the next", c)
}

func TestHeldCostsAreCutAtTheLargestWholeNumber(t *testing.T) {
	var c Cells
	c.Hold(0, MaxExact, 1, nil)
	c.Hold(0, MaxExact, 1, nil)
	c.Hold(6_000_000, 5, 1, nil)
	cost, count, _ := c.Sum(0)
	expect.True(t, cost == MaxExact && count == 3, "%d held by %d", cost, count)
}

// banned returns until when the pair with c is banned.
func banned(c Cells) int64 {
	_, _, ends := c.Sum(0)
	return ends
}

func TestLongestBanStays(t *testing.T) {
	var c Cells
	expect.Equal(t, banned(c), 0, "banned without a ban")
	for _, ends := range []int64{5, 9, 7} {
		c.Ban(0, ends)
	}
	if c.Drop(9); banned(c) != 9 || len(c) != 1 {
		t.Errorf("%+v, want a ban until 9, which is not forgotten in case the clock goes back", c)
	}
}

func TestResetForgetsAllButHolds(t *testing.T) {
	var c Cells
	c.Ban(0, 500)
	c.Grant(windows[0].Kind, 500, 5)
	c.Hold(0, 3, 1, windows)
	c.Forget(100, 900)
	if at, ends := c.Reset(); at != 101 || ends != 900 || banned(c) != 0 || len(c) != 2 {
		t.Errorf("%+v, reset at %d, which matters until %d", c, at, ends)
	}
	c.Forget(200, 300)
	at, ends := c.Reset()
	expect.True(t, at == 201 && ends == 900, "%+v, reset at %d, which matters until %d", c, at, ends)
	c.Forget(1000, 1000)
	_, ends = c.Reset()
	expect.True(t, ends <= 0 && len(c) == 1, "%+v, want the hold alone", c)
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
		expect.AtMost(t, len(c), maxGrants, "%d: grants", row)
		for at, most := range map[int64]int64{0: row[0] + row[1], 99: row[0] + row[1], 100: row[1], 199: row[1], 200: 0} {
			n, _ := c.Granted(16, at)
			expect.AtMost(t, n, most, "%d: granted at %d", row, at)
		}
		if n, _ := c.Granted(16, 0); n != min(row[0]+row[1], row[1]) && row[1] < 0 || row[1] >= 0 && n != row[0]+row[1] {
			t.Errorf("%d: %d granted at first", row, n)
		}
	}
}

func TestRoomsOfASlabDoNotOverlap(t *testing.T) {
	var s Slab[int]
	const n = 3*chunkRooms + 5
	for i := uint32(1); i <= n; i++ {
		got := s.Add(int(i))
		must.True(t, got == i, "room %d has the number %d", i, got)
	}
	for i := uint32(1); i <= n; i++ {
		expect.Equal(t, *s.At(i), int(i), "room %d", i)
	}
	expect.Equal(t, len(s.chunks), 4, "chunks")
}

// A dropped room is set to zero, and it is the next room handed out.
func TestDroppedRoomsAreUsedAgain(t *testing.T) {
	var s Slab[int]
	for i := range 5 {
		s.Add(10 + i)
	}
	s.Drop(2)
	s.Drop(4)
	all := roomsOf(&s, 5)
	expect.Equal(t, all, [5]int{10, 0, 12, 0, 14}, "after two drops")
	a, b, c := s.Add(20), s.Add(21), s.Add(22)
	expect.True(t, a == 4 && b == 2 && c == 6, "handed out %d, %d and %d, want 4, 2 and 6", a, b, c)
	all = roomsOf(&s, 5)
	expect.Equal(t, all, [5]int{10, 21, 12, 20, 14}, "filled again")
	all = roomsOf(&s, 2)
	expect.Equal(t, all, [5]int{10, 21}, "the first two")
	seen := 0
	for range s.All {
		seen++
	}
	expect.Equal(t, seen, 6, "rooms")
}

// roomsOf returns the first n rooms of s.
func roomsOf(s *Slab[int], n int) (rooms [5]int) {
	i := 0
	for room := range s.All {
		rooms[i] = *room
		if i++; i == n {
			break
		}
	}
	return rooms
}

// A bucket keeps its tick where other algorithms have the last bits of their code.
func TestKindsLeaveRoomForTicks(t *testing.T) {
	for a := range InFlight {
		l, _ := Compile(Limit{Algorithm: a, Rate: 2, Capacity: 2, Micros: 1000, Width: 100})
		of := algorithmOf(l.Kind | tickBits)
		expect.True(t, of == a && l.Kind&tickBits == 0, "the kind %b of algorithm %d says %d", l.Kind, a, of)
	}
}

func TestNoChargedLimitHasTheKindOfCells(t *testing.T) {
	for a := range InFlight {
		l, _ := Compile(Limit{Algorithm: a, Rate: 2, Capacity: 2, Micros: 1000, Width: 100})
		expect.NotEqual(t, l.Kind, CellsKind, "algorithm %d has the kind of cells", a)
	}
}

func TestMulDivUpIsCutAtTheLargestWholeNumber(t *testing.T) {
	for _, row := range []struct {
		why           string
		a, b, c, want int64
	}{
		{"a part counts as a whole", 7, 5, 12, 3},
		{"a whole stays one", 7, 12, 12, 7},
		{"the product may need more than 64 bits", 1 << 50, 1 << 49, 1 << 49, 1 << 50},
		{"the largest is none too large", MaxExact, 3, 3, MaxExact},
		{"a part more is", MaxExact, 1001, 1000, MaxExact},
		{"a quotient of 64 bits is", 1 << 40, 1 << 40, 1<<16 + 1, MaxExact},
		{"so is one that needs a bit more", 1 << 40, 1 << 40, 1 << 16, MaxExact},
		{"and one that needs many", MaxExact, 1 << 49, 1, MaxExact},
	} {
		expect.Equal(t, mulDivUp(row.a, row.b, row.c), row.want, "%s: %d·%d/%d", row.why, row.a, row.b, row.c)
	}
}

func TestAddProductIsCutAtTheLargestWholeNumber(t *testing.T) {
	for _, row := range [][4]int64{
		{1, 2, 3, 7}, {MaxExact - 6, 2, 3, MaxExact}, {MaxExact - 5, 2, 3, MaxExact}, {0, 1 << 32, 1 << 32, MaxExact},
		{0, 1 << 40, 1 << 13, MaxExact}, {5, 0, MaxExact, 5}, {MaxExact, MaxExact, MaxExact, MaxExact},
	} {
		expect.Equal(t, addProduct(row[0], row[1], row[2]), row[3], "%d + %d·%d", row[0], row[1], row[2])
	}
}

func TestFitsUpToTheLargestWholeNumber(t *testing.T) {
	for _, row := range []struct {
		sum, a, b int64
		want      bool
	}{
		{0, 0, 0, true}, {MaxExact, 0, 5, true}, {0, 1, MaxExact, true}, {MaxExact - 6, 2, 3, true},
		{MaxExact - 5, 2, 3, false}, {1, 1, MaxExact, false}, {0, 1, MaxExact + 1, false},
		{0, 1 << 32, 1 << 32, false}, // the product needs more than 64 bits, and its low ones are 0
		{0, 1 << 40, 1 << 40, false},
		{1, 1 << 31, 1 << 32, false}, // added up, they overflow
	} {
		expect.Equal(t, fits(row.sum, row.a, row.b), row.want, "%d + %d·%d fits", row.sum, row.a, row.b)
	}
}

func TestMultiplesBeforeTheEpoch(t *testing.T) {
	for at, want := range map[int64]int64{10: 10, 9: 0, 0: 0, -1: -10, -10: -10, -11: -20} {
		expect.Equal(t, FloorTo(at, 10), want, "the multiple of 10 not above %d", at)
	}
}
