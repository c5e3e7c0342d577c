package faults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/redistest"
)

// The round trip to this Redis takes nearly as long as the deadline. Redis still decides as often as it replies to plain
// commands on an open connection: at most two percent more decisions are made without it, and the median decision takes at most
// 1.15 times as long. This holds one second after the start, and again after an outage.
func TestFarRedisDecides(t *testing.T) {
	server := redistest.Start(t)
	var wires sync.WaitGroup
	for _, trip := range []time.Duration{20 * time.Millisecond, 32 * time.Millisecond, 40 * time.Millisecond} {
		for _, heeds := range []bool{false, true} {
			wires.Go(func() { testFar(t, server, trip, heeds) })
		}
	}
	wires.Wait()
}

func testFar(t *testing.T, server *redistest.Server, trip time.Duration, heeds bool) {
	proxy := redistest.StartProxy(t, server.Addr)
	proxy.Fault.Store(redistest.Fault{Every: true, Delay: trip})
	client, plain := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: heeds}), redis.NewClient(&redis.Options{Addr: proxy.Addr})
	t.Cleanup(func() { client.Close(); plain.Close() })
	rule := core.Rule{Name: fmt.Sprint(trip, heeds), Limits: []core.Limit{slowly(1_000_000)}}
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(redisstore.New(client))))
	decides := func() bool {
		d, err := l.Take(context.Background(), core.Claim{Rule: rule.Name, Key: "k"})
		return err == nil && d.Degraded == nil
	}
	answers := func() bool {
		begun := time.Now()
		return plain.Incr(context.Background(), rule.Name).Err() == nil && time.Since(begun) < deadline
	}
	for _, after := range []string{"the start", "it was away"} {
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			ask(answers)
			ask(decides)
		}
		// A machine that is busy makes some of both late, so there is more than one attempt.
		redistest.Wait(t, fmt.Sprintf("a Redis %v away to decide after %s, ContextTimeoutEnabled %v", trip, after, heeds), func() bool {
			answered, plainly := ask(answers)
			decided, took := ask(decides)
			t.Logf("%v %v %s: %d of %d in %v, plain %d in %v", trip, heeds, after, decided, asked, took, answered, plainly)
			return decided > 0 && decided >= answered-asked/50 && took <= plainly*115/100
		})
		if after == "the start" {
			proxy.Reject()
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				decides()
			}
			proxy.Accept(t)
		}
	}
}

const askers, asked = 8, 80

// ask asks so often by several callers, and returns how often it worked, and the median of how long that took.
func ask(works func() bool) (worked int, median time.Duration) {
	took := make(chan time.Duration, asked)
	var callers sync.WaitGroup
	for range askers {
		callers.Go(func() {
			for range asked / askers {
				begun := time.Now()
				if works() {
					took <- time.Since(begun)
				}
			}
		})
	}
	callers.Wait()
	close(took)
	var all []time.Duration
	for d := range took {
		all = append(all, d)
	}
	if slices.Sort(all); len(all) > 0 {
		median = all[len(all)/2]
	}
	return len(all), median
}
