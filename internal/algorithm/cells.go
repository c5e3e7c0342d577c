package algorithm

import (
	"math"
	"slices"
)

// A Cell is something dated that a pair remembers besides the states of its limits.
type Cell struct {
	Ends    int64   // the instant from which it no longer counts
	N       int64   // Hold: its cost. Ban: its length. Grant: requests, negative if taken away. Reset: the instant after it. Raise: a level
	Count   int64   // Hold: its requests
	Limits  []Limit // Hold: of the claims, to be charged when it ends; they never change
	Of      uint64  // Grant, Raise: Limit.Kind
	Sibling uint32  // Raise: Limit.Sibling
	Kind    CellKind
}

// A CellKind says what a cell is of.
type CellKind uint8

const (
	Hold CellKind = iota
	Grant
	Raise // the part of the level of a bucket that a ban of its limit has added: only requests of its own rate see it
	Ban   // of the pair
	Reset
)

// Cells are the cells of a pair, in order of their ends. A pair has one cell for the holds of the same sub-bucket and
// limits, one for the grants of a limit with the same end, one for each banned bucket, one ban and one reset.
type Cells []Cell

const (
	holdWidth = 6_000_000 // of a sub-bucket, in microseconds

	// HoldExpiry is how long a hold lasts at most, in microseconds; it lasts at least HoldExpiry - holdWidth.
	HoldExpiry = 66_000_000

	// HoldHint is the wait, in microseconds, of a request that is denied only because of holds, whose end is unknown.
	HoldHint = 1_000_000

	maxGrants = 60        // cells of grants
	maxGrant  = 1<<30 - 1 // requests that one cell grants, or takes away
)

// EndOf returns the end of a hold that was made at an instant. A hold belongs to the sub-bucket in which it was made, so
// releasing it needs no identifier of the request.
func EndOf(at int64) int64 { return FloorTo(at, holdWidth) + HoldExpiry }

// find returns the index of the cell that x belongs to, or -1.
func (c Cells) find(x *Cell) int {
	return slices.IndexFunc(c, func(y Cell) bool {
		same := y.Kind == x.Kind && y.Of == x.Of && y.Sibling == x.Sibling
		return same && (x.Kind > Grant || y.Ends == x.Ends) && chargeAlike(y.Limits, x.Limits)
	})
}

// chargeAlike reports whether a hold that ends is charged alike to the limits a and b.
func chargeAlike(a, b []Limit) bool {
	if len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] { // nearly always
		return true
	}
	isCharged := func(l Limit) bool { return l.IsCharged() }
	i, j := slices.IndexFunc(a, isCharged), slices.IndexFunc(b, isCharged)
	if i < 0 || j < 0 {
		return i == j
	}
	x, y := &a[i], &b[j]
	same := x.Kind == y.Kind && x.Rate == y.Rate && x.Capacity == y.Capacity && x.Width == y.Width && x.Ban == y.Ban
	return same && chargeAlike(a[i+1:], b[j+1:])
}

// add adds x to c: to the cell that it belongs to, or as a further one.
func (c *Cells) add(x Cell) {
	if i := c.find(&x); i >= 0 {
		same := &(*c)[i]
		switch x.Kind {
		case Hold:
			same.N, same.Count = min(same.N+x.N, MaxExact), same.Count+x.Count
			return
		case Grant:
			if same.N = max(-maxGrant, min(same.N+x.N, maxGrant)); same.N == 0 {
				*c = slices.Delete(*c, i, i+1)
			}
			return
		case Ban, Reset:
			x.Ends, x.N = max(same.Ends, x.Ends), max(same.N, x.N)
		}
		*c = slices.Delete(*c, i, i+1)
	}
	i := len(*c)
	for i > 0 && (*c)[i-1].Ends > x.Ends {
		i--
	}
	*c = slices.Insert(*c, i, x)
}

// Hold holds cost for some requests at now.
func (c *Cells) Hold(now, cost, count int64, limits []Limit) {
	c.add(Cell{Kind: Hold, Ends: EndOf(now), N: cost, Count: count, Limits: limits})
}

// Sum returns what c holds, the cost of all requests and how many they are, and for how many microseconds after now the pair is
// banned.
func (c Cells) Sum(now int64) (cost, count, banned int64) {
	for i := range c {
		switch x := &c[i]; x.Kind {
		case Hold:
			cost, count = min(cost+x.N, MaxExact), count+x.Count
		case Ban:
			banned = max(0, x.Ends-now)
		}
	}
	return cost, count, banned
}

// Release removes the hold of a request with these limits that was made at an instant, and returns how much of its cost
// was held. It reports false if the hold has ended. If the instant is later than all holds, because the clock has gone
// back, Release removes the hold from the latest of them.
func (c *Cells) Release(at, cost int64, limits []Limit) (released int64, ok bool) {
	if c == nil {
		return 0, false
	}
	ends, latest, i := EndOf(at), int64(0), -1
	for j := range *c {
		if x := &(*c)[j]; x.Kind == Hold && chargeAlike(x.Limits, limits) {
			if latest = x.Ends; latest <= ends {
				i = j
			}
		}
	}
	if i < 0 || (*c)[i].Ends != min(ends, latest) {
		return 0, false
	}
	x := &(*c)[i]
	released = min(cost, x.N)
	x.N, x.Count = x.N-released, x.Count-1
	if x.Count == 0 {
		*c = slices.Delete(*c, i, i+1)
	}
	return released, true
}

// latest returns the latest end that x can have at now.
func (x *Cell) latest(now int64) int64 {
	switch {
	case x.Kind == Hold:
		return EndOf(now)
	case x.Kind == Grant && isSliding(x.Of):
		return now + int64(x.Of>>codeBits)
	case x.Kind == Ban:
		return now + x.N
	}
	return x.Ends
}

// Rewind moves what is later than now can be to now, because the clock has gone back: holds, bans, and grants that last one
// period.
func (c *Cells) Rewind(now int64) {
	cells := *c
	*c = nil
	for _, x := range cells {
		x.Ends = min(x.Ends, x.latest(now))
		c.add(x)
	}
}

// Grant grants n requests, which are not 0, to the limits of a kind until an instant. If there are too many grants, it makes one
// of the two grants of the kind that end first. That is never in the key's favor.
func (c *Cells) Grant(of uint64, ends, n int64) {
	c.add(Cell{Kind: Grant, Of: of, Ends: ends, N: max(-maxGrant, min(n, maxGrant))})
	grants, first, second := 0, 0, 0
	for i := len(*c) - 1; i >= 0; i-- {
		if x := &(*c)[i]; x.Kind == Grant {
			grants++
			if x.Of == of {
				first, second = i, first
			}
		}
	}
	if grants <= maxGrants || second == 0 { // there may be one
		return
	}
	a, b := (*c)[first], (*c)[second]
	*c = slices.Delete(slices.Delete(*c, second, second+1), first, first+1)
	if b.N < 0 { // it takes away for longer
		a.N, a.Ends = min(a.N, 0), b.Ends
	}
	c.Grant(of, a.Ends, a.N+b.N)
}

// Granted returns what is granted to the limits of a kind at an instant, and until when that stays.
func (c Cells) Granted(of uint64, at int64) (n, until int64) {
	until = math.MaxInt64
	for i := range c {
		if x := &c[i]; x.Kind == Grant && x.Ends > at && x.Of == of {
			n, until = n+x.N, min(until, x.Ends)
		}
	}
	return n, until
}

// raised returns the level that a ban has added to the bucket in r.
func (c Cells) raised(r *Record) int64 {
	if i := c.find(&Cell{Kind: Raise, Of: r.Kind &^ tickBits, Sibling: r.Sibling}); i >= 0 {
		return c[i].N
	}
	return 0
}

// raise records that a ban has added n to the level of the bucket in r.
func (c *Cells) raise(r *Record, n int64) {
	x := Cell{Kind: Raise, Of: r.Kind &^ tickBits, Sibling: r.Sibling, Ends: bucketEnds(r), N: n}
	if i := c.find(&x); n > 0 {
		c.add(x)
	} else if i >= 0 {
		*c = slices.Delete(*c, i, i+1)
	}
}

// Ban bans the pair for a time from now on. A longer ban stays.
func (c *Cells) Ban(now, length int64) {
	c.add(Cell{Kind: Ban, Ends: min(now+length, MaxExact), N: length})
}

// Forget forgets all but holds at now. Charges made by now, which no longer count from the instant ends on, are not given
// back.
func (c *Cells) Forget(now, ends int64) {
	_, before := c.Reset()
	ends = max(ends, before)
	*c = slices.DeleteFunc(*c, func(x Cell) bool { return x.Kind != Hold })
	if ends > now {
		c.add(Cell{Kind: Reset, Ends: ends, N: now + 1})
	}
}

// keep makes c remember the next Forget until ends at least.
func (c *Cells) keep(ends int64) { c.add(Cell{Kind: Reset, Ends: ends, N: math.MinInt64}) }

// Reset returns the instant before which charges are not given back, and until when that matters.
func (c Cells) Reset() (at, ends int64) {
	if i := c.find(&Cell{Kind: Reset}); i >= 0 {
		return c[i].N, c[i].Ends
	}
	return math.MinInt64, math.MinInt64
}

// IsDue reports whether a hold has ended at now, or Rewind changes c.
func (c Cells) IsDue(now int64) bool {
	for i := range c {
		if x := &c[i]; x.Kind == Hold && x.Ends <= now || x.Ends > x.latest(now) {
			return true
		}
	}
	return false
}

// DropHolds drops the holds that have ended at now, and returns them. What they charge may need the other cells that have ended: Drop
// comes after that.
func (c *Cells) DropHolds(now int64) (ended Cells) {
	*c = slices.DeleteFunc(*c, func(x Cell) bool {
		isEnded := x.Kind == Hold && x.Ends <= now
		if isEnded {
			ended = append(ended, x)
		}
		return isEnded
	})
	return ended
}

// Drop drops the cells that have ended at now, but not a ban, because the clock may go back.
func (c *Cells) Drop(now int64) {
	*c = slices.DeleteFunc(*c, func(x Cell) bool { return x.Kind != Ban && x.Ends <= now })
}

// Ends returns the instant at which all cells have ended, or the earliest one if there are none.
func (c Cells) Ends() int64 {
	if len(c) == 0 {
		return math.MinInt64
	}
	return c[len(c)-1].Ends
}
