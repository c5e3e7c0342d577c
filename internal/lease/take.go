package lease

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A take is a Take in which leases decide some claims, and the store decides the rest. The leases decide first; if the
// store then denies or fails, the take puts back what it took from them.
type take struct {
	table  *Table
	claims []core.Claim
	begun  int64         // when it began
	one    part          // of the only claim, which needs no allocation then
	parts  []part        // by claim, if there are several
	warm   bool          // a key of the rest has a lease
	failed error         // of a refill that the take has waited for
	local  []core.Result // of the claims that leases decide, in order
	rest   []core.Claim  // claims that the store decides
}

// A part is what one claim of a take took from the lease of its key.
type part struct {
	hash   uint64
	entry  *entry  // nil: the store decides
	taken  Unused  // nothing for a peek
	refill *refill // in flight
	cold   bool    // the key has no lease
}

func (k *take) part(i int) *part {
	if len(k.claims) == 1 {
		return &k.one
	}
	return &k.parts[i]
}

// TakeLocal decides claims from leases, if these have enough for all of them.
func (t *Table) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	start := len(dst)
	var room [4]part
	parts := room[:0]
	for i := range claims {
		p, results, ok := part{}, dst, claims[i].Lease > 0
		if ok {
			p, results, ok = t.takeLease(claims, i, i == len(claims)-1, 0, dst)
		}
		if !ok {
			t.putBack(parts)
			return dst[:start], false
		}
		if p.refill != nil {
			runtime.Gosched() // so that callers that never wait do not keep the refill's goroutine from running until the refill is late
		}
		parts, dst = append(parts, p), results
	}
	return dst, true
}

// sharesPair reports whether another of claims has the same pair as claim i.
func sharesPair(claims []core.Claim, i int) bool {
	for j := range claims {
		if j != i && claims[j].Key == claims[i].Key && ruleOf(claims[j].Rule) == ruleOf(claims[i].Rule) {
			return true
		}
	}
	return false
}

// takeLease takes claim i out of the lease of its key and appends its results, if a loan has enough. It asks for a refill if little
// is left. If begun is not 0, the request has to wait for a call in any case, since then: a key that was used within its Lease before
// gets a lease and, if c is the only claim, a refill decides it rather than the store. The store decides claims that share a pair.
// If decides is true, leases have decided all other claims.
func (t *Table) takeLease(claims []core.Claim, i int, decides bool, begun int64, dst []core.Result) (p part, _ []core.Result, ok bool) {
	c, alone := &claims[i], begun > 0 && len(claims) == 1
	p.hash = t.hash(c.Rule, c.Key)
	begins := begun > 0 && t.asked.Age(p.hash, time.Duration(begun)) < c.Lease && leasable(c)
	p.cold = !begins && !t.leased.has(p.hash)
	if p.cold || sharesPair(claims, i) {
		return p, dst, false
	}
	s := t.shard(p.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(p.hash, c.Rule, c.Key)
	if e == nil && begins {
		e = t.add(p.hash, c)
	}
	p.cold = e == nil
	if e == nil || c.DryRun || c.Hold || c.Cost < 0 || c.MaxWait != 0 || !e.terms.fit(c) {
		return p, dst, false
	}
	now, length, cost := t.now(), e.terms.length, costOf(c)
	e.advance(now, length)
	if c.Peek {
		ok = cost <= e.available()
	} else if p.taken.At, ok = e.take(now, length, cost); ok {
		p.taken.Count = cost
		if e.isLow(now, length) {
			t.fetch(p.hash, e, 0)
		}
	} else if e.isBusy() || alone && !e.late {
		t.fetch(p.hash, e, cost)
	}
	if ok || !e.late { // do not wait while refills arrive late
		p.refill = e.refill
	}
	if ok {
		p.entry, dst = e, e.appendResults(dst, c, now)
		if decides && (!c.Peek || slices.ContainsFunc(claims, func(c core.Claim) bool { return !c.Peek })) {
			s.decisions++
		}
	}
	return p, dst, ok
}

func (t *Table) putBack(parts []part) {
	for i := range parts {
		p := &parts[i]
		if p.taken.Count == 0 {
			continue
		}
		s := t.shard(p.hash)
		s.mu.Lock()
		if p.entry.putBack(p.taken.At, p.taken.Count); p.entry.gone {
			t.returnLater(t.refunds(p.entry))
		}
		s.mu.Unlock()
	}
}

// Take decides claims from leases and by the store, and appends their results to dst. If they are a denial that the caller may repeat,
// sent is when the store was asked.
func (t *Table) Take(ctx context.Context, claims []core.Claim, dst []core.Result) (results []core.Result, sent time.Time, err error) {
	k := take{table: t, claims: claims, begun: t.now()}
	if deadline, ok := ctx.Deadline(); ok {
		if left := int64(deadline.Sub(t.begun)) - k.begun; left > t.timeout.Load() {
			t.timeout.Store(left)
		}
	}
	k.takeLocal(ctx)
	switch {
	case len(k.rest) == 0:
		return append(dst, k.local...), sent, nil
	case len(k.local) == 0:
		return k.takeRest(ctx, dst)
	}
	rest, sent, err := k.takeRest(ctx, nil)
	if err != nil {
		t.putBack(k.parts)
		return dst, sent, err
	}
	return k.merge(dst, rest), sent, nil
}

// takeLocal takes what it can from leases. A request with one claim waits for a refill; several claims would wait for several.
func (k *take) takeLocal(ctx context.Context) {
	if len(k.claims) > 1 {
		k.parts = make([]part, len(k.claims))
	}
	for i := range k.claims {
		decides := len(k.rest) == 0 && i == len(k.claims)-1
		p, local, ok := k.table.takeLease(k.claims, i, decides, k.begun, k.local)
		if !ok && p.refill != nil {
			k.failed = cmp.Or(k.failed, p.refill.wait(ctx))
			p, local, ok = k.table.takeLease(k.claims, i, decides, k.begun, k.local)
		}
		*k.part(i), k.local = p, local
		switch {
		case ok:
			continue
		case len(k.rest) == i:
			k.rest = k.claims[:i+1]
		default:
			k.rest = append(slices.Clip(k.rest), k.claims[i])
		}
		k.warm = k.warm || !p.cold
	}
}

// takeRest asks the store to decide the rest. The same call returns what this process has leased of the same pairs,
// so that its own leases cannot cause a denial. If the request is denied and this process has leased requests since, takeRest
// asks once more.
func (k *take) takeRest(ctx context.Context, dst []core.Result) (_ []core.Result, sent time.Time, err error) {
	for i := 0; k.warm && i < len(k.rest); i++ { // an invalid claim ends no lease; otherwise the store validates
		if err := k.rest[i].Validate(); err != nil {
			return dst, sent, err
		}
	}
	for again := false; ; again = true {
		var unused []core.Settlement
		if k.warm || again {
			unused = k.collect()
		}
		results, sent, err := k.table.store.Take(ctx, k.rest, unused, dst)
		k.table.returned(unused, err)
		if k.failed != nil && errors.Is(err, context.DeadlineExceeded) { // the take had no time left, so its own error says nothing
			err = k.failed
		}
		if err != nil {
			return dst, sent, err
		}
		of := results[len(dst):]
		if isAdmitted(of) {
			k.count(of)
			return results, sent, nil
		}
		if again || !k.holdsDenied(ctx, of) {
			return results, sent, nil
		}
	}
}

func isAdmitted(results []core.Result) bool {
	return !slices.ContainsFunc(results, func(r core.Result) bool { return !r.Allowed && !r.DryRun })
}

// merge appends the results of all claims in order. If the store denied, it puts back what was taken from leases.
func (k *take) merge(dst, rest []core.Result) []core.Result {
	denied, local := !isAdmitted(rest), k.local
	if denied {
		k.table.putBack(k.parts)
	}
	for i := range k.claims {
		c, from := &k.claims[i], &rest
		if k.part(i).entry != nil {
			from = &local
		}
		for range c.Limits {
			r := (*from)[0]
			if denied && from == &local && !c.Peek {
				r.Remaining = min(r.Remaining+int(costOf(c)), r.Quota())
			}
			dst, *from = append(dst, r), (*from)[1:]
		}
	}
	return dst
}

// each calls f for each claim of the rest and its results, if there are any, with the key's shard locked. e is nil if the key has no entry.
func (k *take) each(results []core.Result, f func(i int, c *core.Claim, e *entry, of []core.Result)) {
	for i := range k.claims {
		if p, c := k.part(i), &k.claims[i]; p.entry == nil {
			n := min(len(c.Limits), len(results))
			k.table.visit(p.hash, c.Rule, c.Key, func(e *entry) { f(i, c, e, results[:n]) })
			results = results[n:]
		}
	}
}

// collect ends the loans of the rest, and returns refunds of what is left of them. A key whose claim has other terms
// gets a lease on these, unless a refill on the old ones is in flight.
func (k *take) collect() (unused []core.Settlement) {
	k.each(nil, func(i int, c *core.Claim, e *entry, _ []core.Result) {
		if e == nil {
			return
		}
		e.finish(k.table.now(), e.terms.length)
		unused = append(unused, k.table.refunds(e)...)
		if leasable(c) && !e.terms.fit(c) && e.refill == nil {
			k.table.remove(k.part(i).hash, e)
			if e = k.table.add(k.part(i).hash, c); e != nil {
				e.pause = pauseSpans // others may still ask on the old terms
			}
		}
	})
	return unused
}

// holdsDenied lets the leases of denied pairs ask for no refills for a while, and reports whether this process still has leased
// requests of one of them. It waits for refills in flight.
func (k *take) holdsDenied(ctx context.Context, results []core.Result) (holds bool) {
	var refills []*refill
	k.each(results, func(_ int, _ *core.Claim, e *entry, of []core.Result) {
		if e == nil || isAdmitted(of) {
			return
		}
		e.advance(k.table.now(), e.terms.length)
		e.pause = pauseSpans
		holds = holds || e.available() > 0 || e.unused != nil
		if e.refill != nil {
			refills = append(refills, e.refill)
		}
	})
	for _, r := range refills {
		select {
		case <-r.done: // even if it is late
		case <-ctx.Done():
		}
	}
	return (holds || len(refills) > 0) && ctx.Err() == nil
}

// count counts the admitted claims of the rest as used, and asks for refills for keys that are used repeatedly.
func (k *take) count(results []core.Result) {
	t := k.table
	k.each(results, func(i int, c *core.Claim, e *entry, of []core.Result) {
		if e != nil && slices.Equal(e.terms.limits, c.Limits) && e.isNews(of) { // even if no lease may decide c
			e.report(of, t.now())
		}
		few := slices.ContainsFunc(of, func(r core.Result) bool { return r.Remaining <= 1 }) // half of what remains would be nothing, and each request has to ask the store anyway
		switch {
		case !leasable(c) || sharesPair(k.claims, i) || e == nil && few:
		case e == nil:
			t.asked.Note(k.part(i).hash, time.Duration(k.begun))
		case e.terms.fit(c):
			now := t.now()
			e.advance(now, e.terms.length)
			e.use(costOf(c))
			if few {
				e.pause = pauseSpans
			} else if e.available() == 0 || e.isLow(now, e.terms.length) {
				t.fetch(k.part(i).hash, e, 0)
			}
		}
	})
}
