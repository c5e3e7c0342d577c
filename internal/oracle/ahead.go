package oracle

import (
	"math/big"

	"github.com/spillgate/spillgate/core"
)

// Ahead charges requests ahead at now and returns how many: want, but at most half of what remains.
func (m *Model) Ahead(now int64, c core.Claim, want int64) int64 {
	for _, a := range m.evaluate(now, c) {
		want = min(want, atLeastZero(a.free(now))/2)
	}
	if want > 0 {
		chargeAll(m.asks([]core.Claim{c}), now, want)
		for _, a := range m.asks([]core.Claim{c}) {
			if b, ok := a.state.(*tokenBucket); ok {
				b.watch(now)
			}
		}
	}
	return want
}

// Admit decides and charges one claim like Take, but returns no results.
func (m *Model) Admit(now int64, c core.Claim) bool {
	for _, a := range m.evaluate(now, c) {
		if a.free(now).Cmp(a.asked) < 0 || a.ban(now) > 0 {
			return false
		}
	}
	chargeAll(m.asks([]core.Claim{c}), now, int64(max(c.Cost, 1)))
	return true
}

// evaluate returns the limits of one claim as they are at now.
func (m *Model) evaluate(now int64, c core.Claim) []*ask {
	asks := m.asks([]core.Claim{c})
	m.end(now, asks, nil)
	for _, a := range asks {
		a.rewind(now)
		a.state.name(a.limit, false, now, len(a.pair.holds) > 0)
	}
	return asks
}

// free returns what is neither charged nor held.
func (a *ask) free(now int64) *big.Rat {
	free := a.room(now, now)
	return free.Sub(free, a.held())
}
