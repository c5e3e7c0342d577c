package oracle

import (
	"math/big"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Settle does at now what each settlement says: it replaces what was charged or held with Final, renews a hold, bans, or
// grants. It sets At of a settlement that renewed a hold. A settlement that changes nothing does not end holds.
func (m *Model) Settle(now int64, settlements []core.Settlement) {
	var asks []*ask
	var pairs []core.Pair
	for i := range settlements {
		s := &settlements[i]
		if !changes(s) {
			continue
		}
		asks, pairs = append(asks, m.asksOf(s)...), append(pairs, named(s.Rule, s.Key))
	}
	m.end(now, asks, pairs)
	for i := range settlements {
		s := &settlements[i]
		if !changes(s) {
			continue
		}
		p := m.pair(named(s.Rule, s.Key))
		switch cost := saturated(0, int64(max(s.Cost, 1))); {
		case s.Grant != 0:
			m.grant(now, s)
		case s.Ban > 0:
			p.banned = max(p.banned, now+s.Ban.Microseconds())
		case s.Renew:
			if some, ok := p.holds.release(s.At.UnixMicro(), cost); ok {
				p.holds.add(now, some)
				s.At = time.UnixMicro(now)
			}
		case s.Held:
			final := saturated(0, int64(s.Final))
			_, ok := p.holds.release(s.At.UnixMicro(), cost)
			p.tidy()
			if ended := begin(s.At.UnixMicro(), holdWidth) + holdExpiry; !ok && !s.At.IsZero() && ended <= now {
				late := *s // the hold was charged when it ended
				late.At = time.UnixMicro(ended)
				m.adjust(now, &late, final-cost)
				continue
			}
			if s.DryRun && final > cost && !m.fits(now, s, final) {
				final = cost
			}
			chargeAll(m.asksOf(s), now, final)
		default:
			m.adjust(now, s, saturated(0, int64(s.Final))-cost)
		}
	}
}

func changes(s *core.Settlement) bool {
	return s.Held || s.Ban > 0 || s.Grant != 0 || s.Final != max(s.Cost, 1)
}

// asksOf returns an ask for each limit of s.
func (m *Model) asksOf(s *core.Settlement) []*ask {
	return m.asks([]core.Claim{{Rule: s.Rule, Key: s.Key, Limits: s.Limits, Cost: s.Cost, DryRun: s.DryRun}})
}

// adjust charges more on top of what a Take has charged. If more is negative, it gives back the part that still counts.
func (m *Model) adjust(now int64, s *core.Settlement, more int64) {
	if more > 0 {
		if !s.DryRun || m.fits(now, s, more) {
			chargeAll(m.asksOf(s), now, more)
		}
		return
	}
	for _, a := range m.asksOf(s) {
		at, cost := s.At.UnixMicro(), -more
		if l := a.limit; l.Rate == 0 || l.Algorithm == core.TokenBucket && l.Calendar.Unit == 0 {
			cost = min(cost, int64(l.Capacity()))
		}
		turn := at + s.Wait.Microseconds()
		if b, ok := a.state.(*tokenBucket); ok && at >= a.pair.begins {
			b.rewind(a.limit, now)
		}
		switch {
		case at < a.pair.begins:
		case s.MaxWait > 0 && a.pair.banned > max(turn, now): // others may wait for the end of the ban; the level does not show them
		case s.MaxWait > 0:
			a.state.(*tokenBucket).giveBack(a.limit, now, at, turn, cost)
		default:
			a.state.refund(a.limit, now, at, cost)
		}
	}
}

// chargeAll charges cost to all limits, whether it fits or not.
func chargeAll(asks []*ask, now, cost int64) {
	for _, a := range asks {
		if cost > 0 && a.limit.Rate > 0 {
			a.rewind(now)
			a.state.charge(a.limit, now, cost)
		}
	}
}

// fits reports whether all limits of s have room for cost.
func (m *Model) fits(now int64, s *core.Settlement, cost int64) bool {
	for _, a := range m.asksOf(s) {
		a.rewind(now)
		if a.asked = whole(cost); a.limit.Algorithm != core.InFlight && a.decide(now) != 0 {
			return false
		}
	}
	return true
}

// saturated returns a + b, but at most the largest whole number.
func saturated(a, b int64) int64 { return min(a+b, maxUnits) }

func saturatedLevel(level *big.Rat, d drain) *big.Rat {
	return smaller(level, new(big.Rat).SetFrac64(maxUnits, d.period))
}
