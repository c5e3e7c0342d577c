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

// sharedLimit is that of each shared key.
var sharedLimit = core.Every(900, ages)

// serveUntil serves all requests of the keys, under one rule after the other until enough reports true: how much leases and moves
// of slots show meanwhile depends on how busy the machine is.
func serveUntil(t *testing.T, stores [2]*redisx.Store, enough func() bool) {
	rules := 0
	for rules == 0 || !enough() {
		if rules >= 20 {
			t.Fatalf("leases have shown little: %+v, %+v", stores[0].LeaseStats(), stores[1].LeaseStats())
		}
		redistest.Undisturbed(t, func() error {
			rules++
			return checkServed(serveAll(t, stores, fmt.Sprint("rule", rules)))
		})
	}
}

// serveAll has callers of two stores share the keys of a rule until each is used up, and returns how many requests of each were
// served, with what the last leases have given back.
func serveAll(t *testing.T, stores [2]*redisx.Store, rule string) (served [4]int64) {
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			c := core.Claim{Rule: rule, Key: sharedKeys[g%4], Limits: []core.Limit{sharedLimit}, Lease: 50 * time.Millisecond}
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
		for allowed(take(t, stores[0], core.Claim{Rule: rule, Key: key, Limits: []core.Limit{sharedLimit}})) {
			served[i]++
		}
	}
	return served
}

// checkServed returns an error if a key was served more than all its requests, or less than all but one.
func checkServed(served [4]int64) error {
	all := int64(sharedLimit.Rate)
	for i := range served {
		if served[i] > all || served[i] < all-1 {
			return fmt.Errorf("%d requests of %q were served of %d", served[i], sharedKeys[i], all)
		}
	}
	return nil
}

// bothLease returns a function that reports whether leases of both stores have decided many requests.
func bothLease(stores [2]*redisx.Store) func() bool {
	return func() bool { return stores[0].LeaseStats().Decisions >= 100 && stores[1].LeaseStats().Decisions >= 100 }
}

func TestLeasesOnARing(t *testing.T) {
	addrs := map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}
	var stores [2]*redisx.Store
	for i := range stores {
		ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
		t.Cleanup(func() { ring.Close() })
		stores[i] = redisx.New(ring, options)
	}
	serveUntil(t, stores, bothLease(stores))
}

// A slot moves to another node while its keys are leased: grants and what is given back follow it.
func TestLeasesWhileSlotsMove(t *testing.T) {
	cluster := redistest.StartCluster(t)
	stores := [2]*redisx.Store{redisx.New(cluster.Client(t), options), redisx.New(cluster.Client(t), options)}
	var done atomic.Bool
	var moved atomic.Int64
	var moves sync.WaitGroup
	moves.Go(func() {
		for i := 0; !done.Load(); i++ {
			key := fmt.Sprintf("{%s}", sharedKeys[i%4])
			slot := cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), key).Val()
			cluster.Move(t, int(slot), (1+i/4)%3)
			moved.Add(1)
		}
	})
	serveUntil(t, stores, func() bool { return bothLease(stores)() && moved.Load() >= 8 })
	done.Store(true)
	moves.Wait()
}
