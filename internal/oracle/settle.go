package oracle

import (
	"time"

	"github.com/spillgate/spillgate/core"
)

// Settle does at now what each settlement says: it replaces what was charged or held with Final, renews a hold, bans, or
// grants. It sets At of a settlement that renewed a hold. A settlement that changes nothing does not end holds. If a log cannot hold
// what is granted, Settle does nothing and returns an error that is core.ErrInvalid.
func (m *Model) Settle(now int64, settlements []core.Settlement) error {
	for i := range settlements {
		if s := &settlements[i]; changes(s) {
			m.open(now, []core.Claim{claimOf(s)})
		}
	}
	for i := range settlements {
		if err := m.checkGrant(now, &settlements[i]); err != nil {
			return err
		}
	}
	for i := range settlements {
		if s := &settlements[i]; changes(s) {
			m.settle(now, s)
		}
	}
	return nil
}

func (m *Model) settle(now int64, s *core.Settlement) {
	p := m.pair(core.Pair{Rule: s.Rule, Key: s.Key})
	cost, final := saturated(0, int64(max(s.Cost, 1))), saturated(0, int64(s.Final))
	switch {
	case s.Grant != 0:
		m.grant(now, s)
	case s.Ban > 0:
		p.banned = max(p.banned, now+s.Ban.Microseconds())
	case s.Renew:
		if some, ok := p.holds.release(s.At.UnixMicro(), cost, charged(s.Limits)); ok {
			p.holds.add(now, some)
			s.At = time.UnixMicro(now)
		}
	case s.Held:
		if _, ok := p.holds.release(s.At.UnixMicro(), cost, charged(s.Limits)); !ok && !s.At.IsZero() && endOfHold(s.At) <= now {
			late := *s // the hold was charged when it ended
			late.At = time.UnixMicro(endOfHold(s.At))
			m.adjust(now, &late, final-cost)
			return
		}
		if s.DryRun && final > cost && !m.fits(now, s, final) {
			final = cost
		}
		chargeAll(m.asksOf(s), now, final)
	default:
		m.adjust(now, s, final-cost)
	}
}

func changes(s *core.Settlement) bool {
	return s.Held || s.Ban > 0 || s.Grant != 0 || s.Final != max(s.Cost, 1)
}

func claimOf(s *core.Settlement) core.Claim {
	return core.Claim{Rule: s.Rule, Key: s.Key, Limits: s.Limits, Cost: s.Cost, DryRun: s.DryRun}
}

// asksOf returns an ask for each limit of s.
func (m *Model) asksOf(s *core.Settlement) []*ask { return m.asks([]core.Claim{claimOf(s)}) }

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
		if a.limit.Algorithm == core.TokenBucket && a.id.calendar.Unit == 0 {
			cost = min(cost, int64(a.limit.Capacity()))
		}
		turn := at + s.Wait.Microseconds()
		switch {
		case at < a.pair.reset || a.limit.Rate == 0:
		case s.MaxWait > 0 && a.pair.banned > max(turn, now): // others may wait for the end of the ban; the level does not show them
		case s.MaxWait > 0:
			a.state.(tokenBucket).giveBack(a.limit, now, at, turn, cost)
		default:
			a.state.refund(a.limit, now, at, cost)
		}
	}
}

// chargeAll charges cost to all limits, whether it fits or not.
func chargeAll(asks []*ask, now, cost int64) {
	for _, a := range asks {
		if cost > 0 && a.limit.Rate > 0 {
			a.state.charge(a.limit, now, cost)
		}
	}
}

// fits reports whether all limits of s have room for cost.
func (m *Model) fits(now int64, s *core.Settlement, cost int64) bool {
	for _, a := range m.asksOf(s) {
		if a.asked = whole(cost); a.limit.Algorithm != core.InFlight && a.decide(now) != 0 {
			return false
		}
	}
	return true
}

// saturated returns a + b, but at most the largest whole number.
func saturated(a, b int64) int64 { return min(a+b, maxUnits) }
