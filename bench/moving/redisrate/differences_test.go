// Package redisrate checks what docs/moving/redis_rate.md says.
package redisrate

import (
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
)

func TestBothAdmitTheSameNumber(t *testing.T) {
	client := redistest.Start(t).Client(t)
	limiter, err := newLimiter(client)
	if err != nil {
		t.Fatal(err)
	}
	for name, charge := range map[string]func() (time.Duration, error){
		"before": func() (time.Duration, error) { return before(t.Context(), client, "7") },
		"after":  func() (time.Duration, error) { return after(t.Context(), limiter, "7") },
	} {
		for n := 0; ; n++ {
			wait, err := charge()
			if err != nil || n > 10_000 {
				t.Fatalf("%s: %d: %v", name, n, err)
			}
			if wait == 0 {
				continue
			}
			if n < 10 || wait > 100*time.Millisecond {
				t.Errorf("%s: refused after %d, wait %v; want 10 or more and at most 100ms", name, n, wait)
			}
			break
		}
	}
}

// A cost above the burst never fits. redis_rate says to wait all the same.
func TestACostAboveTheBurst(t *testing.T) {
	client := redistest.Start(t).Client(t)
	res, err := redis_rate.NewLimiter(client).AllowN(t.Context(), "k", redis_rate.PerSecond(10), 20)
	if err != nil || res.Allowed != 0 || res.RetryAfter <= 0 {
		t.Errorf("before: %+v, %v", res, err)
	}
	limiter, err := newLimiter(client)
	if err != nil {
		t.Fatal(err)
	}
	d, err := limiter.Take(t.Context(), core.Claim{Rule: "jobs", Key: "k", Cost: 20})
	if err != nil || d.Allowed || d.RetryAfter() != core.Never {
		t.Errorf("after: %+v, %v", d, err)
	}
}

func TestRedisIsDown(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	limiter, err := newLimiter(client)
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if _, err := before(t.Context(), client, "7"); err == nil {
		t.Error("before: no error")
	}
	d, err := limiter.Take(t.Context(), core.Claim{Rule: "jobs", Key: "project:7"})
	if err != nil || !d.Allowed || d.Degraded == nil {
		t.Errorf("after: %+v, %v", d, err)
	}
}
