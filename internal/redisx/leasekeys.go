package redisx

import (
	"context"
	"hash/maphash"

	"github.com/spillgate/spillgate/core"
)

// each calls f for each claim of the rest, with its shard locked. The entry is nil if the key has none.
func (k *leasedTake) each(f func(i int, hash uint64, key []byte, s *leaseShard, e *leaseEntry)) {
	var buf [256]byte
	for i := range k.rest {
		key := k.store.layout.appendKey(buf[:0], k.rest[i].Rule, k.rest[i].Key)
		hash := maphash.Bytes(k.table.seed, key)
		s := k.table.shard(hash)
		s.mu.Lock()
		f(i, hash, key, s, s.find(hash, key))
		s.mu.Unlock()
	}
}

// changeTerms gives back what was granted for other limits than those of the rest. That comes before the call for the rest: a
// bucket that was asked at another rate takes nothing back.
func (k *leasedTake) changeTerms(ctx context.Context) {
	var old []unused
	for range 2 {
		var grants []*grant
		k.each(func(i int, _ uint64, _ []byte, _ *leaseShard, e *leaseEntry) {
			c := &k.rest[i]
			switch {
			case e == nil || e.terms.fit(c):
			case e.grantInFlight() != nil && !e.terms.charge(c):
				grants = append(grants, e.grantInFlight())
			case leasable(c):
				old = append(old, k.table.change(e, c))
			case !e.terms.charge(c):
				old = append(old, unused{e.key, e.terms, e.finish()})
			}
		})
		waitForAll(ctx, grants)
		if len(grants) == 0 {
			break
		}
	}
	k.table.settle(ctx, old)
}

// change gives e the terms of c, and returns what is to be given back on the old terms. The caller has locked the shard.
func (t *leaseTable) change(e *leaseEntry, c *core.Claim) unused {
	old := unused{e.key, e.terms, e.finish()}
	e.terms, e.pause = t.termsOf(c), pauseSpans
	if e.rare != nil {
		e.rare.others, e.rare.answer = nil, nil
		e.dropRare()
	}
	return old
}

// finish ends all portions of e, and returns what is to be given back.
func (e *leaseEntry) finish() backs {
	e.end()
	return e.takeUnused()
}

// collect ends the leases of the rest and adds what is left of them to what the call gives back. Those that takeLocal has ended
// are skipped, unless the call is made again.
func (k *leasedTake) collect(again bool) {
	k.each(func(i int, _ uint64, _ []byte, _ *leaseShard, e *leaseEntry) {
		if e != nil && e.terms.charge(&k.rest[i]) && (again || !k.takes[k.places[i]].ended) {
			k.backs[i].addAll(e.finish())
		}
	})
}

// unused returns how many requests the call for the rest gives back.
func (k *leasedTake) unused() (n uint64) {
	for i := range k.backs {
		n += uint64(k.backs[i].sum())
	}
	return n
}

// keep has a later call give back what the call that failed did not.
func (k *leasedTake) keep() {
	for i := range k.backs {
		c := &k.rest[i]
		k.table.giveBack(k.store.layout.key(c.Rule, c.Key), k.table.termsOf(c), k.backs[i])
	}
}

// holdsDenied has the leases of denied pairs rest, and reports whether this process still holds requests of one of them. It waits for
// grants in flight.
func (k *leasedTake) holdsDenied(ctx context.Context, results []core.Result) (holds bool) {
	var grants []*grant
	k.each(func(i int, _ uint64, _ []byte, _ *leaseShard, e *leaseEntry) {
		of := results[:len(k.rest[i].Limits)]
		results = results[len(of):]
		if e == nil || isAdmitted(of) {
			return
		}
		e.advance(k.table.now(), e.terms.length)
		e.rest()
		holds = holds || e.available() > 0 || e.hasUnused()
		if g := e.grantInFlight(); g != nil {
			grants = append(grants, g)
		}
	})
	waitForAll(ctx, grants)
	return (holds || len(grants) > 0) && ctx.Err() == nil
}

// count counts the admitted claims of the rest as used, and asks for grants for keys that are asked for repeatedly.
func (k *leasedTake) count(results []core.Result) {
	now := k.table.now()
	k.each(func(i int, hash uint64, key []byte, s *leaseShard, e *leaseEntry) {
		c := &k.rest[i]
		of := results[:len(c.Limits)]
		results = results[len(of):]
		if c.Peek || !leasable(c) || sharesPair(k.rest, i) {
			return
		}
		if e == nil {
			if k.table.asked.within(hash, now, int64(c.Lease)) {
				e = k.table.add(s, hash, key, c)
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
			e.rest()
		case e.available() == 0 || e.isLow(now, e.terms.length):
			k.store.fetch(k.table, hash, e, 0)
		}
	})
}

// least returns the least of what remains.
func least(results []core.Result) int {
	n := results[0].Remaining
	for i := range results {
		n = min(n, results[i].Remaining)
	}
	return n
}
