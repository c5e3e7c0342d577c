package redisx_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// loadAddr names the variable that turns the test binary into a load generator for the Redis Cluster or server at an address.
const loadAddr = "SPILLGATE_TEST_LOAD"

func TestMain(m *testing.M) {
	redistest.DropLog()
	if addr := os.Getenv(loadAddr); addr != "" {
		client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(addr, ",")})
		failures := 0
		admitted := load(redisx.New(client, options), ended(os.Stdin), func(err error) {
			failures++
			fmt.Println(err)
		})
		_ = json.NewEncoder(os.Stdout).Encode(admitted)
		os.Exit(min(failures, 1))
	}
	os.Exit(m.Run())
}

// capacity is the number of requests that each of exactLimits admits while the tests run.
const capacity = 300

// A perAlgorithm has a number for each of exactLimits.
type perAlgorithm [core.InFlight]int64

// all returns n for each of exactLimits.
func all(n int64) (each perAlgorithm) {
	for i := range each {
		each[i] = n
	}
	return each
}

// exactLimits admit capacity requests and then none for a long time.
func exactLimits() []core.Limit { return everyAlgorithm(capacity, ages) }

// load takes from all limits with several callers, until each limit has denied some requests and enough reports true. It returns
// how many requests each limit admitted. Some requests are of one identity, some of two at once.
func load(s *redisx.Store, enough func() bool, failed func(error)) (admitted perAlgorithm) {
	var wg sync.WaitGroup
	for i, l := range exactLimits() {
		for caller := range 4 {
			wg.Go(func() {
				for denied := 0; denied < 20 || !enough(); {
					key := fmt.Sprintf("limit:%d", i)
					claims := []core.Claim{claimOf(key, l)}
					if caller%2 == 0 {
						claims = append(claims, claimOf("second "+key, l))
					}
					results, err := s.Take(context.Background(), claims, nil)
					switch {
					case err != nil && strings.HasPrefix(err.Error(), "TRYAGAIN"): // the keys of a log are on two nodes
						denied++
					case err != nil:
						failed(err)
						denied++
					case allowed(results):
						atomic.AddInt64(&admitted[i], 1)
					default:
						denied++
					}
				}
			})
		}
	}
	wg.Wait()
	return admitted
}

// loadFromProcesses runs load in eight processes, until enough reports true, and returns how many requests each limit admitted.
func loadFromProcesses(t *testing.T, enough func() bool, addrs ...string) (total perAlgorithm) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	stdin, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	var processes sync.WaitGroup
	processes.Go(func() {
		defer end.Close()
		for !enough() && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	})
	for range 8 {
		processes.Go(func() {
			p := exec.CommandContext(ctx, os.Args[0])
			p.Stdin = stdin
			p.Env = append(os.Environ(), loadAddr+"="+strings.Join(addrs, ","))
			out, err := p.Output()
			var n perAlgorithm
			if err == nil {
				err = json.Unmarshal(out, &n)
			}
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			for i := range total {
				atomic.AddInt64(&total[i], n[i])
			}
		})
	}
	processes.Wait()
	return total
}

func TestProcessesAdmitExactlyTheLimit(t *testing.T) {
	admitted := loadFromProcesses(t, func() bool { return true }, redistest.Start(t).Addr)
	if want := all(capacity); admitted != want {
		t.Errorf("admitted %v, want %v", admitted, want)
	}
}

// FUNCTION FLUSH deletes the library, and with it the function that each request calls.
func TestFunctionFlushFailsNoRequest(t *testing.T) {
	client := redistest.Start(t).Client(t)
	var flushed atomic.Int32
	enough := func() bool { return flushed.Load() >= 100 }
	var flushes sync.WaitGroup
	flushes.Go(func() {
		for !enough() {
			if err := client.FunctionFlush(context.Background()).Err(); err != nil {
				t.Error(err)
			}
			flushed.Add(1)
		}
	})
	admitted := load(redisx.New(client, options), enough, func(err error) { t.Error(err) })
	flushes.Wait()
	if want := all(capacity); admitted != want {
		t.Errorf("admitted %v, want %v", admitted, want)
	}
}

func TestProcessesAdmitExactlyTheLimitWhileSlotsMigrate(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := redisx.New(cluster.Client(t), options)
	var addrs []string
	for _, n := range cluster.Nodes {
		addrs = append(addrs, n.Addr)
	}
	var done atomic.Bool
	var moved atomic.Int64
	var moves sync.WaitGroup
	moves.Go(func() {
		for i := 0; !done.Load(); i++ {
			key := fmt.Sprintf("{limit:%d}", i%4)
			slot := cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), key).Val()
			cluster.Move(t, int(slot), (1+i/4)%3)
			moved.Add(1)
		}
	})
	admitted := loadFromProcesses(t, func() bool { return moved.Load() >= 4 }, addrs...)
	done.Store(true)
	moves.Wait()
	// A request of two identities may be denied by a charge that is about to be given back, so some of the capacity may be left.
	for i, l := range exactLimits() {
		for allowed(take(t, s, claimOf(fmt.Sprintf("limit:%d", i), l))) {
			admitted[i]++
		}
	}
	if want := all(capacity); admitted != want {
		t.Errorf("admitted %v, want %v", admitted, want)
	}
	allExpire(t, cluster.Client(t))
}

// A sliding log has a key of its own: in a slot that migrates, the server does not run a script with both.
func TestNewKeysInASlotThatMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := redisx.New(cluster.Client(t), options)
	ctx := context.Background()
	limits := everyAlgorithm(5, ages)[:3]
	old, both := claimOf("{a}", limits...), []core.Claim{claimOf("a", limits...), {Rule: "other", Key: "a", Limits: limits}}
	take(t, s, claimOf("a", limits[0]))
	slot := int(cluster.Nodes[0].Client(t).ClusterKeySlot(ctx, "{a}").Val())
	from := cluster.Owner(t, slot)
	cluster.BeginMigration(t, slot, from, (from+1)%3)
	results, err := s.Take(ctx, both, nil)
	if err != nil || !allowed(results) || results[0].Remaining != 3 || results[5].Remaining != 4 {
		t.Fatalf("%+v, %v", results, err)
	}
	both[1].Cost = 5
	for range 2 { // the second time shows that the first was given back
		denied := take(t, s, both...)
		if allowed(denied) || denied[0].Remaining != 3 || denied[2].Remaining != 4 || denied[5].Remaining != 4 {
			t.Errorf("a denied request leaves %+v", denied)
		}
	}
	both[1].Cost = 1
	must.Do(t, s.Settle(ctx, settled(both, results)))
	for _, c := range both {
		c.Peek = true
		if r := take(t, s, c); r[1].Remaining != 5 || r[2].Remaining != 5 {
			t.Errorf("after a refund: %+v", r)
		}
	}
	must.Do(t, s.Reset(ctx, pairsOf(both...)))
	if r := take(t, s, both...); !allowed(r) || r[0].Remaining != 4 {
		t.Errorf("after a reset: %+v", r)
	}
	take(t, s, old)
}
