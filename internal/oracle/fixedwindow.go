package oracle

import (
	"math/big"

	"github.com/spillgate/spillgate/core"
)

// A fixedWindow says what was charged in the window that begins at start.
type fixedWindow struct {
	count, start int64
}

func (w *fixedWindow) rewind(l core.Limit, now int64) {
	w.start = min(w.start, windowOf(l, now))
}

func (w *fixedWindow) name(core.Limit, bool, int64) {}

func (w *fixedWindow) used(l core.Limit, _ bool, _, then int64) *big.Rat {
	if windowOf(l, then) > w.start {
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

// begin makes w the window of now.
func (w *fixedWindow) begin(l core.Limit, now int64) {
	w.rewind(l, now)
	if start := windowOf(l, now); start > w.start {
		*w = fixedWindow{start: start}
	}
}

func windowOf(l core.Limit, t int64) int64 { return begin(t, l.Period.Microseconds()) }
