package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Settle replaces at now what claims were charged, or held, by their Final, renews holds, or bans. It sets At of a claim whose
// hold it has renewed.
func (m *Model) Settle(now int64, claims []core.Claim) {
	for i := range claims {
		c := &claims[i]
		p := m.pair(pair{ruleName(*c), c.Key})
		p.holds.advance(now)
		switch cost := saturated(0, int64(max(c.Cost, 1))); {
		case c.Peek:
		case c.Ban > 0:
			p.banned = max(p.banned, now+c.Ban.Microseconds())
		case c.Renew:
			if some, ok := p.holds.release(c.At.UnixMicro(), cost); ok {
				p.holds.add(now, some)
				c.At = time.UnixMicro(now)
			}
		case c.Hold:
			p.holds.release(c.At.UnixMicro(), cost)
			final := saturated(0, int64(c.Final))
			if c.DryRun && final > cost && !m.fits(now, *c, final) {
				final = cost
			}
			m.charge(now, *c, final)
		default:
			m.adjust(now, *c, saturated(0, int64(c.Final))-cost)
		}
	}
}

// adjust charges more than a Take has charged, or gives back as far as it still counts.
func (m *Model) adjust(now int64, c core.Claim, more int64) {
	if more > 0 {
		if !c.DryRun || m.fits(now, c, more) {
			m.charge(now, c, more)
		}
		return
	}
	for _, a := range m.asks([]core.Claim{c}) {
		if at := c.At.UnixMicro(); at >= a.pair.begins {
			a.state.refund(a.limit, now, at, min(-more, int64(a.limit.Capacity())))
		}
	}
}

// charge charges cost to all limits of c, whether it fits or not.
func (m *Model) charge(now int64, c core.Claim, cost int64) {
	for _, a := range m.asks([]core.Claim{c}) {
		if cost > 0 && a.limit.Rate > 0 {
			a.state.rewind(a.limit, now)
			a.state.charge(a.limit, now, cost)
		}
	}
}

// fits reports whether all limits of c have room for cost.
func (m *Model) fits(now int64, c core.Claim, cost int64) bool {
	for _, a := range m.asks([]core.Claim{c}) {
		a.state.rewind(a.limit, now)
		if a.asked = whole(cost); a.limit.Algorithm != core.InFlight && a.decide(now) != 0 {
			return false
		}
	}
	return true
}

// saturated returns the sum of a and b, or the largest whole number if that is less.
func saturated(a, b int64) int64 { return min(a+b, maxUnits) }

func saturatedLevel(level *big.Rat, d drain) *big.Rat {
	return smaller(level, new(big.Rat).SetFrac64(maxUnits, d.period))
}
