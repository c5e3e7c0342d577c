package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// counts maps each stamp to what was charged with it. A charge counts until one period after its stamp.
type counts map[int64]int64

func (c counts) used(period time.Duration, then int64) *big.Rat {
	var sum int64
	for stamp, count := range c {
		if then < stamp+period.Microseconds() {
			sum += count
		}
	}
	return whole(sum)
}

// charge counts cost with a stamp. It moves charges with later stamps to this one: they were made before now.
func (c counts) charge(period time.Duration, now, stamp, cost int64) {
	c.drop(period, now)
	c.lower(stamp)
	free := int64(maxUnits)
	for _, count := range c {
		free -= count
	}
	c[stamp] += min(cost, free)
}

func (c counts) refund(stamp, cost int64) {
	if c[stamp] -= cost; c[stamp] <= 0 {
		delete(c, stamp)
	}
}

// drop forgets what no longer counts at now.
func (c counts) drop(period time.Duration, now int64) {
	for s := range c {
		if now >= s+period.Microseconds() {
			delete(c, s)
		}
	}
}

// lower moves charges with stamps later than limit to limit.
func (c counts) lower(limit int64) {
	for s, count := range c {
		if s > limit {
			delete(c, s)
			c[limit] += count
		}
	}
}

// A slidingWindow stamps a request with the end of its sub-bucket. width is the widest sub-bucket that a stamp in it may
// belong to: a stamp that is further than width in the future shows that the clock went back.
type slidingWindow struct {
	counts
	width int64
}

func widthOf(l core.Limit) int64 {
	buckets := int64(l.Buckets)
	if buckets == 0 {
		buckets = 10
	}
	return ceilDiv(l.Period.Microseconds(), buckets)
}

// endOf returns the end of the sub-bucket that contains an instant, if sub-buckets have this width.
func endOf(width, now int64) int64 { return begin(now, width) + width }

// rewind counts charges from after now, which the clock has left behind, as made now. A charge that has stopped counting
// does not count again when the clock goes back.
func (w *slidingWindow) rewind(l core.Limit, now int64) {
	if len(w.counts) > 0 {
		w.lower(now + w.width)
	}
	w.drop(l.Period, now)
}

func (w *slidingWindow) name(core.Limit, bool, int64, bool) {}

func (w *slidingWindow) keep(l core.Limit, now int64) {
	w.drop(l.Period, now)
	if width := widthOf(l); len(w.counts) == 0 || width > w.width {
		w.width = width
	}
}

func (w *slidingWindow) forget() { clear(w.counts) }

func (w *slidingWindow) end(l *core.Limit, _ bool, period time.Duration, held bool, _ int64, ended []ending) {
	for _, e := range ended {
		if !held && w.counts.used(period, e.at).Sign() == 0 {
			continue
		}
		w.rewind(core.Limit{Period: period}, e.at)
		width := w.width
		if l != nil {
			w.keep(*l, e.at)
			width = widthOf(*l)
		}
		w.counts.charge(period, e.at, endOf(width, e.at), e.cost)
	}
}

func (w *slidingWindow) used(l core.Limit, _ bool, _, then int64) *big.Rat {
	return w.counts.used(l.Period, then)
}

func (w *slidingWindow) charge(l core.Limit, now, cost int64) {
	w.keep(l, now)
	w.counts.charge(l.Period, now, endOf(widthOf(l), now), cost)
}

func (w *slidingWindow) refund(l core.Limit, _, at, cost int64) {
	w.counts.refund(endOf(widthOf(l), at), cost)
}

func (w *slidingWindow) grant(l core.Limit, now, _ int64) (ends int64) {
	return now + l.Period.Microseconds()
}

// A slidingLog stamps a request with its instant.
type slidingLog struct{ counts }

func (s slidingLog) rewind(l core.Limit, now int64) {
	s.lower(now)
	s.drop(l.Period, now)
}

func (s slidingLog) name(core.Limit, bool, int64, bool) {}
func (s slidingLog) keep(core.Limit, int64)             {}
func (s slidingLog) forget()                            { clear(s.counts) }

func (s slidingLog) end(_ *core.Limit, _ bool, period time.Duration, held bool, _ int64, ended []ending) {
	for _, e := range ended {
		if held || s.counts.used(period, e.at).Sign() > 0 {
			s.counts.charge(period, e.at, e.at, e.cost)
		}
	}
}

func (s slidingLog) used(l core.Limit, _ bool, _, then int64) *big.Rat {
	return s.counts.used(l.Period, then)
}

func (s slidingLog) charge(l core.Limit, now, cost int64) { s.counts.charge(l.Period, now, now, cost) }

func (s slidingLog) refund(_ core.Limit, _, at, cost int64) { s.counts.refund(at, cost) }

func (s slidingLog) grant(l core.Limit, now, _ int64) (ends int64) {
	return now + l.Period.Microseconds()
}
