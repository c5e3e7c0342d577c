package algorithm

import "math/bits"

// A ring is a queue of entries, each a stamp and a count, that finds an entry by the sum of the counts up to it. The sums are
// a binary indexed tree (P. Fenwick, "A New Data Structure for Cumulative Frequency Tables", 1994) over the places of the
// ring, so they need no update of all later entries when one changes or leaves.
type ring struct {
	cells []cell // a power of two, or none
	head  int    // the place of the oldest entry
	count int    // of entries
	empty int    // upper bound of the entries that count 0; they are removed when they are half of all
	total int64
}

type cell struct {
	stamp int64
	sum   int64 // of the counts of some places up to this one: see add
}

// place returns where entry i is, counted from the oldest.
func (r *ring) place(i int) int { return (r.head + i) & (len(r.cells) - 1) }

func (r *ring) stamp(i int) int64 { return r.cells[r.place(i)].stamp }

// upTo returns the sum of the counts of the first n places.
func (r *ring) upTo(n int) (sum int64) {
	for ; n > 0; n &= n - 1 {
		sum += r.cells[n-1].sum
	}
	return sum
}

// at returns the count of entry i.
func (r *ring) at(i int) int64 {
	p := r.place(i)
	return r.upTo(p+1) - r.upTo(p)
}

// add adds n to the count of entry i.
func (r *ring) add(i int, n int64) {
	r.total += n
	for p := r.place(i) + 1; p <= len(r.cells); p += p & -p {
		r.cells[p-1].sum += n
	}
}

// search returns the first entry up to which the counts sum up to at least n, which is at most the total.
func (r *ring) search(n int64) int {
	before := r.upTo(r.head)
	if n += before; n > r.total { // it lies in front of the head
		n -= r.total
	}
	p := 0
	for step := len(r.cells) / 2; step > 0; step /= 2 {
		if next := p + step; r.cells[next-1].sum < n {
			n -= r.cells[next-1].sum
			p = next
		}
	}
	return (p - r.head) & (len(r.cells) - 1)
}

// append adds a newest entry.
func (r *ring) append(stamp, count int64) {
	if r.count == len(r.cells) {
		r.rebuild(0, max(1, 2*len(r.cells)))
	}
	r.count++
	r.cells[r.place(r.count-1)].stamp = stamp
	r.add(r.count-1, count)
}

// dropNewest removes the newest entry and returns its count.
func (r *ring) dropNewest() int64 {
	n := r.at(r.count - 1)
	r.add(r.count-1, -n)
	r.count--
	return n
}

// few is the smallest number of cells that a ring keeps.
const few = 16

// dropOldest removes the n oldest entries. If n is large, it rebuilds the tree, which is faster than removing entries
// one by one.
func (r *ring) dropOldest(n int) {
	switch {
	case n == r.count:
		r.clear()
		return
	case len(r.cells) > few && n*2*bits.Len(uint(len(r.cells))) > len(r.cells):
		r.rebuild(n, size(r.count-n))
		return
	}
	for range n {
		r.add(0, -r.at(0))
		r.head = r.place(1)
		r.count--
	}
	if len(r.cells) > few && 4*r.count < len(r.cells) {
		r.rebuild(0, size(r.count))
	}
}

// clear removes all entries.
func (r *ring) clear() {
	cells := r.cells
	if len(cells) > few {
		cells = nil
	}
	clear(cells)
	*r = ring{cells: cells}
}

// trim records that one more entry counts 0. It removes such entries if they are the newest, or once they may be half
// of all.
func (r *ring) trim() {
	r.empty++
	for r.count > 0 && r.at(r.count-1) == 0 {
		r.dropNewest()
	}
	switch {
	case r.count == 0:
		r.clear()
	case 2*r.empty > r.count && r.count > few:
		r.rebuild(0, size(r.count))
	}
}

// size returns how many cells n entries get, of which there are some.
func size(n int) int { return max(few, 1<<bits.Len(uint(n-1))) }

// rebuild gives r a number of cells, and drops its n oldest entries and the entries that count 0.
func (r *ring) rebuild(n, cells int) {
	r.flatten()
	old := *r
	*r = ring{cells: make([]cell, cells)}
	for i := n; i < old.count; i++ {
		if c := old.cells[old.place(i)]; c.sum > 0 {
			r.cells[r.count] = c
			r.total += c.sum
			r.count++
		}
	}
	for p := range cells {
		if up := p | (p + 1); up < cells {
			r.cells[up].sum += r.cells[p].sum
		}
	}
}

// flatten makes each sum count only its own place.
func (r *ring) flatten() {
	for p := len(r.cells) - 1; p >= 0; p-- {
		if up := p | (p + 1); up < len(r.cells) {
			r.cells[up].sum -= r.cells[p].sum
		}
	}
}
