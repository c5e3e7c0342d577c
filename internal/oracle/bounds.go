package oracle

import (
	"slices"

	"github.com/spillgate/spillgate/core"
)

// checkDenial fails if the store denied a request although what other processes hold left room for it. A charge of the
// request's own process counts only as far as it was used, once the process knows of the charge.
func (b *ledger) checkDenial(f *fleet, r *request) {
	for _, l := range f.limits {
		level := b.level(l, f.now, func(c *charge) int64 {
			if c.process == r.process && !c.stranded && c.known > 0 && c.known <= r.sent {
				return c.used + c.transit
			}
			return c.n - c.returned
		})
		if level+b.lost[l]+r.cost*unit(l) > int64(l.Capacity())*unit(l) {
			return
		}
	}
	b.fail("a request of cost %d was denied though there is room that no other process holds", r.cost)
}

// check checks, once a fleet is idle, what it has admitted of l and what it was charged.
func (b *ledger) check(f *fleet, l core.Limit) {
	slices.SortStableFunc(b.admitted, func(x, y *request) int { return int(x.at - y.at) })
	over, overCharged := b.bucketOver, b.bucketOverCharged
	if l.Algorithm == core.FixedWindow {
		over, overCharged = b.windowOver, b.windowOverCharged
	}
	if n := over(l, f.longest()); n > 0 {
		b.fail("limit %v: %d units more were admitted than the limit and a lease allow", l, n)
	}
	if n := overCharged(l); n > 0 {
		b.fail("limit %v: %d units more were charged than the limit allows", l, n)
	}
	rest := func(c *charge) int64 {
		if c.stranded {
			return c.n - c.returned
		}
		return c.used
	}
	if n, want := f.counted(l), b.level(l, f.now, rest); n < want || n > want+b.lost[l] {
		b.fail("limit %v: %d units count in the end, want %d to %d", l, n, want, want+b.lost[l])
	}
}

// checkCharges checks that an idle fleet has used or returned exactly what it was charged.
func (b *ledger) checkCharges() {
	for _, c := range b.charges {
		if c.used+c.returned > c.n {
			b.fail("%d requests were used and %d returned of %d", c.used, c.returned, c.n)
		}
		if !c.stranded && c.used+c.returned < c.n {
			b.fail("nobody crashed, and %d requests were used and %d returned of %d", c.used, c.returned, c.n)
		}
	}
}

// longest returns how long a lease lasts on the slowest clock.
func (f *fleet) longest() int64 {
	slowest := int64(1000)
	for _, rate := range rates {
		slowest = min(slowest, rate)
	}
	return ceilDiv(f.length*1000, slowest) + 1
}

// bucketOver returns by how much the admitted requests exceed, in some span of time t, capacity + rate·(t + lease).
func (b *ledger) bucketOver(l core.Limit, lease int64) (over int64) {
	most := int64(l.Capacity())*unit(l) + int64(l.Rate)*lease
	level, last := int64(0), int64(0)
	for _, r := range b.admitted {
		if !r.refunded {
			level = max(0, level-int64(l.Rate)*(r.at-last)) + r.cost*unit(l)
			last = r.at
			over = max(over, level-most)
		}
	}
	return over
}

// bucketOverCharged returns by how much the charges that were used or stranded exceed capacity + rate·t in some span of time t.
func (b *ledger) bucketOverCharged(l core.Limit) (over int64) {
	level, last := int64(0), int64(0)
	for _, c := range b.charges {
		level = max(0, level-int64(l.Rate)*(c.at-last)) + net(c)*unit(l)
		last = c.at
		over = max(over, level-int64(l.Capacity())*unit(l))
	}
	return over
}

// net returns the part of a charge that was not returned.
func net(c *charge) int64 { return max(c.n-c.returned, c.used) }

// windowOver returns by how much the admitted requests of some span exceed Rate for each window that [start - lease, end] touches.
func (b *ledger) windowOver(l core.Limit, lease int64) (over int64) {
	for i, first := range b.admitted {
		sum := int64(0)
		for _, r := range b.admitted[i:] {
			if r.refunded {
				continue
			}
			sum += r.cost
			windows := (windowOf(l, r.at)-windowOf(l, first.at-lease))/l.Period.Microseconds() + 1
			over = max(over, sum-windows*int64(l.Rate))
		}
	}
	return over
}

// windowOverCharged returns by how much the charges of some window exceed Rate.
func (b *ledger) windowOverCharged(l core.Limit) (over int64) {
	count, window := int64(0), int64(0)
	for _, c := range b.charges {
		if start := windowOf(l, c.at); start != window {
			count, window = 0, start
		}
		count += net(c)
		over = max(over, count-int64(l.Rate))
	}
	return over
}
