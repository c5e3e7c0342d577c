package redisx

import (
	"hash/maphash"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// settleLocal refunds what it can into leases, and returns what is left for the store to settle. A request goes back
// into the portion that it was taken from. If that has ended, the store refunds it as charged one Lease before it was used: no
// portion is charged earlier, and a refund for an earlier instant returns less, never more.
func (s *Store) settleLocal(t *leaseTable, settlements []core.Settlement) []core.Settlement {
	own := settlements
	for i := range settlements {
		st := &settlements[i]
		more := int64(st.Final) - int64(max(st.Cost, 1))
		if more >= 0 || st.Lease <= 0 || st.Held || st.Renew || st.Ban > 0 || markIn(st.At) == 0 {
			continue
		}
		if &own[0] == &settlements[0] {
			own = slices.Clone(settlements)
		}
		own[i].Final += int(s.restore(t, st, -more))
		own[i].At = st.At.Add(-st.Lease)
	}
	return own
}

// restore puts up to n requests of st back into the portion that they were taken from, and returns how many.
func (s *Store) restore(t *leaseTable, st *core.Settlement, n int64) int64 {
	var buf [256]byte
	key := s.layout.appendKey(buf[:0], st.Rule, st.Key)
	hash := maphash.Bytes(t.seed, key)
	shard := t.shard(hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.find(hash, key)
	if e == nil || !e.terms.fit(claimOf(st)) {
		return 0
	}
	e.advance(t.now(), e.terms.length)
	return e.refund(func(at int64) bool { return markOf(at) == markIn(st.At) && at <= st.At.UnixMicro() }, n)
}

// endLeases ends the leases of pairs.
func (s *Store) endLeases(pairs []core.Pair) {
	t := s.leases.Load()
	if t == nil {
		return
	}
	var buf [256]byte
	for _, p := range pairs {
		key := s.layout.appendKey(buf[:0], p.Rule, p.Key)
		t.endLease(maphash.Bytes(t.seed, key), key)
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
