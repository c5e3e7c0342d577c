package redisstore_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// leasing returns a limiter that leases the keys of its one rule, in a bubble.
func leasing(t *testing.T, server *redistest.Server, limits string, lease time.Duration) *core.Limiter {
	rule := core.Rule{Name: "leased", Key: keyfunc.Const("all"), Limits: core.MustParseLimits(limits), Lease: lease}
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(inBubble(t, server))))
}

func takeLeased(t *testing.T, l *core.Limiter, cost int) core.Result {
	t.Helper()
	d, err := l.Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Cost: cost})
	if err != nil {
		t.Fatal(err)
	}
	return d.Results[0]
}

// TestRemainingOfALeasedKey asks one request after the other: whatever decides them, one less remains each time. Only while
// requests are being charged ahead the store says that these are missing. A refund leaves charged what can have drained since the
// loan, which is far less than one request here, and the last request may have to wait for that.
func TestRemainingOfALeasedKey(t *testing.T) {
	for _, lease := range []time.Duration{time.Millisecond, 30 * time.Millisecond, time.Second} {
		server := redistest.Start(t)
		synctest.Test(t, func(t *testing.T) { checkRemaining(t, leasing(t, server, "3000/1000h", lease), lease) })
	}
}

func checkRemaining(t *testing.T, l *core.Limiter, lease time.Duration) {
	near, begun := 0, time.Now()
	for used := range 3000 {
		time.Sleep(100 * time.Microsecond)
		r := takeLeased(t, l, 1)
		want := 3000 - used - 1
		if !r.Allowed && want == 0 && r.RetryAfter < 2*time.Since(begun) {
			time.Sleep(r.RetryAfter)
			r = takeLeased(t, l, 1)
		}
		if r.Remaining > want+1 || r.Remaining < want-used-1 || !r.Allowed {
			t.Fatalf("lease %v, request %d: %d remain, want %d: %+v", lease, used+1, r.Remaining, want, r)
		}
		if r.Remaining >= want-1 {
			near++
		}
		if r.ResetAfter < r.RefillAfter || r.RefillAfter <= 0 || r.RefillAfter > 1201*time.Second {
			t.Fatalf("lease %v: %+v", lease, r)
		}
		if age := time.Since(r.At.Truncate(time.Microsecond)); age != 0 {
			t.Fatalf("lease %v: decided %v ago, by the clock of the server", lease, age)
		}
	}
	if decisions := l.StoreHealth().Leases.Decisions; decisions == 0 {
		t.Errorf("lease %v: no decision came from it", lease)
	}
	if lease > time.Millisecond && near < 1500 {
		t.Errorf("lease %v: what remains was right within one request %d times of 3000", lease, near)
	}
}

// TestUnusedRequestsOfSeveralProcessesCount has processes use one key in turn, in bursts. Then all that they have not used is there
// again, except for what can have drained between a loan and its refund. The limit drains one request in six minutes.
func TestUnusedRequestsOfSeveralProcessesCount(t *testing.T) {
	server := redistest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		used, random := 0, rand.New(rand.NewPCG(18, 2))
		var all []*core.Limiter
		for range 8 {
			all = append(all, leasing(t, server, "10000/1000h", 20*time.Millisecond))
		}
		for range 200 {
			l := all[random.IntN(len(all))]
			for range random.IntN(20) {
				takeLeased(t, l, 1)
				used++
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second) // until all is returned
		d, err := all[0].Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Peek: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := d.Results[0].Remaining, 10000-used; got > want || got < want-1 {
			t.Errorf("%d remain, want %d, or one less", got, want)
		}
		for _, l := range all {
			if h := l.StoreHealth().Leases; h.Decisions == 0 || h.Returned == 0 {
				t.Errorf("a process did not lease: %+v", h)
			}
		}
	})
}

// TestRetryAfterOfALeasedKey waits as long as a denial says: then the same cost fits.
func TestRetryAfterOfALeasedKey(t *testing.T) {
	for _, limits := range []string{"100/s", "20/200ms;fixed-window", "200/s;burst=10, 150/500ms;fixed-window"} {
		server := redistest.Start(t)
		synctest.Test(t, func(t *testing.T) {
			l, denied := leasing(t, server, limits, 20*time.Millisecond), 0
			for i := 0; denied < 12 && i < 10_000; i++ {
				cost := 1 + i%3
				d, err := l.Take(context.Background(), core.Claim{Rule: "leased", Key: "k", Cost: cost})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Microsecond)
				if d.Allowed {
					continue
				}
				denied++
				time.Sleep(d.RetryAfter() - 100*time.Microsecond)
				if again := takeLeased(t, l, cost); !again.Allowed {
					t.Errorf("%s: cost %d is denied after waiting %v: %+v", limits, cost, d.RetryAfter(), again)
				}
			}
			if denied < 12 {
				t.Errorf("%s: denied %d times", limits, denied)
			}
			if h := l.StoreHealth().Leases; h.Decisions == 0 {
				t.Errorf("%s: no decision came from a lease", limits)
			}
		})
	}
}
