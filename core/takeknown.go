package core

import (
	"slices"

	"github.com/spillgate/spillgate/internal/memory"
)

// takeKnown is Take for token buckets whose states exist: nearly all decisions. It reports false if it cannot decide claims: then
// nothing has happened.
func (m *MemoryStore) takeKnown(claims []Claim, dst []Result) (results []Result, ok bool) {
	n := len(dst)
	if len(claims) == 1 && len(claims[0].Limits) == 1 {
		dst = slices.Grow(dst, 1)[:n+1]
		c := &claims[0]
		return dst, c.isTake() && m.takeOne(c, compile(&c.Limits[0]), &dst[n])
	}
	var room [8]memory.Known
	all, ok := m.known(claims, room[:0])
	if !ok {
		return dst, false
	}
	now, ok := m.store.TakeKnown(all)
	if !ok {
		return dst, false
	}
	at := m.store.Time(now)
	dst = slices.Grow(dst, len(all))[:n+len(all)]
	i := 0
	for j := range claims {
		c := &claims[j]
		for l := range c.Limits {
			k := &all[i]
			dst[n+i].answer(ruleName(c.Rule), &c.Limits[l], c.DryRun, k.Retry, k.Usage(now), at)
			i++
		}
	}
	return dst, true
}

// known appends what claims ask for. It reports false if one is invalid, or is none of token buckets.
func (m *MemoryStore) known(claims []Claim, dst []memory.Known) (all []memory.Known, ok bool) {
	m.once.Do(m.init)
	for i := range claims {
		c := &claims[i]
		if !c.isTake() || len(c.Limits) == 0 || c.DryRun && len(claims) > 1 {
			return nil, false
		}
		p, cost, limits := m.pair(c), cost(c), c.Limits
		n := len(dst)
		dst = slices.Grow(dst, len(limits))[:n+len(limits)]
		for j := range limits {
			l := compile(&limits[j])
			if l.err != nil || l.limit.Algorithm != TokenBucket {
				return nil, false
			}
			k := &dst[n+j]
			k.Pair, k.Limit, k.Cost, k.Peek = p, &l.Limit, cost, c.Peek
		}
	}
	return dst, true
}

// takeOne is takeKnown for a valid claim that has one limit, l, and holds nothing. It sets r.
func (m *MemoryStore) takeOne(c *Claim, l *compiled, r *Result) bool {
	if l.err != nil || l.limit.Algorithm != TokenBucket {
		return false
	}
	m.once.Do(m.init)
	now, retry, u, ok := m.store.TakeOne(m.pair(c), &l.Limit, cost(c), c.Peek)
	if ok {
		r.answer(ruleName(c.Rule), &l.limit, c.DryRun, retry, u, m.store.Time(now))
	}
	return ok
}

// isTake reports whether c charges rather than holds, and is valid if its limits are.
func (c *Claim) isTake() bool {
	return !c.Hold && int64(c.Cost)|int64(c.Final)|int64(c.Ban) >= 0 && (c.Lease == 0 || validateLease(c.Lease) == nil)
}
