package redisx

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A leasedTake is a Take of which leases decide a part, and the store the rest. The leases come first: what was taken from them is
// put back if the store denies or fails.
type leasedTake struct {
	store  *Store
	table  *leaseTable
	claims []core.Claim
	parts  []leasePart   // by claim
	local  []core.Result // what leases say, in the order of claims
	rest   []core.Claim  // claims that the store decides
	places []int         // of those among claims
	backs  []backs       // what the call for the rest gives back, by claim of it
}

func (s *Store) takeLeased(ctx context.Context, t *leaseTable, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return dst, err
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		t.timeout.Store(int64(time.Until(deadline)))
	}
	sent, resets := time.Now(), s.resets(claims)
	k := &leasedTake{store: s, table: t, claims: claims, parts: make([]leasePart, len(claims))}
	k.takeLocal(ctx)
	if len(k.rest) == 0 {
		return append(dst, k.local...), nil
	}
	a, err := k.takeRest(ctx)
	if err != nil {
		t.putBack(k.parts)
		return dst, err
	}
	start := len(dst)
	dst = k.merge(dst, a.results)
	if a.lasts {
		s.remember(claims, dst[start:], sent, resets)
	}
	return dst, nil
}

// takeLocal takes what it can from leases.
func (k *leasedTake) takeLocal(ctx context.Context) {
	for i := range k.claims {
		ok := false
		if !sharesPair(k.claims, i) {
			k.parts[i], k.local, ok = k.store.takeLeaseOrEnd(ctx, k.table, &k.claims[i], k.local)
		}
		if !ok {
			k.rest, k.places, k.backs = append(k.rest, k.claims[i]), append(k.places, i), append(k.backs, k.parts[i].backs)
		}
	}
}

// takeRest has the store decide the rest. What this process holds of its pairs is given back in the same call, so that it does
// not stand in its own way: if a grant has come in meanwhile, a denial is asked for again.
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

// merge appends the results of all claims in order. If the store denied, what leases have admitted is available again.
func (k *leasedTake) merge(dst, rest []core.Result) []core.Result {
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
				r.Remaining = min(r.Remaining+int(costOf(c)), r.Limit.Capacity())
			}
			dst, *from = append(dst, r), (*from)[1:]
		}
	}
	return dst
}
