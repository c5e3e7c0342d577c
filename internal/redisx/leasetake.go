package redisx

import (
	"context"
	"hash/maphash"
	"runtime"

	"github.com/spillgate/spillgate/core"
)

// dry says what a request does that finds too little in the lease of its key.
type dry uint8

const (
	waitIfBusy dry = iota // for the next grant if one is in flight, or if more requests are likely
	waitAlways            // for the next grant
	endLease              // the store decides, and what is left goes back
)

// A localTake is what one claim of a Take took from the lease of its key.
type localTake struct {
	hash  uint64
	entry *leaseEntry // nil: the store has to be asked
	terms *terms      // of entry
	taken taken
	grant *grant // in flight
	cold  bool   // the key has no lease
	rests bool   // the key has an entry that holds nothing and asks for nothing, because the limit is used up
	ended bool   // the lease was ended; backs is what was left of it
	backs backs
}

// leasesFor returns the leases of s, or nil if none can concern claims.
func (s *Store) leasesFor(claims []core.Claim) *leaseTable {
	t := s.leases.Load()
	if t != nil && t.keys.Load() > 0 {
		return t
	}
	for i := range claims {
		if claims[i].Lease > 0 {
			if t == nil {
				s.leases.CompareAndSwap(nil, newLeaseTable(s))
			}
			return s.leases.Load()
		}
	}
	return nil
}

// takeLeases decides claims from leases if those have enough for all.
func (s *Store) takeLeases(t *leaseTable, claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	start := len(dst)
	var room [4]localTake
	takes := room[:0]
	for i := range claims {
		p, results, ok := localTake{}, dst, false
		if claims[i].Lease > 0 && !sharesPair(claims, i) {
			p, results, ok = s.takeLease(t, &claims[i], waitIfBusy, dst)
		}
		if !ok {
			t.putBack(takes)
			return dst[:start], false
		}
		if p.grant != nil {
			runtime.Gosched() // or callers that never wait might keep the grant from a CPU until it is late
		}
		takes, dst = append(takes, p), results
	}
	return dst, true
}

// sharesPair reports whether another of claims is of the pair of the one at i.
func sharesPair(claims []core.Claim, i int) bool {
	for j := range claims {
		if j != i && claims[j].Key == claims[i].Key && ruleName(claims[j].Rule) == ruleName(claims[i].Rule) {
			return true
		}
	}
	return false
}

// takeLease takes c out of the lease of its key and appends its results, if the lease has enough. It asks for the next grant if
// little is left.
func (s *Store) takeLease(t *leaseTable, c *core.Claim, then dry, dst []core.Result) (p localTake, _ []core.Result, ok bool) {
	var buf [256]byte
	key := s.layout.appendKey(buf[:0], c.Rule, c.Key)
	p.hash = maphash.Bytes(t.seed, key)
	shard := t.shard(p.hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.find(p.hash, key)
	p.cold = e == nil
	if e == nil || c.DryRun || c.Hold || c.Cost < 0 || !e.terms.fit(c) {
		return p, dst, false
	}
	now := t.now()
	e.advance(now, e.terms.length)
	if costOf(c) > e.available() {
		s.missed(t, &p, e, c, then)
		return p, dst, false
	}
	p.entry, p.terms = e, e.terms
	if !c.Peek {
		p.taken, _ = e.take(costOf(c))
		shard.decisions++
		s.fetchIfLow(t, p.hash, e, now)
	}
	p.grant = e.grantInFlight()
	return p, e.appendResults(dst, c, now, p.taken.mark()), true
}

// missed has p wait for the grant that c needs, if it may, or ends e. Grants are not waited for while they come late.
func (s *Store) missed(t *leaseTable, p *localTake, e *leaseEntry, c *core.Claim, then dry) {
	p.rests = e.rests()
	if p.ended = then == endLease; p.ended {
		e.end()
		p.backs = e.takeUnused()
		return
	}
	if !c.Peek && (e.isBusy() || then == waitAlways && !e.late) {
		s.fetch(t, p.hash, e, costOf(c))
	}
	if !e.late {
		p.grant = e.grantInFlight()
	}
}

// takeLeaseOrEnd does what takeLease does. If the lease has too little, it waits once for a grant; if the lease then still has too
// little, it ends it.
func (s *Store) takeLeaseOrEnd(ctx context.Context, t *leaseTable, c *core.Claim, then dry, dst []core.Result) (localTake, []core.Result, bool) {
	p, results, ok := s.takeLease(t, c, then, dst)
	if ok || p.cold || p.rests {
		return p, results, ok
	}
	if p.grant != nil {
		p.grant.wait(ctx)
	}
	return s.takeLease(t, c, endLease, dst)
}

// putBack undoes takes.
func (t *leaseTable) putBack(takes []localTake) {
	for i := range takes {
		if p := &takes[i]; p.entry != nil {
			t.undo(p)
		}
	}
}

// undo puts back what one claim has taken.
func (t *leaseTable) undo(p *localTake) {
	s := t.shard(p.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.taken == (taken{}) { // a peek
		return
	}
	s.decisions--
	if p.entry.terms == p.terms {
		p.entry.putBack(p.taken)
		return
	}
	var b backs
	for i, n := range p.taken.n {
		b.add(p.taken.at[i], int64(n))
	}
	t.giveBack(p.entry.key, p.terms, b)
}
