package redisx_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// sharedKeys are leased by two stores at once, on several servers.
var sharedKeys = []string{"a", "b", "c", "d"}

// serveAll has callers of two stores share the keys until each is used up, and returns how many requests of each were served,
// with what the last leases have given back.
func serveAll(t *testing.T, stores [2]*redisx.Store, limit core.Limit) (served [4]int64) {
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			c := claimOf(sharedKeys[g%4], limit)
			c.Lease = 50 * time.Millisecond
			for denied := 0; denied < 20; time.Sleep(time.Millisecond) { // leases must come and go
				if allowed(takeEither(t, stores[g/8], []core.Claim{c})) {
					atomic.AddInt64(&served[g%4], 1)
				} else {
					denied++
				}
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		leasesEnd(t, s)
	}
	for i, key := range sharedKeys {
		for allowed(take(t, stores[0], claimOf(key, limit))) {
			served[i]++
		}
	}
	return served
}

// checkServed fails the test if a key was served more than n requests, or more than one less.
func checkServed(t *testing.T, served [4]int64, n int64, stores [2]*redisx.Store) {
	t.Helper()
	for i := range served {
		if served[i] > n || served[i] < n-1 {
			t.Errorf("%d requests of %q were served of %d", served[i], sharedKeys[i], n)
		}
	}
	for _, s := range stores {
		if s.LeaseStats().Decisions < 100 {
			t.Errorf("leases have shown little: %+v", s.LeaseStats())
		}
	}
}

func TestLeasesOnARing(t *testing.T) {
	addrs := map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}
	var stores [2]*redisx.Store
	for i := range stores {
		ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
		t.Cleanup(func() { ring.Close() })
		stores[i] = redisx.New(ring, options)
	}
	checkServed(t, serveAll(t, stores, core.Every(900, 1000*24*time.Hour)), 900, stores)
}

// A slot moves to another node while its keys are leased: grants and what is given back follow it.
func TestLeasesWhileSlotsMove(t *testing.T) {
	cluster := redistest.StartCluster(t)
	stores := [2]*redisx.Store{redisx.New(cluster.Client(t), options), redisx.New(cluster.Client(t), options)}
	var done atomic.Bool
	var moved int
	var moves sync.WaitGroup
	moves.Go(func() {
		for ; !done.Load(); moved++ {
			key := fmt.Sprintf("{%s}", sharedKeys[moved%4])
			slot := cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), key).Val()
			cluster.Move(t, int(slot), (1+moved/4)%3)
		}
	})
	served := serveAll(t, stores, core.Every(900, 1000*24*time.Hour))
	done.Store(true)
	moves.Wait()
	if moved < 8 {
		t.Errorf("only %d slots moved meanwhile", moved)
	}
	checkServed(t, served, 900, stores)
}
