package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A fixedWindow says what was charged in the window that begins at start and ends before until.
type fixedWindow struct {
	calendar            core.Calendar // if it is not zero, windows are the calendar's
	count, start, until int64
}

// window returns the window of t: a multiple of the period, or a window of the calendar. The period counts only without
// a calendar.
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
