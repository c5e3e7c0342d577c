package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A fixedWindow says what was charged in the window that begins at start.
type fixedWindow struct {
	count, start int64
}

// rewind keeps a window that begins up to one period later: its requests were admitted before the clock went back.
func (w *fixedWindow) rewind(l core.Limit, now int64) {
	if w.start > now+l.Period.Microseconds() {
		w.start = windowOf(l, now)
	}
}

func (w *fixedWindow) name(core.Limit, bool, int64, bool) {}
func (w *fixedWindow) keep(core.Limit, int64)             {}
func (w *fixedWindow) forget()                            { w.count = 0 }

func (w *fixedWindow) end(_ *core.Limit, _ bool, period time.Duration, held bool, _ int64, ended []ending) {
	l := core.Limit{Period: period}
	for _, e := range ended {
		if held || w.used(l, false, e.at, e.at).Sign() > 0 {
			w.charge(l, e.at, e.cost)
		}
	}
}

func (w *fixedWindow) used(l core.Limit, _ bool, _, then int64) *big.Rat {
	if then >= w.start+l.Period.Microseconds() {
		return new(big.Rat)
	}
	return whole(w.count)
}

func (w *fixedWindow) charge(l core.Limit, now, cost int64) {
	w.begin(l, now)
	w.count = saturated(w.count, cost)
}

func (w *fixedWindow) refund(l core.Limit, _, at, cost int64) {
	if windowOf(l, at) == w.start {
		w.count = max(0, w.count-cost)
	}
}

// begin makes w the window of now, unless it is a later one that counts.
func (w *fixedWindow) begin(l core.Limit, now int64) {
	w.rewind(l, now)
	if start := windowOf(l, now); start > w.start || w.count == 0 {
		*w = fixedWindow{start: start}
	}
}

func windowOf(l core.Limit, t int64) int64 { return begin(t, l.Period.Microseconds()) }
