package oracle

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// counts maps each stamp to what was charged with it. A charge counts until one period after its stamp.
type counts map[int64]int64

func (c counts) used(period time.Duration, then int64) (sum int64) {
	for stamp, count := range c {
		if then < stamp+period.Microseconds() {
			sum += count
		}
	}
	return sum
}

// add counts cost with a stamp, so that no more than most count in all.
func (c counts) add(stamp, cost, most int64) {
	for _, count := range c {
		most -= count
	}
	c[stamp] += min(cost, most)
}

func (c counts) refund(stamp, cost int64) {
	if c[stamp] -= cost; c[stamp] <= 0 {
		delete(c, stamp)
	}
}

// drop forgets what no longer counts at now.
func (c counts) drop(period time.Duration, now int64) {
	maps.DeleteFunc(c, func(stamp, _ int64) bool { return now >= stamp+period.Microseconds() })
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

// A slidingWindow has the siblings of one period, by the width of their sub-buckets. Each sibling counts every charge, with the end of
// its sub-bucket as the stamp. The fullest one says what is used.
type slidingWindow map[int64]counts

func widthOf(l core.Limit) int64 {
	buckets := int64(l.Buckets)
	if buckets == 0 {
		buckets = 10
	}
	return ceilDiv(l.Period.Microseconds(), buckets)
}

// endOf returns the end of the sub-bucket that contains an instant, if sub-buckets have this width.
func endOf(width, now int64) int64 { return begin(now, width) + width }

// rewind counts charges of later sub-buckets as made now.
func (w slidingWindow) rewind(_ core.Limit, now int64) {
	for width, c := range w {
		c.lower(endOf(width, now))
	}
}

func (w slidingWindow) used(l core.Limit, _, then int64) *big.Rat {
	most := int64(0)
	for _, c := range w {
		most = max(most, c.used(l.Period, then))
	}
	return whole(most)
}

func (w slidingWindow) charge(l core.Limit, now, cost int64) {
	w.rewind(l, now)
	for width, c := range w {
		if c.drop(l.Period, now); len(c) == 0 {
			delete(w, width)
		}
	}
	if own := widthOf(l); w[own] == nil {
		w.start(l, own, now)
	}
	for width, c := range w {
		c.add(endOf(width, now), cost, maxUnits)
	}
}

// start adds a sibling. It starts from the fullest one (of several, the widest): it dates each count to the sub-bucket that contains the
// count's end, but no later than now, because the charges were made before now. If there are too many siblings, it replaces the one
// that ends first (of several, the narrowest).
func (w slidingWindow) start(l core.Limit, own, now int64) {
	fullest := int64(0)
	for _, width := range slices.Sorted(maps.Keys(w)) {
		if fullest == 0 || w[width].used(l.Period, now) >= w[fullest].used(l.Period, now) {
			fullest = width
		}
	}
	c := counts{}
	for end, count := range w[fullest] {
		c[min(endOf(own, end), endOf(own, now))] += count
	}
	if len(w) == maxSiblings {
		delete(w, slices.MinFunc(slices.Sorted(maps.Keys(w)), func(a, b int64) int {
			return int(slices.Max(slices.Collect(maps.Keys(w[a]))) - slices.Max(slices.Collect(maps.Keys(w[b]))))
		}))
	}
	w[own] = c
}

// refund lowers every sibling, because every sibling has counted the charge.
func (w slidingWindow) refund(_ core.Limit, _, at, cost int64) {
	for width, c := range w {
		c.refund(endOf(width, at), cost)
	}
}

func (w slidingWindow) grant(l core.Limit, now, _ int64) (ends int64) {
	return now + l.Period.Microseconds()
}

// A slidingLog stamps a request with its instant.
type slidingLog counts

// maxMembers is how many requests a log counts. What is charged beyond does not count.
const maxMembers = 10_000

func (s slidingLog) rewind(_ core.Limit, now int64) { counts(s).lower(now) }

func (s slidingLog) used(l core.Limit, _, then int64) *big.Rat {
	return whole(counts(s).used(l.Period, then))
}

func (s slidingLog) charge(l core.Limit, now, cost int64) {
	s.rewind(l, now)
	counts(s).drop(l.Period, now)
	counts(s).add(now, cost, maxMembers)
}

func (s slidingLog) refund(_ core.Limit, _, at, cost int64) { counts(s).refund(at, cost) }

func (s slidingLog) grant(l core.Limit, now, _ int64) (ends int64) {
	return now + l.Period.Microseconds()
}

// A fixedWindow says what was charged in the window that begins at start and ends before until.
type fixedWindow struct {
	calendar            core.Calendar // if it is not zero, windows are the calendar's
	count, start, until int64
}

// window returns the window of t: a multiple of the period, or a window of the calendar. The period counts only without a calendar.
func (w *fixedWindow) window(period time.Duration, t int64) (start, end int64) {
	if w.calendar.Unit == 0 {
		start = begin(t, period.Microseconds())
		return start, start + period.Microseconds()
	}
	from, to := w.calendar.Window(time.UnixMicro(t))
	return from.UnixMicro(), to.UnixMicro()
}

// rewind keeps a window that begins up to one period after now (with a calendar: the next window), because its requests
// were admitted before the clock went back.
func (w *fixedWindow) rewind(l core.Limit, now int64) {
	start, end := w.window(l.Period, now)
	latest := end
	if w.calendar.Unit == 0 {
		latest = now + l.Period.Microseconds()
	}
	if w.start > latest {
		w.start, w.until = start, end
	}
}

func (w *fixedWindow) used(_ core.Limit, _, then int64) *big.Rat {
	if then >= w.until {
		return new(big.Rat)
	}
	return whole(w.count)
}

func (w *fixedWindow) charge(l core.Limit, now, cost int64) {
	w.begin(l, now)
	w.count = saturated(w.count, cost)
}

func (w *fixedWindow) refund(_ core.Limit, _, at, cost int64) {
	if w.start <= at && at < w.until {
		w.count = max(0, w.count-cost)
	}
}

// grant returns when a grant made at now ends: at the end of the window.
func (w *fixedWindow) grant(l core.Limit, now, _ int64) (ends int64) {
	w.begin(l, now)
	return w.until
}

// begin makes w the window of now, unless w is a later window that still counts.
func (w *fixedWindow) begin(l core.Limit, now int64) {
	w.rewind(l, now)
	if start, end := w.window(l.Period, now); start > w.start || w.count == 0 {
		w.count, w.start, w.until = 0, start, end
	}
}

func windowOf(l core.Limit, t int64) int64 { return begin(t, l.Period.Microseconds()) }
