package processes

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

var scriptCalls = regexp.MustCompile(`cmdstat_(?:eval|evalsha|fcall):calls=(\d+)`)

// calls returns how many scripts a server has run.
func calls(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	for _, m := range scriptCalls.FindAllStringSubmatch(must.Get(c.Info(context.Background(), "commandstats").Result())(t), -1) {
		some, _ := strconv.Atoi(m[1])
		n += some
	}
	return n
}

// TestCallsOfALease requests one hot key, far from its limit, on a clock that advances only between requests: a process
// makes at most 30 calls per second.
func TestCallsOfALease(t *testing.T) {
	const lasts = 3
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, load := range []struct{ callers, perTurn int }{{1, 1}, {1, 100}, {64, 1}} {
		synctest.Test(t, func(t *testing.T) {
			l := (&leaser{Limit: "20000000/s", Lease: 100 * time.Millisecond}).limiterOver(connected(t, server.Addr, 100))
			var all sync.WaitGroup
			ask := func(d time.Duration) {
				for range load.callers {
					all.Go(func() {
						for begun := time.Now(); time.Since(begun) < d; time.Sleep(time.Millisecond) {
							for range load.perTurn {
								take(t, l)
							}
						}
					})
				}
				all.Wait()
			}
			ask(time.Second) // until a lease is as large as it gets
			before := calls(t, admin)
			ask(lasts * time.Second)
			expect.AtMost(t, calls(t, admin)-before, 30*lasts, "%+v: calls in %d seconds (at most 30 per second)", load, lasts)
			expect.NotEqual(t, l.StoreHealth().Leases.Decisions, 0, "%+v: no decision came from a lease", load)
		})
	}
}

// TestHeapOfLeasedKeys leases many keys. Each takes at most 200 bytes of the heap, and they are removed once they are unused. The
// number of keys is one at which the maps have just grown. Other growth of the heap, such as goroutines, is measured too, so the
// smallest growth of three limiters is the most accurate.
func TestHeapOfLeasedKeys(t *testing.T) {
	const keys = 7_500
	server := redistest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		client := connected(t, server.Addr, 4)
		runAtOnce(keys + 100) // one refill for each key, and callers
		least := math.Inf(1)
		for range 3 {
			l := (&leaser{Limit: "1000/s", Lease: 3 * time.Second, Timeout: 500 * time.Millisecond}).limiterOver(client)
			askAll(t, l, 1)
			before := live()
			askAll(t, l, keys)
			time.Sleep(time.Second) // until then, a bubble keeps the timers of ended calls; its clock stands still while a call is in flight
			leased := l.StoreHealth().Leases.Keys
			least = min(least, (float64(live())-float64(before))/float64(leased))
			expect.True(t, leased >= keys*9/10, "%d keys are leased, want %d", leased, keys)
			redistest.Wait(t, "the leases to end", func() bool { return l.StoreHealth().Leases.Keys == 0 })
		}
		runtime.KeepAlive(client)
		t.Logf("%.0f bytes for each key", least)
		expect.AtMost(t, least, 200, "the heap grew by bytes for each leased key")
	})
}

// connected returns a client for a synctest bubble that has opened n connections.
func connected(t *testing.T, addr string, n int) *redis.Client {
	t.Helper()
	client := redistest.NewClient(t, &redis.Options{Addr: addr, PoolSize: redistest.BubblePool, MinIdleConns: n})
	redistest.Wait(t, "the connections", func() bool { return client.PoolStats().IdleConns == uint32(n) })
	return client
}

// runAtOnce runs n goroutines at once, so that the runtime has allocated their memory before keys are measured.
func runAtOnce(n int) {
	var all sync.WaitGroup
	end := make(chan struct{})
	for range n {
		all.Go(func() { <-end })
	}
	close(end)
	all.Wait()
}

// askAll requests many keys twice, with many callers.
func askAll(t *testing.T, l *core.Limiter, keys int) {
	var all sync.WaitGroup
	for first := range 64 {
		all.Go(func() {
			for i := first; i < keys; i += 64 {
				for range 2 {
					c := core.Claim{Rule: "leased", Key: fmt.Sprintf("user:%d", i)}
					if _, err := l.Take(context.Background(), c); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
