package oracle

import (
	"fmt"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// A grant is how many requests a state may use on top of its limit until an instant; n is negative if they were taken away. It does not
// change what was used.
type grant struct {
	id   stateID
	n    int64
	ends int64
}

const (
	maxGrants = 60        // of a pair
	mostGrant = 1<<30 - 1 // of one grant
)

// granted returns what the grants of a state add at an instant.
func (p *pair) granted(id stateID, then int64) (sum int64) {
	for _, g := range p.grants {
		if g.id == id && then < g.ends {
			sum += g.n
		}
	}
	return sum
}

// add adds a grant. Grants of one state that end together are one. If there are too many, the two of the state that end first become one,
// which at no instant adds more than they did.
func (p *pair) add(g grant) {
	for i, other := range p.grants {
		if other.id == g.id && other.ends == g.ends {
			p.grants = slices.Delete(p.grants, i, i+1)
			g.n += other.n
			break
		}
	}
	if g.n = max(-mostGrant, min(g.n, mostGrant)); g.n != 0 {
		p.grants = append(p.grants, g)
	}
	slices.SortStableFunc(p.grants, func(a, b grant) int { return int(a.ends - b.ends) })
	if len(p.grants) <= maxGrants {
		return
	}
	first := slices.IndexFunc(p.grants, func(other grant) bool { return other.id == g.id })
	second := slices.IndexFunc(p.grants[first+1:], func(other grant) bool { return other.id == g.id })
	if second < 0 {
		return
	}
	a, b := p.grants[first], p.grants[first+1+second]
	p.grants = slices.Delete(p.grants, first+1+second, second+first+2)
	p.grants = slices.Delete(p.grants, first, first+1)
	switch {
	case b.n >= 0: // until a ends, both count; afterwards b alone, which is dropped
		b.n, b.ends = b.n+a.n, a.ends
	default:
		b.n += min(a.n, 0)
	}
	p.add(b)
}

// rewindGrants shortens grants of l that last longer than a grant of now, because the clock went back. A grant of a window lasts as long as
// the window.
func (p *pair) rewindGrants(l core.Limit, now int64) {
	if l.Algorithm != core.SlidingWindow && l.Algorithm != core.SlidingLog {
		return
	}
	grants := p.grants
	p.grants = nil
	for _, g := range grants {
		if g.id == stateOf(l) {
			g.ends = min(g.ends, now+l.Period.Microseconds())
		}
		if now < g.ends {
			p.add(g)
		}
	}
}

// grant gives the limits of s more requests, or takes them away.
func (m *Model) grant(now int64, s *core.Settlement) {
	for _, a := range m.asksOf(s) {
		if a.limit.Rate == 0 || a.limit.Algorithm == core.InFlight {
			continue
		}
		if ends := a.state.grant(a.limit, now, int64(s.Grant)); ends > 0 {
			a.pair.add(grant{a.id, int64(s.Grant), ends})
		}
	}
}

// checkGrant returns an error that is core.ErrInvalid if a log had to hold too many requests after a grant.
func (m *Model) checkGrant(now int64, s *core.Settlement) error {
	for _, a := range m.asksOf(s) {
		if n := int64(a.limit.Rate) + a.pair.granted(a.id, now) + int64(s.Grant); s.Grant != 0 && a.id.algorithm == core.SlidingLog && n > maxMembers {
			return fmt.Errorf("%w: a log holds at most %d requests, not %d", core.ErrInvalid, maxMembers, n)
		}
	}
	return nil
}
