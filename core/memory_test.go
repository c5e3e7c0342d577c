package core_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestMemoryStoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{New: func(*testing.T) core.Store { return new(core.MemoryStore) }})
}

// algorithms are 100 requests a day by each algorithm, all states of one key.
var algorithms = core.MustParseLimits("100/d, 100/d;fixed-window, 100/d;sliding-window, 100/d;sliding-log")

// one returns a claim of cost 1.
func one(key string, limits ...core.Limit) []core.Claim {
	return []core.Claim{{Rule: "rule", Key: key, Limits: limits}}
}

// admits reports whether m admits claims, which are valid.
func admits(m *core.MemoryStore, claims []core.Claim) bool {
	var buf [8]core.Result
	results, _ := m.Take(context.Background(), claims, buf[:0])
	for i := range results {
		if !results[i].Allowed {
			return false
		}
	}
	return len(results) > 0
}

// countTrue calls f from 300 goroutines, ten times from each, and returns how often it reported true.
func countTrue(f func() bool) int {
	var count atomic.Int64
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			for range 10 {
				if f() {
					count.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(count.Load())
}

func TestConcurrentTakesAdmitExactlyTheLimit(t *testing.T) {
	for _, l := range algorithms {
		t.Run(l.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m core.MemoryStore
				if n := countTrue(func() bool { return admits(&m, one("key", l)) }); n != 100 {
					t.Errorf("%d admitted on one key, want 100", n)
				}
				var keys []core.Claim
				for i := range 8 {
					keys = append(keys, one("shuffled"+strconv.Itoa(i), l)...)
				}
				n := countTrue(func() bool {
					some := append([]core.Claim(nil), keys...)
					rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
					return admits(&m, some[:5+rand.IntN(4)])
				})
				if n < 100 || n > 100*8/5 {
					t.Errorf("%d admitted that take 5 to 8 of 8 keys, 100 of each", n)
				}
			})
		})
	}
}

func TestResetForgetsAndMakesRoom(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		m := &core.MemoryStore{MaxKeys: 1}
		for i := range 1000 {
			key := strconv.Itoa(i)
			for range 2 { // a shared state would stay as it is
				for range 100 {
					if !admits(m, one(key, algorithms...)) {
						t.Fatalf("key %d was not forgotten", i)
					}
				}
				if admits(m, one(key, algorithms...)) {
					t.Fatalf("key %d: 101 admitted", i)
				}
				if err := m.Reset(context.Background(), []core.Pair{{Rule: "rule", Key: key}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
