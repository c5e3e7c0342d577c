package redisx

import (
	"hash/maphash"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// settleLocal returns claims as the store is to settle them. What was taken from a lease and is given back goes back into the
// portion that it was taken from. If that has ended it is given back to the store, as charged one Lease before it was used: it
// was not charged earlier, and to give back by an earlier instant is to give back less.
func (s *Store) settleLocal(t *leaseTable, claims []core.Claim) []core.Claim {
	own := claims
	for i := range claims {
		c := &claims[i]
		more := int64(c.Final) - costOf(c)
		if more >= 0 || c.Lease <= 0 || c.Hold || c.Peek || c.Renew || c.Ban > 0 || markIn(c.At) == 0 {
			continue
		}
		if &own[0] == &claims[0] {
			own = slices.Clone(claims)
		}
		rest := -more - s.restore(t, c, -more)
		own[i].Final = own[i].Final + int(-more-rest)
		own[i].At = c.At.Add(-c.Lease)
	}
	return own
}

// restore puts back n requests of c, and returns how many it has: never more than the last grant had.
func (s *Store) restore(t *leaseTable, c *core.Claim, n int64) int64 {
	var buf [256]byte
	key := s.layout.appendKey(buf[:0], c.Rule, c.Key)
	hash := maphash.Bytes(t.seed, key)
	shard := t.shard(hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.find(hash, key)
	if e == nil || !e.terms.fit(c) {
		return 0
	}
	e.advance(t.now(), e.terms.length)
	return e.refund(func(at int64) bool { return markOf(at) == markIn(c.At) && at <= c.At.UnixMicro() }, n)
}

func isBan(c *core.Claim) bool { return c.Ban > 0 }

// endLeases ends the leases of the pairs of claims for which is reports true.
func (s *Store) endLeases(claims []core.Claim, is func(*core.Claim) bool) {
	t := s.leases.Load()
	if t == nil {
		return
	}
	var buf [256]byte
	for i := range claims {
		if is(&claims[i]) {
			key := s.layout.appendKey(buf[:0], claims[i].Rule, claims[i].Key)
			t.endLease(maphash.Bytes(t.seed, key), key)
		}
	}
}

// endLease ends the lease of a key, which leaves the table. What is left of it is given back. If the pair was reset, the store
// does not take it.
func (t *leaseTable) endLease(hash uint64, key []byte) {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(hash, key); e != nil {
		e.end()
		t.giveBack(e.key, e.terms, e.takeUnused())
		t.remove(s, hash, e)
	}
}
