package redisx

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A leasedTake is a Take of which leases decide some claims and the store the rest. The leases come first: what was taken from
// them is put back if the store denies or fails.
type leasedTake struct {
	store  *Store
	table  *leaseTable
	claims []core.Claim
	takes  []localTake   // by claim
	local  []core.Result // of the claims that leases decide, in order
	rest   []core.Claim  // claims that the store decides
	places []int         // of the rest among claims
	backs  []backs       // what the call for the rest gives back, by claim of the rest
}

func (s *Store) takeLeased(ctx context.Context, t *leaseTable, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return dst, err
		}
	}
	sent, resets := time.Now(), s.resets(claims)
	if deadline, ok := ctx.Deadline(); ok && int64(deadline.Sub(sent)) > t.timeout.Load() {
		t.timeout.Store(int64(deadline.Sub(sent)))
	}
	a, err := s.takeColdOrLeased(ctx, t, claims, dst)
	if err == nil && a.lasts {
		s.remember(claims, a.results[len(dst):], sent, resets)
	}
	return a.results, err
}

// takeColdOrLeased decides claims from leases and the store. A single claim whose key has no lease or rests, the common cases, goes to
// the store without a leasedTake on the heap.
func (s *Store) takeColdOrLeased(ctx context.Context, t *leaseTable, claims []core.Claim, dst []core.Result) (answer, error) {
	if len(claims) > 1 {
		return s.takeParts(ctx, t, claims, dst)
	}
	c := &claims[0]
	p, results, ok := s.takeLease(t, c, waitAlways, dst)
	if ok {
		return answer{results: results}, nil
	}
	counts := leasable(c) && !c.Peek
	if !p.cold && !p.rests || p.cold && counts && t.open(p.hash, c) {
		return s.takeParts(ctx, t, claims, dst)
	}
	a, err := s.ask(ctx, claims, dst, nil)
	if err != nil {
		return a, err
	}
	results = a.results[len(dst):]
	k := leasedTake{store: s, table: t, rest: claims}
	switch {
	case !isAdmitted(results):
		if k.holdsDenied(ctx, results) {
			return s.takeParts(ctx, t, claims, dst)
		}
	case p.rests:
		k.count(results)
	case counts && least(results) > 1:
		t.asked.note(p.hash, t.now())
	}
	return a, nil
}

// takeParts decides what it can from leases, and the rest by the store.
func (s *Store) takeParts(ctx context.Context, t *leaseTable, claims []core.Claim, dst []core.Result) (answer, error) {
	k := &leasedTake{store: s, table: t, claims: claims, takes: make([]localTake, len(claims))}
	k.takeLocal(ctx)
	if len(k.rest) == 0 {
		return answer{results: append(dst, k.local...)}, nil
	}
	a, err := k.takeRest(ctx)
	if err != nil {
		t.putBack(k.takes)
		return answer{results: dst}, err
	}
	a.results = k.merge(dst, a.results)
	return a, nil
}

// takeLocal takes what it can from leases. Only a request of one claim waits for a grant that it might do without: several grants
// are several calls.
func (k *leasedTake) takeLocal(ctx context.Context) {
	then := waitIfBusy
	if len(k.claims) == 1 {
		then = waitAlways
	}
	for i := range k.claims {
		ok := false
		if !sharesPair(k.claims, i) {
			k.takes[i], k.local, ok = k.store.takeLeaseOrEnd(ctx, k.table, &k.claims[i], then, k.local)
		}
		if !ok {
			k.rest, k.places, k.backs = append(k.rest, k.claims[i]), append(k.places, i), append(k.backs, k.takes[i].backs)
		}
	}
}

// takeRest has the store decide the rest. What this process holds of its pairs is given back in the same call, so that it cannot be
// the reason for a denial. If a grant has come in meanwhile, a denied request is sent once more.
func (k *leasedTake) takeRest(ctx context.Context) (answer, error) {
	for again := false; ; again = true {
		k.changeTerms(ctx)
		k.collect(again)
		unused := k.unused()
		a, err := k.store.ask(ctx, k.rest, nil, k.backs)
		if err != nil {
			k.keep()
			return a, err
		}
		k.table.returned.Add(unused)
		switch {
		case isAdmitted(a.results):
			k.count(a.results)
			return a, nil
		case again || !k.holdsDenied(ctx, a.results):
			return a, nil
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
func (k *leasedTake) merge(dst, rest []core.Result) []core.Result {
	denied, local := !isAdmitted(rest), k.local
	if denied {
		k.table.putBack(k.takes)
	}
	for i := range k.claims {
		c, from := &k.claims[i], &rest
		if k.takes[i].entry != nil {
			from = &local
		}
		for range c.Limits {
			r := (*from)[0]
			if denied && from == &local && !c.Peek {
				r.Remaining = min(r.Remaining+int(costOf(c)), r.Limit.Capacity())
			}
			dst, *from = append(dst, r), (*from)[1:]
		}
	}
	return dst
}
