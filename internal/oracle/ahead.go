package oracle

import "github.com/spillgate/spillgate/core"

// Ahead charges requests ahead at now and returns how many: want, but at most half of what remains. During a ban nothing remains.
func (m *Model) Ahead(now int64, c core.Claim, want int64) int64 {
	asks := m.open(now, []core.Claim{c})
	for _, a := range asks {
		free := a.free(now, now)
		want = min(want, atLeastZero(free.Sub(free, a.held()))/2)
		if a.ban(now) > 0 {
			want = 0
		}
	}
	if want > 0 {
		chargeAll(asks, now, want)
	}
	return want
}

// Admit decides and charges one claim like Take, but returns no results.
func (m *Model) Admit(now int64, c core.Claim) bool {
	asks := m.open(now, []core.Claim{c})
	for _, a := range asks {
		if a.decide(now) > 0 {
			return false
		}
	}
	chargeAll(asks, now, int64(max(c.Cost, 1)))
	return true
}
