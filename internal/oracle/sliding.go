package oracle

import (
	"math/big"

	"github.com/spillgate/spillgate/core"
)

// counts says how much was charged with each stamp. A stamp counts until one period after it.
type counts map[int64]int64

func (c counts) used(l core.Limit, now int64) *big.Rat {
	var sum int64
	for stamp, count := range c {
		if now < stamp+l.Period.Microseconds() {
			sum += count
		}
	}
	return whole(sum)
}

// lower gives later stamps this one.
func (c counts) lower(stamp int64) {
	for s, count := range c {
		if s > stamp {
			delete(c, s)
			c[stamp] += count
		}
	}
}

func (c counts) giveBack(l core.Limit, now, stamp, cost int64) {
	if now < stamp+l.Period.Microseconds() {
		c[stamp] = max(0, c[stamp]-cost)
	}
}

// A slidingWindow stamps a request with the end of its sub-bucket.
type slidingWindow struct{ counts }

func (c slidingWindow) stamp(l core.Limit, now int64) int64 {
	buckets := int64(l.Buckets)
	if buckets == 0 {
		buckets = 10
	}
	width := ceilDiv(l.Period.Microseconds(), buckets)
	return begin(now, width) + width
}

// rewind lowers the stamps that are later than that of a request now: the clock went back, or the sub-buckets were wider
// before.
func (c slidingWindow) rewind(l core.Limit, now int64) { c.lower(c.stamp(l, now)) }

func (c slidingWindow) charge(l core.Limit, now, cost int64) { c.counts[c.stamp(l, now)] += cost }

func (c slidingWindow) refund(l core.Limit, now, at, cost int64) {
	c.giveBack(l, now, c.stamp(l, at), cost)
}

// A slidingLog stamps a request with its instant.
type slidingLog struct{ counts }

func (c slidingLog) rewind(_ core.Limit, now int64) { c.lower(now) }

func (c slidingLog) charge(_ core.Limit, now, cost int64) { c.counts[now] += cost }

func (c slidingLog) refund(l core.Limit, now, at, cost int64) { c.giveBack(l, now, at, cost) }
