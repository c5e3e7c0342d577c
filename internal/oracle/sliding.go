package oracle

import (
	"math/big"

	"github.com/spillgate/spillgate/core"
)

// counts says how much was charged with each stamp. A stamp counts until one period after it, and one that is later than
// latest, the stamp of a request now, as if it were that.
type counts map[int64]int64

func (c counts) used(l core.Limit, latest, then int64) *big.Rat {
	var sum int64
	for stamp, count := range c {
		if then < min(stamp, latest)+l.Period.Microseconds() {
			sum += count
		}
	}
	return whole(sum)
}

func (c counts) charge(l core.Limit, now, latest, cost int64) {
	c.drop(l, now)
	c.lower(latest, latest)
	free := int64(maxUnits)
	for _, count := range c {
		free -= count
	}
	c[latest] += min(cost, free)
}

func (c counts) refund(stamp, cost int64) {
	if c[stamp] -= cost; c[stamp] <= 0 {
		delete(c, stamp)
	}
}

// drop forgets what no longer counts at now.
func (c counts) drop(l core.Limit, now int64) {
	for s := range c {
		if now >= s+l.Period.Microseconds() {
			delete(c, s)
		}
	}
}

// lower makes stamps that are later than limit another one, and reports whether there were any.
func (c counts) lower(limit, stamp int64) (some bool) {
	for s, count := range c {
		if s > limit {
			delete(c, s)
			c[stamp] += count
			some = true
		}
	}
	return some
}

// A slidingWindow stamps a request with the end of its sub-bucket. Its stamps may be later than that of a request now
// because the sub-buckets were wider before.
type slidingWindow struct{ counts }

func (w slidingWindow) stamp(l core.Limit, now int64) int64 {
	buckets := int64(l.Buckets)
	if buckets == 0 {
		buckets = 10
	}
	width := ceilDiv(l.Period.Microseconds(), buckets)
	return begin(now, width) + width
}

// rewind looks for stamps that not even the widest sub-bucket, half a period, explains. What has ceased to count does not
// count again when the clock goes back.
func (w slidingWindow) rewind(l core.Limit, now int64) {
	if stamp := w.stamp(l, now); w.lower(now+ceilDiv(l.Period.Microseconds(), 2), stamp) {
		w.lower(stamp, stamp)
	}
	w.drop(l, now)
}

func (w slidingWindow) name(core.Limit, bool, int64) {}

func (w slidingWindow) used(l core.Limit, _ bool, now, then int64) *big.Rat {
	return w.counts.used(l, w.stamp(l, now), then)
}

func (w slidingWindow) charge(l core.Limit, now, cost int64) {
	w.counts.charge(l, now, w.stamp(l, now), cost)
}

func (w slidingWindow) refund(l core.Limit, _, at, cost int64) {
	w.counts.refund(w.stamp(l, at), cost)
}

// A slidingLog stamps a request with its instant.
type slidingLog struct{ counts }

func (s slidingLog) rewind(l core.Limit, now int64) {
	s.lower(now, now)
	s.drop(l, now)
}

func (s slidingLog) name(core.Limit, bool, int64) {}

func (s slidingLog) used(l core.Limit, _ bool, now, then int64) *big.Rat {
	return s.counts.used(l, now, then)
}

func (s slidingLog) charge(l core.Limit, now, cost int64) { s.counts.charge(l, now, now, cost) }

func (s slidingLog) refund(_ core.Limit, _, at, cost int64) { s.counts.refund(at, cost) }
