package redisx

import (
	"hash/maphash"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// settleLocal refunds what it can into leases, and returns the claims that are left for the store to settle. A request goes back
// into the portion that it was taken from. If that has ended, the store refunds it as charged one Lease before it was used: no
// portion is charged earlier, and a refund for an earlier instant returns less, never more.
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
		own[i].Final += int(s.restore(t, c, -more))
		own[i].At = c.At.Add(-c.Lease)
	}
	return own
}

// restore puts up to n requests of c back into the portion that they were taken from, and returns how many.
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

// endLeases ends the leases of the claims for which is reports true.
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

// endLease ends the lease of a key, removes it from the table and gives back what is left. If the pair was reset, the store ignores
// that refund.
func (t *leaseTable) endLease(hash uint64, key []byte) {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(hash, key); e != nil {
		t.giveBack(e.key, e.terms, e.finish())
		t.remove(s, hash, e)
	}
}
