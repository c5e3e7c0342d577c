package redisx_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A leasing store leases whatever can be leased. Its server's clock stands between two advances, so what a lease adds to the instants of the
// server is taken away, and added again when a request is settled.
type leasing struct {
	*redisx.Store
	lease time.Duration
	now   *time.Time

	mu       sync.Mutex
	computed map[string]time.Time // the last instant that a lease gave for a key
}

func (l *leasing) leased(claims []core.Claim) []core.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		if claims[i].MaxWait == 0 {
			claims[i].Lease = l.lease
		}
	}
	return claims
}

func (l *leasing) Take(ctx context.Context, claims []core.Claim, dst []core.Result) (results []core.Result, err error) {
	l.BetweenSweeps(func() { results, err = l.take(ctx, claims, dst) })
	return results, err
}

func (l *leasing) take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for l.GrantsInFlight() > 0 { // one that is late is about to be given back
		time.Sleep(50 * time.Microsecond)
	}
	results, ok := l.TakeLocal(l.leased(claims), dst)
	var err error
	if !ok {
		results, err = l.Store.Take(ctx, l.leased(claims), dst)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := results[min(len(dst), len(results)):]
	for _, c := range claims {
		for range min(len(c.Limits), len(of)) {
			if of[0].At.Nanosecond()%1000 != 0 {
				l.computed[c.Rule+" "+c.Key] = of[0].At
				of[0].At = l.now.Truncate(time.Microsecond)
			}
			of = of[1:]
		}
	}
	return results, err
}

func (l *leasing) Settle(ctx context.Context, settlements []core.Settlement) error {
	leased := slices.Clone(settlements)
	for i := range leased {
		if leased[i].MaxWait == 0 {
			leased[i].Lease = l.lease
		}
	}
	l.mu.Lock()
	for i, c := range settlements {
		if at, ok := l.computed[c.Rule+" "+c.Key]; ok && c.At.Equal(l.now.Truncate(time.Microsecond)) {
			leased[i].At = at
		}
	}
	l.mu.Unlock()
	err := l.Store.Settle(ctx, leased)
	for i, c := range leased {
		if c.Renew {
			settlements[i].At = c.At
		}
	}
	return err
}

// leasesEnd waits until nothing is leased any more and all is given back.
func leasesEnd(t *testing.T, s *redisx.Store) {
	t.Helper()
	for range 2 { // a call may be about to begin
		redistest.Wait(t, "the leases to end", s.LeasesEnded)
		time.Sleep(time.Millisecond)
	}
}

// The server's clock stands between two advances, so that what is given back counts in full.
func TestAStoreWithLeasesFulfilsTheContract(t *testing.T) {
	for _, lease := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		t.Run(lease.String(), func(t *testing.T) { runLeasing(t, lease) })
	}
}

func runLeasing(t *testing.T, lease time.Duration) {
	var server *miniredis.Miniredis
	var store *redisx.Store
	var now time.Time
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) core.Store {
			server, now = miniredis.RunT(t), time.Now()
			server.SetTime(now)
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
			store = redisx.New(client, options)
			t.Cleanup(func() { leasesEnd(t, store); client.Close() })
			return &leasing{Store: store, lease: lease, now: &now, computed: make(map[string]time.Time)}
		},
		Advance: func(d time.Duration) {
			leasesEnd(t, store)
			now = now.Add(d)
			server.SetTime(now)
			server.FastForward(d)
		},
	})
}
