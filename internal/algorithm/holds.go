package algorithm

import "slices"

// Holds are the unsettled holds of a pair. A hold belongs to the sub-bucket in which it was made and lasts until
// HoldExpiry after the start of that sub-bucket, so releasing it needs no identifier of the request. When it ends, its
// cost is charged: see Ending.
type Holds struct{ cells []holdCell } // oldest first

type holdCell struct{ start, cost, count int64 }

const (
	holdWidth = 6_000_000 // of a sub-bucket, in microseconds

	// HoldExpiry is how long a hold lasts at most, in microseconds; it lasts at least HoldExpiry - holdWidth.
	HoldExpiry = 66_000_000

	// HoldHint is the wait, in microseconds, of a request that is denied only because of holds, whose end is unknown.
	HoldHint = 1_000_000
)

// An Ending is the charge for the unsettled holds of one sub-bucket when they end.
type Ending struct{ At, Cost int64 }

// lastOf returns when the last of ended ends.
func lastOf(ended []Ending) int64 { return ended[len(ended)-1].At }

// Ended returns what has ended at now, in order. It drops nothing.
func (h *Holds) Ended(now int64) (ended []Ending) {
	for _, c := range h.cells {
		if c.start+HoldExpiry <= now {
			ended = append(ended, Ending{c.start + HoldExpiry, c.cost})
		}
	}
	return ended
}

// Drop drops what has ended at now.
func (h *Holds) Drop(now int64) {
	h.cells = slices.DeleteFunc(h.cells, func(c holdCell) bool { return c.start+HoldExpiry <= now })
}

// Rewind moves holds that are later than now to now, because the clock has gone back.
func (h *Holds) Rewind(now int64) {
	var cost, count int64
	for n := len(h.cells); n > 0 && h.cells[n-1].start > FloorTo(now, holdWidth); n-- {
		cost, count = min(cost+h.cells[n-1].cost, MaxExact), count+h.cells[n-1].count
		h.cells = h.cells[:n-1]
	}
	if count > 0 {
		h.Add(now, cost, count)
	}
}

// Add holds cost for some requests at now, before which Rewind was called.
func (h *Holds) Add(now, cost, count int64) {
	start := FloorTo(now, holdWidth)
	if n := len(h.cells); n == 0 || h.cells[n-1].start != start {
		h.cells = append(h.cells, holdCell{start: start})
	}
	c := &h.cells[len(h.cells)-1]
	c.cost, c.count = min(c.cost+cost, MaxExact), c.count+count
}

// Sum returns what is held at now: the cost of all requests and how many they are.
func (h *Holds) Sum(now int64) (cost, count int64) {
	for _, c := range h.cells {
		if c.start+HoldExpiry > now {
			cost, count = min(cost+c.cost, MaxExact), count+c.count
		}
	}
	return cost, count
}

// Release removes the hold of a request that was made at an instant, and returns how much of its cost was held. It
// reports false if the hold has ended. If the instant is later than all holds, because the clock has gone back, Release
// removes the hold from the latest sub-bucket.
func (h *Holds) Release(at, cost int64) (released int64, ok bool) {
	n := len(h.cells)
	if n == 0 {
		return 0, false
	}
	start := min(FloorTo(at, holdWidth), h.cells[n-1].start)
	i := slices.IndexFunc(h.cells, func(c holdCell) bool { return c.start == start })
	if i < 0 {
		return 0, false
	}
	c := &h.cells[i]
	released = min(cost, c.cost)
	c.cost, c.count = c.cost-released, c.count-1
	if c.count == 0 {
		h.cells = slices.Delete(h.cells, i, i+1)
	}
	return released, true
}

// EndOf returns the end of a hold that was made at an instant.
func EndOf(at int64) int64 { return FloorTo(at, holdWidth) + HoldExpiry }

// Ends returns the instant at which all holds have ended, or 0 if there are none.
func (h *Holds) Ends() int64 {
	if len(h.cells) == 0 {
		return 0
	}
	return h.cells[len(h.cells)-1].start + HoldExpiry
}

// Clone returns a copy of h.
func (h *Holds) Clone() Holds { return Holds{cells: slices.Clone(h.cells)} }
