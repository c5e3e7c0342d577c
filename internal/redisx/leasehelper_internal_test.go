package redisx

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
)

// leasedFor returns a claim of a key whose lease does not end during a test.
func leasedFor(key, limits string) core.Claim {
	return core.Claim{Key: key, Limits: core.MustParseLimits(limits), Cost: 1, Lease: 10 * time.Second}
}

// table returns the leases of s.
func (s *Store) table() *leaseTable {
	return s.leasesFor([]core.Claim{{Lease: time.Second}})
}

// placeOf returns the shard, the hash and the key of a claim.
func (t *leaseTable) placeOf(c core.Claim) (s *leaseShard, hash uint64, key []byte) {
	key = t.store.layout.appendKey(nil, c.Rule, c.Key)
	hash = maphash.Bytes(t.seed, key)
	return t.shard(hash), hash, key
}

// lend adds a lease of c with a portion of n requests, which the server has charged.
func (s *Store) lend(t *testing.T, c core.Claim, n int64) *leaseEntry {
	t.Helper()
	table := s.table()
	shard, hash, key := table.placeOf(c)
	e := table.add(shard, hash, key, &c)
	at, granted := s.ahead(t, c, n)
	if e == nil || granted != n {
		t.Fatalf("%d of %d were lent", granted, n)
	}
	now := table.now()
	e.advance(now, e.terms.length)
	e.credit(now, at, now+e.terms.length, n)
	return e
}

// pass moves the clock of the leases on.
func (t *leaseTable) pass(d time.Duration) { t.begun = t.begun.Add(-d) }

// toReturn returns how many requests the next sweep gives back for leases that are gone.
func (t *leaseTable) toReturn() (n int64) {
	for _, u := range t.unused {
		n += u.backs.sum()
	}
	return n
}

// due returns whether a sweep is due, and within what time.
func (t *leaseTable) due() (armed bool, every time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.armed, t.every
}

// quiet waits until no grant is in flight.
func (s *Store) quiet() {
	for s.GrantsInFlight() > 0 {
		time.Sleep(50 * time.Microsecond)
	}
}

// A tap counts the scripts that a client runs, and may do something before the next one, or instead of it.
type tap struct {
	runs   atomic.Int64
	before atomic.Pointer[func() error]
	last   []any // the arguments of the last script
}

// tapped returns a store like that of frozenStore, and a tap of its client.
func tapped(t *testing.T) (*Store, *tap) {
	s, h := frozenStore(t), new(tap)
	s.client.AddHook(h)
	return s, h
}

// next has f called before the next script, which is not sent if f returns an error.
func (h *tap) next(f func() error) { h.before.Store(&f) }

func (h *tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" { // miniredis has no functions
			return next(ctx, cmd)
		}
		h.runs.Add(1)
		h.last = cmd.Args()
		if f := h.before.Swap(nil); f != nil {
			if err := (*f)(); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}
