package lease

import (
	"context"
	"runtime"

	"github.com/spillgate/spillgate/core"
)

// dry says what a request does if the lease of its key has too little.
type dry uint8

const (
	waitIfBusy dry = iota // wait for the next grant if one is in flight, or if more requests are likely
	waitAlways            // wait for the next grant
	endLease              // end the lease: the store decides, in a call that returns what is left
)

// A part is what one claim of a Take took from the lease of its key.
type part struct {
	hash   uint64
	entry  *entry // nil: the store decides
	terms  *terms // of entry
	taken  Portions
	grant  *grant // in flight
	cold   bool   // the key has no lease
	usedUp bool   // the key has an empty lease that asks for nothing
	ended  bool   // the lease was ended; unused is what was left of it

	unused Portions
}

// TakeLocal decides claims from leases, if these have enough for all of them.
func (t *Table) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	start := len(dst)
	var room [4]part
	takes := room[:0]
	for i := range claims {
		p, results, ok := part{}, dst, false
		if claims[i].Lease > 0 && !sharesPair(claims, i) {
			p, results, ok = t.takeLease(&claims[i], waitIfBusy, dst)
		}
		if !ok {
			t.putBack(takes)
			return dst[:start], false
		}
		if p.grant != nil {
			runtime.Gosched() // so that callers that never wait do not keep the grant's goroutine from running until the grant is late
		}
		takes, dst = append(takes, p), results
	}
	return dst, true
}

// sharesPair reports whether another of claims has the same pair as claim i.
func sharesPair(claims []core.Claim, i int) bool {
	for j := range claims {
		if j != i && pairOf(&claims[j]) == pairOf(&claims[i]) {
			return true
		}
	}
	return false
}

// takeLease takes c out of the lease of its key and appends its results, if the lease has enough. It asks for the next grant if
// little is left.
func (t *Table) takeLease(c *core.Claim, then dry, dst []core.Result) (p part, _ []core.Result, ok bool) {
	pair := pairOf(c)
	p.hash = t.hash(pair)
	shard := t.shard(p.hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.find(p.hash, pair)
	p.cold = e == nil
	if e == nil || c.DryRun || c.Hold || c.Cost < 0 || !e.terms.fit(c) {
		return p, dst, false
	}
	now := t.now()
	e.advance(now, e.terms.length)
	if costOf(c) > e.available() {
		t.missed(&p, e, c, then)
		return p, dst, false
	}
	p.entry, p.terms = e, e.terms
	if !c.Peek {
		p.taken, _ = e.take(costOf(c))
		shard.decisions++
		if e.isLow(now, e.terms.length) {
			t.fetch(p.hash, e, 0)
		}
	}
	p.grant = e.grantInFlight()
	return p, e.appendResults(dst, c, now, p.taken.mark()), true
}

// missed makes p wait for the grant that c needs, if that is allowed, or ends e. It does not wait while grants arrive
// late.
func (t *Table) missed(p *part, e *entry, c *core.Claim, then dry) {
	p.usedUp = e.isUsedUp()
	if p.ended = then == endLease; p.ended {
		p.unused = e.finish()
		return
	}
	if !c.Peek && (e.isBusy() || then == waitAlways && !e.late) {
		t.fetch(p.hash, e, costOf(c))
	}
	if !e.late {
		p.grant = e.grantInFlight()
	}
}

// takeLeaseOrEnd is takeLease, but if the lease has too little, it waits once for a grant, and if the lease still has
// too little, it ends the lease.
func (t *Table) takeLeaseOrEnd(ctx context.Context, c *core.Claim, then dry, dst []core.Result) (part, []core.Result, bool) {
	p, results, ok := t.takeLease(c, then, dst)
	if ok || p.cold || p.usedUp {
		return p, results, ok
	}
	if p.grant != nil {
		p.grant.wait(ctx)
	}
	return t.takeLease(c, endLease, dst)
}

// putBack reverses takes.
func (t *Table) putBack(takes []part) {
	for i := range takes {
		if p := &takes[i]; p.entry != nil {
			t.putBackPart(p)
		}
	}
}

// putBackPart reverses the take of one claim.
func (t *Table) putBackPart(p *part) {
	s := t.shard(p.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.taken == (Portions{}) { // a peek
		return
	}
	s.decisions--
	if p.entry.terms == p.terms {
		p.entry.putBack(p.taken)
		return
	}
	t.returnLater(p.entry.pair, p.terms, p.taken)
}
