package core_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/testpass"
)

// handle has l guard a request that takes a while and ends with a status. It reports whether the handler ran.
func handle(l *core.Limiter, takes time.Duration, status int) bool {
	g, err := l.Guard(context.Background(), get("/"), nil)
	if err != nil {
		return false
	}
	defer g.End()
	if !g.Admitted() {
		return false
	}
	time.Sleep(takes)
	g.Settle(core.Outcome{Status: status})
	return true
}

// parallel has n requests handled at the same time and returns how many handlers ran.
func parallel(l *core.Limiter, n int, takes time.Duration, status int) int {
	var ran atomic.Int64
	var requests sync.WaitGroup
	for range n {
		requests.Go(func() {
			if handle(l, takes, status) {
				ran.Add(1)
			}
		})
	}
	requests.Wait()
	return int(ran.Load())
}

// inMemory returns a limiter with one rule.
func inMemory(limits string, f func(*http.Request, core.Outcome) int) *core.Limiter {
	return core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: core.MustParseLimits(limits), CostAfter: f}}))
}

func TestParallelFailuresRunAsManyHandlersAsTheLimit(t *testing.T) {
	for _, limit := range []string{"5/15m", "5/15m;fixed-window", "5/15m;sliding-window", "5/15m;sliding-log"} {
		synctest.Test(t, func(t *testing.T) {
			l := inMemory(limit, core.Failures)
			if ran := parallel(l, 1000, 100*time.Millisecond, 401); ran != 5 {
				t.Errorf("%s: %d handlers ran, want 5", limit, ran)
			}
			time.Sleep(time.Minute)
			if handle(l, 0, 401) {
				t.Errorf("%s: a sixth handler ran", limit)
			}
		})
	}
}

// Twenty logins overlap at any time, for an hour: none fails, so none is denied.
func TestOverlappingSuccessesAreFree(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("20/15m", core.Failures)
		var denied atomic.Int64
		var requests sync.WaitGroup
		for range 72_000 {
			requests.Go(func() {
				if !handle(l, 950*time.Millisecond, 200) {
					denied.Add(1)
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		requests.Wait()
		if n := denied.Load(); n > 0 {
			t.Errorf("%d of 72,000 were denied", n)
		}
	})
}

func TestFinalCostsAboveTheLimitAreOwed(t *testing.T) {
	for _, tt := range []struct {
		estimate, ran, remaining int
		wait                     time.Duration // for one more
	}{
		{1, 5, 0, 5*time.Minute + 38400*time.Millisecond},
		{1024, 1, 42, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			finals := make(chan int, 5)
			for _, n := range []int{58, 80, 175, 175, 175} {
				finals <- n
			}
			rule := core.Rule{Name: "tokens", Key: keyK, Limits: []core.Limit{core.PerMinute(100)}, Cost: cost(tt.estimate),
				CostAfter: func(*http.Request, core.Outcome) int { return <-finals }}
			l := core.Must(core.New([]core.Rule{rule}))
			if ran := parallel(l, 5, time.Second, 200); ran != tt.ran {
				t.Errorf("estimate %d: %d ran, want %d", tt.estimate, ran, tt.ran)
			}
			d, err := l.Take(t.Context(), core.Claim{Rule: "tokens", Key: "k", Peek: true})
			if err != nil || d.Results[0].Remaining != tt.remaining || d.RetryAfter() != tt.wait {
				t.Errorf("estimate %d: got %+v, %v; want %d remaining and a wait of %v", tt.estimate, d, err, tt.remaining, tt.wait)
			}
		})
	}
}
