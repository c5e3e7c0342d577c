package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// observed returns a Telemetry and an observation of one request.
func observed(allowed bool) (*Telemetry, *core.Observation) {
	limit := core.PerMinute(100)
	claim := core.Claim{Rule: "api", Key: "ip:203.0.113.9", Limits: []core.Limit{limit}, Cost: 1}
	result := core.Result{Rule: "api", Limit: limit, Allowed: allowed, Remaining: 50, RetryAfter: time.Second}
	o := &core.Observation{Claims: []core.Claim{claim}}
	o.Decision = core.Decision{Allowed: allowed, At: time.Now(), Results: []core.Result{result}}
	return New(Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}), o
}

func TestObserveDoesNotAllocate(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		tel, o := observed(allowed)
		n := testing.AllocsPerRun(1000, func() { tel.Observe(context.Background(), o) })
		expect.Equal(t, n, 0, "allowed %v: allocations", allowed)
	}
	for _, isOverridden := range []bool{false, true} {
		checkNewKeys(t, isOverridden)
	}
}

// checkNewKeys checks that Observe does not allocate for new keys once the table of keys is full.
func checkNewKeys(t *testing.T, isOverridden bool) {
	t.Helper()
	tel, o := observed(isOverridden)
	o.Claims[0].Overridden = isOverridden
	keys := make([]string, 1<<12)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	i := 0
	observe := func() {
		o.Claims[0].Key = keys[i%len(keys)]
		i++
		tel.Observe(context.Background(), o)
	}
	for range keys { // fills the table of keys
		observe()
	}
	expect.Equal(t, testing.AllocsPerRun(len(keys), observe), 0, "new keys, overridden %v: allocations", isOverridden)
}
