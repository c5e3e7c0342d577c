// Package redisrate checks what docs/moving/redis_rate.md says. Most tests run in a bubble, where no deadline passes while Redis decides.
package redisrate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

func TestBothAdmitTheSameNumber(t *testing.T) {
	client := redistest.Start(t).Client(t)
	limiter := must.Get(newLimiter(client))(t)
	for name, charge := range map[string]func() (time.Duration, error){
		"before": func() (time.Duration, error) { return before(t.Context(), client, "7") },
		"after":  func() (time.Duration, error) { return after(t.Context(), limiter, "7") },
	} {
		for n := 0; ; n++ {
			wait, err := charge()
			must.True(t, err == nil && n <= 10_000, "%s: %d: %v", name, n, err)
			if wait == 0 {
				continue
			}
			expect.True(t, n >= 10 && wait <= 100*time.Millisecond,
				"%s: denied after %d, wait %v; want 10 or more and at most 100ms", name, n, wait)
			break
		}
	}
}

// A cost above the burst never fits. redis_rate still says to wait.
func TestACostAboveTheBurst(t *testing.T) {
	server := redistest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		client := server.Client(t)
		res, err := redis_rate.NewLimiter(client).AllowN(t.Context(), "k", redis_rate.PerSecond(10), 20)
		expect.True(t, err == nil && res.Allowed == 0 && res.RetryAfter > 0, "before: %+v, %v", res, err)
		limiter := must.Get(newLimiter(client))(t)
		d, err := limiter.Take(t.Context(), core.Claim{Rule: "jobs", Key: "k", Cost: 20})
		expect.True(t, err == nil && !d.Allowed && d.RetryAfter() == core.Never, "after: %+v, %v", d, err)
	})
}

func TestRedisIsDown(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	limiter := must.Get(newLimiter(client))(t)
	server.Kill()
	expect.Fails(t, expect.ErrorOf(before(t.Context(), client, "7")), "before")
	d, err := limiter.Take(t.Context(), core.Claim{Rule: "jobs", Key: "project:7"})
	expect.True(t, err == nil && d.Allowed && d.Degraded != nil, "after: %+v, %v", d, err)
}

// A rate of 0 is an error of Redis in redis_rate, and denies everything in Spillgate.
func TestZero(t *testing.T) {
	server := redistest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		client := server.Client(t)
		old := redis_rate.NewLimiter(client)
		expect.Fails(t, expect.ErrorOf(old.Allow(t.Context(), "rate", redis_rate.PerSecond(0))), "before: a rate of 0")
		if res, err := old.Allow(t.Context(), "burst", redis_rate.Limit{Rate: 10, Period: time.Second}); err != nil || res.Allowed != 0 {
			t.Errorf("before: a burst of 0: %+v, %v", res, err)
		}
		limiter := must.Get(newLimiter(client))(t)
		for _, test := range []struct {
			rule    string
			limit   core.Limit
			allowed bool
		}{{"rate", core.PerSecond(0), false}, {"burst", core.PerSecond(10).WithBurst(0), true}} {
			d := must.Get(limiter.Take(t.Context(), core.Claim{Rule: test.rule, Key: "k", Limits: []core.Limit{test.limit}}))(t)
			expect.Equal(t, d.Allowed, test.allowed, "after: a %s of 0: %+v", test.rule, d)
		}
	})
}

// 10 per 3 hours, so that none comes back while the test runs: after 10 jobs the next one has to wait for up to 18 minutes.
func TestFractions(t *testing.T) {
	server := redistest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		client := server.Client(t)
		limiter := must.Get(newLimiter(client))(t)
		old := redis_rate.NewLimiter(client)
		limit := redis_rate.Limit{Rate: 10, Burst: 10, Period: 3 * time.Hour}
		claim := core.Claim{Rule: "slow", Key: "k", Limits: []core.Limit{core.Every(10, 3*time.Hour)}}
		for i := range 11 {
			res := must.Get(old.Allow(t.Context(), "k", limit))(t)
			d := must.Get(limiter.Take(t.Context(), claim))(t)
			expect.True(t, (res.Allowed == 1) == (i < 10) && d.Allowed == (i < 10),
				"job %d: %d before, %v after", i, res.Allowed, d.Allowed)
			if i < 10 && (res.RetryAfter != -1 || d.RetryAfter() != 0) {
				t.Errorf("job %d: RetryAfter %v before, %v after, want -1 and 0", i, res.RetryAfter, d.RetryAfter())
			}
			if i == 10 && (max(res.RetryAfter, d.RetryAfter()) > 18*time.Minute || min(res.RetryAfter, d.RetryAfter()) < time.Minute) {
				t.Errorf("RetryAfter %v before, %v after, want nearly 18m", res.RetryAfter, d.RetryAfter())
			}
		}
	})
}
