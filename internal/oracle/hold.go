package oracle

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

const (
	second     = 1_000_000
	holdWidth  = 6 * second  // of a sub-bucket, in microseconds
	holdExpiry = 66 * second // counted from the start of a sub-bucket
	hint       = 1 * second  // the wait while holds use up the limit, because nobody knows when they end
)

// A held is what requests with the same limits hold, made in the sub-bucket that begins at start.
type held struct {
	start, cost, count int64
	limits             []core.Limit // that will be charged when the hold ends
}

// holds is what a pair holds, in the order in which the pair held it first.
type holds []held

// sameCharge reports whether a charge to these limits changes the same states in the same way.
func sameCharge(a, b []core.Limit) bool {
	return slices.EqualFunc(a, b, func(a, b core.Limit) bool {
		same := stateOf(a) == stateOf(b) && a.Rate == b.Rate && a.Capacity() == b.Capacity() && a.Ban == b.Ban
		return same && (a.Algorithm != core.SlidingWindow || widthOf(a) == widthOf(b))
	})
}

// charged returns the limits that a held claim with these limits is charged to.
func charged(limits []core.Limit) []core.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l core.Limit) bool { return l.Algorithm == core.InFlight || l.Rate == 0 })
}

// add adds a hold made at now.
func (h *holds) add(now int64, some held) {
	some.start = begin(now, holdWidth)
	for i := range *h {
		if other := &(*h)[i]; other.start == some.start && sameCharge(other.limits, some.limits) {
			other.cost = saturated(other.cost, some.cost)
			other.count += some.count
			return
		}
	}
	*h = append(*h, some)
}

// rewind counts holds from after now as made now, because the clock went back.
func (h *holds) rewind(now int64) {
	all := *h
	*h = nil
	for _, some := range all {
		h.add(min(some.start, now), some)
	}
}

// end charges what holds that have ended at now held: to the limits of their claims, in the order in which the holds ended.
func (p *pair) end(now int64) {
	p.holds.rewind(now)
	p.rewindGrants(now)
	p.banned = min(p.banned, now+p.longest) // the clock may have gone back
	all := slices.Clone(p.holds)
	slices.SortStableFunc(all, func(a, b held) int { return int(a.start - b.start) })
	for _, some := range all {
		ends := some.start + holdExpiry
		for _, l := range some.limits {
			if ends <= now {
				p.state(stateOf(l)).charge(l, ends, some.cost)
			}
		}
	}
	p.holds = slices.DeleteFunc(p.holds, func(some held) bool { return some.start+holdExpiry <= now })
}

func (h holds) sum() (cost, count int64) {
	for _, some := range h {
		cost = saturated(cost, some.cost)
		count += some.count
	}
	return cost, count
}

// release removes a request's hold of these limits, made at an instant, and returns it. It does not find a hold that has ended. If the
// clock went back since, it takes the latest hold.
func (h *holds) release(at, cost int64, limits []core.Limit) (held, bool) {
	latest := -1
	for i, some := range *h {
		if sameCharge(some.limits, limits) && (latest < 0 || some.start > (*h)[latest].start) {
			latest = i
		}
	}
	if latest < 0 || at < 0 {
		return held{}, false
	}
	start := min(begin(at, holdWidth), (*h)[latest].start)
	i := slices.IndexFunc(*h, func(some held) bool { return some.start == start && sameCharge(some.limits, limits) })
	if i < 0 {
		return held{}, false
	}
	some := &(*h)[i]
	released := held{cost: min(cost, some.cost), count: 1, limits: some.limits}
	some.cost -= released.cost
	if some.count--; some.count == 0 {
		*h = slices.Delete(*h, i, i+1)
	}
	return released, true
}

// Held returns the cost and the number of requests that a pair of rule and key holds, and whether it is banned at now.
func (m *Model) Held(now int64, rule, key string) (cost, count int64, banned bool) {
	p := m.pair(core.Pair{Rule: rule, Key: key})
	live := slices.Clone(p.holds)
	live.rewind(now)
	cost, count = slices.DeleteFunc(live, func(some held) bool { return some.start+holdExpiry <= now }).sum()
	return cost, count, p.banned > now
}

// inFlight is the state of a limit that counts holds: nothing is ever charged to it.
type inFlight struct{}

func (inFlight) rewind(core.Limit, int64)                    {}
func (inFlight) used(core.Limit, int64, int64) *big.Rat      { return new(big.Rat) }
func (inFlight) charge(core.Limit, int64, int64)             {}
func (inFlight) refund(core.Limit, int64, int64, int64)      {}
func (inFlight) grant(core.Limit, int64, int64) (ends int64) { return 0 }

func endOfHold(at time.Time) int64 { return begin(at.UnixMicro(), holdWidth) + holdExpiry }

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
		p.banned, p.longest = max(p.banned, now+s.Ban.Microseconds()), max(p.longest, s.Ban.Microseconds())
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

// A grant is how many requests a state may use on top of its limit until an instant; n is negative if they were taken away. It does not
// change what was used.
type grant struct {
	id      stateID
	n, ends int64
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

// rewindGrants shortens grants that end later than a new grant would, because the clock went back. It leaves out the grants of windows,
// which rewindWindow shortens.
func (p *pair) rewindGrants(now int64) {
	grants := p.grants
	p.grants = nil
	for _, g := range grants {
		if g.id.algorithm != core.FixedWindow {
			g.ends = min(g.ends, now+g.id.period.Microseconds())
		}
		if now < g.ends {
			p.add(g)
		}
	}
}

// rewindWindow moves grants of a limit with windows from after the next window into the window of now, because the clock went back.
func (p *pair) rewindWindow(l core.Limit, now int64) {
	id := stateOf(l)
	w := fixedWindow{calendar: id.calendar}
	_, end := w.window(id.period, now)
	_, next := w.window(id.period, end)
	grants := p.grants
	p.grants = nil
	for _, g := range grants {
		if g.id == id && g.ends > next {
			g.ends = end
		}
		p.add(g)
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

// A booking is a charge for a request that waits for its turn. Until its turn, the bucket holds more than its capacity.

// booked returns the sibling of l's rate after a charge for a request that waits. A ban first raises the level by an amount that drains
// exactly when the ban ends, and what siblings hold then, so the turns of requests that wait for its end begin there. If siblings of
// other rates make the request wait, the level is raised so that the bucket is full once they do not: later requests get later turns.
func (s tokenBucket) booked(l core.Limit, now int64, behind, ban time.Duration, cost *big.Rat) bucket {
	d, rate := drainOf(l), int64(l.Rate)
	b := s.own(l, now)
	drains := func(wait time.Duration) *big.Rat {
		return d.in(ceilDiv(wait.Microseconds()+max(0, now-b.at), d.tick), rate)
	}
	if ban > 0 {
		others := maps.Clone(s)
		delete(others, rate)
		b.level = larger(b.level, new(big.Rat).Add(drains(ban), others.used(l, now, now+ban.Microseconds())))
	}
	if b.level.Cmp(whole(1)) < 0 {
		b.busy = b.at
	}
	b.busy = max(b.busy, b.at-maxBusy)
	b.level = new(big.Rat).Add(b.level, cost)
	if behind > 0 {
		b.level = larger(b.level, new(big.Rat).Add(drains(behind), whole(int64(l.Capacity()))))
	}
	return b
}

// hasRoom reports whether a bucket can hold cost on top of what is booked without exceeding the largest whole number.
func (s tokenBucket) hasRoom(l core.Limit, now int64, behind, ban time.Duration, cost *big.Rat) bool {
	return times(s.booked(l, now, behind, ban, cost).level, drainOf(l).period).Cmp(whole(maxUnits)) <= 0
}

// book charges cost for a request that waits for its turn. A turn is a whole tick.
func (s tokenBucket) book(l core.Limit, now int64, behind, ban time.Duration, cost int64) {
	d := drainOf(l)
	b, full := s.booked(l, now, behind, ban, whole(cost)), whole(int64(l.Capacity()))
	if over := new(big.Rat).Sub(b.level, full); over.Sign() > 0 {
		ticks := roundUp(over.Quo(over, d.in(1, int64(l.Rate))), 1)
		b.level = new(big.Rat).Add(times(d.in(1, int64(l.Rate)), floor(ticks)), full)
	}
	b.level = d.cut(b.level)
	s.put(l, now, b)
}

// giveBack gives back the part of cost that still counts. The cost was charged at one instant for a request with its
// turn at another. If nothing was charged later, all of it counts. While later requests wait, none of it does: their
// turns stay, and nobody may go before them. After their turns, the part counts that cannot have drained since the request's
// turn. If the clock went back since, the turn moves back with it.
func (s tokenBucket) giveBack(l core.Limit, now, at, turn, cost int64) {
	d, rate := drainOf(l), int64(l.Rate)
	b, ok := s[rate]
	if !ok {
		return
	}
	b = b.in(d)
	if back := at - b.at; back >= d.tick {
		turn -= back
	}
	given := new(big.Rat)
	switch {
	case b.isLast(l, d, turn):
		given = whole(cost)
	case !b.hasWaiting(l, d, now):
		drained := d.in(ceilDiv(max(0, now-turn), d.tick), rate)
		given = larger(drained.Sub(whole(cost), drained), given)
	}
	if at < b.at && given.Sign() > 0 {
		b.busy = b.at
	}
	s[rate] = b.lowered(given)
}

// isLast reports whether nothing was charged after a request with a turn: at its turn the bucket is at most full, and no charge is later.
func (b bucket) isLast(l core.Limit, d drain, turn int64) bool {
	over := new(big.Rat).Sub(b.level, whole(int64(l.Capacity())))
	return turn >= b.at && over.Cmp(d.in(ceilDiv(turn-b.at, d.tick), int64(l.Rate))) <= 0
}

// hasWaiting reports whether requests wait for their turns at now: then the bucket is more than full.
func (b bucket) hasWaiting(l core.Limit, d drain, now int64) bool {
	level := new(big.Rat).Sub(b.level, d.in(max(0, now-b.at)/d.tick, int64(l.Rate)))
	return level.Cmp(whole(int64(l.Capacity()))) > 0
}
