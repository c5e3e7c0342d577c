package lease

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A take is a Take in which leases decide some claims, and the store decides the rest. The leases decide first; if the
// store then denies or fails, the take puts back what it took from them.
type take struct {
	table  *Table
	claims []core.Claim
	parts  []part        // by claim
	local  []core.Result // of the claims that leases decide, in order
	rest   []core.Claim  // claims that the store decides
	places []int         // of the rest among claims
	loans  []Loan        // what the call for the rest returns, for each claim of rest
}

// Take decides claims from leases and by the store, and appends their results to dst. lasts reports whether the results
// are a denial that the caller may repeat.
func (t *Table) Take(ctx context.Context, claims []core.Claim, dst []core.Result) (results []core.Result, lasts bool, err error) {
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return dst, false, err
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		if left := int64(time.Until(deadline)); left > t.timeout.Load() {
			t.timeout.Store(left)
		}
	}
	return t.takeColdOrLeased(ctx, claims, dst)
}

// takeColdOrLeased decides claims from leases and the store. In the common cases, a single claim whose key has no lease
// or whose lease is used up, it asks the store without allocating a take.
func (t *Table) takeColdOrLeased(ctx context.Context, claims []core.Claim, dst []core.Result) (_ []core.Result, lasts bool, err error) {
	if len(claims) > 1 {
		return t.takeParts(ctx, claims, dst)
	}
	c := &claims[0]
	p, results, ok := t.takeLease(c, waitAlways, dst)
	if ok {
		return results, false, nil
	}
	counts := leasable(c) && !c.Peek
	if !p.cold && !p.usedUp || p.cold && counts && t.open(p.hash, c) {
		return t.takeParts(ctx, claims, dst)
	}
	results, lasts, err = t.store.Lend(ctx, claims, nil, dst)
	if err != nil {
		return dst, false, err
	}
	of, k := results[len(dst):], take{table: t, rest: claims}
	switch {
	case !isAdmitted(of):
		if k.holdsDenied(ctx, of) {
			return t.takeParts(ctx, claims, dst)
		}
	case p.usedUp:
		k.count(of)
	case counts && least(of) > 1:
		t.asked.note(p.hash, t.now())
	}
	return results, lasts, nil
}

// takeParts decides what it can from leases, and the rest by the store.
func (t *Table) takeParts(ctx context.Context, claims []core.Claim, dst []core.Result) (_ []core.Result, lasts bool, err error) {
	k := &take{table: t, claims: claims, parts: make([]part, len(claims))}
	k.takeLocal(ctx)
	if len(k.rest) == 0 {
		return append(dst, k.local...), false, nil
	}
	rest, lasts, err := k.takeRest(ctx)
	if err != nil {
		t.putBack(k.parts)
		return dst, false, err
	}
	return k.merge(dst, rest), lasts, nil
}

// takeLocal takes what it can from leases. Only a request with one claim waits for a grant that it may not need,
// because several claims would wait for several calls.
func (k *take) takeLocal(ctx context.Context) {
	then := waitIfBusy
	if len(k.claims) == 1 {
		then = waitAlways
	}
	for i := range k.claims {
		ok := false
		if !sharesPair(k.claims, i) {
			k.parts[i], k.local, ok = k.table.takeLeaseOrEnd(ctx, &k.claims[i], then, k.local)
		}
		if !ok {
			k.rest, k.places = append(k.rest, k.claims[i]), append(k.places, i)
			k.loans = append(k.loans, Loan{Unused: k.parts[i].unused})
		}
	}
}

// takeRest asks the store to decide the rest. The same call returns what this process has leased of the same pairs,
// so that its own leases cannot cause a denial. If the request is denied and a grant has arrived meanwhile, takeRest
// asks once more.
func (k *take) takeRest(ctx context.Context) (results []core.Result, lasts bool, err error) {
	for again := false; ; again = true {
		k.changeTerms(ctx)
		k.collect(again)
		results, lasts, err = k.table.store.Lend(ctx, k.rest, k.loans, nil)
		k.recordReturns()
		switch {
		case err != nil:
			return nil, false, err
		case isAdmitted(results):
			k.count(results)
			return results, lasts, nil
		case again || !k.holdsDenied(ctx, results):
			return results, lasts, nil
		}
	}
}

func isAdmitted(results []core.Result) bool {
	for i := range results {
		if !results[i].Allowed && !results[i].DryRun {
			return false
		}
	}
	return true
}

// merge appends the results of all claims in order. If the store denied, it puts back what was taken from leases.
func (k *take) merge(dst, rest []core.Result) []core.Result {
	denied, local := !isAdmitted(rest), k.local
	if denied {
		k.table.putBack(k.parts)
	}
	for i := range k.claims {
		c, from := &k.claims[i], &rest
		if k.parts[i].entry != nil {
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

// each calls f for each claim of the rest, with the key's shard locked. e is nil if the key has no entry.
func (k *take) each(f func(i int, hash uint64, s *shard, e *entry)) {
	for i := range k.rest {
		pair := pairOf(&k.rest[i])
		hash := k.table.hash(pair)
		s := k.table.shard(hash)
		s.mu.Lock()
		f(i, hash, s, s.find(hash, pair))
		s.mu.Unlock()
	}
}

// changeTerms returns to the store what was granted for other limits than the rest's. It does so before the call for the
// rest, because nothing can be returned to a bucket that has seen another rate.
func (k *take) changeTerms(ctx context.Context) {
	var old []Loan
	for range 2 {
		var grants []*grant
		k.each(func(i int, _ uint64, _ *shard, e *entry) {
			c := &k.rest[i]
			switch {
			case e == nil || e.terms.fit(c):
			case e.grantInFlight() != nil && !e.terms.charge(c):
				grants = append(grants, e.grantInFlight())
			case leasable(c):
				old = append(old, k.table.change(e, c))
			case !e.terms.charge(c):
				old = append(old, e.terms.unused(e.pair, e.finish()))
			}
		})
		waitForAll(ctx, grants)
		if len(grants) == 0 {
			break
		}
	}
	k.table.returnNow(ctx, old)
}

// change sets the terms of e to c's, and returns a loan of what is unused on the old terms. The caller has locked the
// shard.
func (t *Table) change(e *entry, c *core.Claim) Loan {
	old := e.terms.unused(e.pair, e.finish())
	e.terms, e.pause = t.termsOf(c), pauseSpans
	if e.rare != nil {
		e.rare.others, e.rare.answer = nil, nil
		e.dropRare()
	}
	return old
}

// collect ends the leases of the rest and adds what is left of them to the loans of the call. It skips leases that
// takeLocal has ended, unless the call is made again.
func (k *take) collect(again bool) {
	k.each(func(i int, _ uint64, _ *shard, e *entry) {
		if e != nil && e.terms.charge(&k.rest[i]) && (again || !k.parts[k.places[i]].ended) {
			k.loans[i].Unused.addAll(e.finish())
		}
	})
}

// recordReturns counts what the call for the rest has returned, and leaves everything else to a later call.
func (k *take) recordReturns() {
	for i := range k.loans {
		l, c := &k.loans[i], &k.rest[i]
		switch l.Return {
		case Returned:
			k.table.returned.Add(uint64(l.Unused.Count()))
		case NotReturned:
			k.table.returnLater(pairOf(c), k.table.termsOf(c), l.Unused)
		}
		*l = Loan{}
	}
}

// holdsDenied lets the leases of denied pairs ask for no grants for a while, and reports whether this process still has leased requests of one
// of them. It waits for grants in flight.
func (k *take) holdsDenied(ctx context.Context, results []core.Result) (holds bool) {
	var grants []*grant
	k.each(func(i int, _ uint64, _ *shard, e *entry) {
		of := results[:len(k.rest[i].Limits)]
		results = results[len(of):]
		if e == nil || isAdmitted(of) {
			return
		}
		e.advance(k.table.now(), e.terms.length)
		e.pause = pauseSpans
		holds = holds || e.available() > 0 || e.hasUnused()
		if g := e.grantInFlight(); g != nil {
			grants = append(grants, g)
		}
	})
	waitForAll(ctx, grants)
	return (holds || len(grants) > 0) && ctx.Err() == nil
}

// count counts the admitted claims of the rest as used, and asks for grants for keys that are used repeatedly.
func (k *take) count(results []core.Result) {
	now := k.table.now()
	k.each(func(i int, hash uint64, s *shard, e *entry) {
		c := &k.rest[i]
		of := results[:len(c.Limits)]
		results = results[len(of):]
		if c.Peek || !leasable(c) || sharesPair(k.rest, i) {
			return
		}
		if e == nil {
			if k.table.asked.within(hash, now, int64(c.Lease)) {
				e = k.table.add(s, hash, c)
			}
			k.table.asked.note(hash, now)
		}
		if e == nil || !e.terms.fit(c) {
			return
		}
		e.advance(now, e.terms.length)
		e.use(costOf(c))
		e.hear(of, now)
		switch {
		case least(of) <= 1:
			e.pause = pauseSpans // half of what remains would be nothing, and each request has to ask the store anyway
		case e.available() == 0 || e.isLow(now, e.terms.length):
			k.table.fetch(hash, e, 0)
		}
	})
}

// least returns the smallest Remaining of results.
func least(results []core.Result) int {
	n := results[0].Remaining
	for i := range results {
		n = min(n, results[i].Remaining)
	}
	return n
}
