package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/telemetry"
)

// observed returns a limiter of 2 requests per hour and a Telemetry that has seen n requests of one client.
func observed(n int) (*core.Limiter, *telemetry.Telemetry) {
	t := telemetry.New(telemetry.Options{})
	rule := core.Rule{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(2)}}
	limiter := core.Must(core.New([]core.Rule{rule}, core.WithObserver(t.Observe)))
	t.Attach(limiter)
	for range n {
		_, _ = limiter.Check(httptest.NewRequest("GET", "/", nil))
	}
	return limiter, t
}

func ExampleNew() {
	t := telemetry.New(telemetry.Options{Log: slog.New(slog.DiscardHandler)})
	limiter, err := core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}, core.WithObserver(t.Observe))
	if err != nil {
		fmt.Println(err)
		return
	}
	t.Attach(limiter) // for its rules and the health of its store
	defer t.Flush()   // writes the pending lines of the log
	fmt.Println(len(t.Limiters()))
	// Output: 1
}

func ExampleTelemetry_Snapshot() {
	_, t := observed(5)
	s := t.Snapshot()
	for _, r := range s.Requests {
		if r.Count > 0 {
			fmt.Println(r.Outcome, r.Count)
		}
	}
	// Output:
	// allowed 2
	// denied 3
}

// The keys that were denied most often. They are masked, and FindKey finds them.
func ExampleTelemetry_Top() {
	_, t := observed(5)
	for _, row := range t.Top("api", 10) {
		key, ok := t.FindKey("api", row.ID)
		fmt.Println(row.Key, row.Count, key, ok)
	}
	// Output: ip:192.0.2.0/24 3 ip:192.0.2.1 true
}

// Overridden lists the keys with their own limits. Grants lists what support has granted.
func ExampleTelemetry_Overridden() {
	t := telemetry.New(telemetry.Options{Unmask: true})
	partner := func(string) []core.Limit { return []core.Limit{core.PerMonth(1_000_000)} }
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerMonth(100)}, Override: partner}}, core.WithObserver(t.Observe)))
	t.Attach(limiter)
	_, _ = limiter.Take(context.Background(), core.Claim{Rule: "plan", Key: "user:partner"})
	for _, row := range t.Overridden("plan", 10) {
		fmt.Println(row.Key, row.Limits, row.Count)
	}
	// Output: user:partner 1000000/month 1
}

// Keys are shown unmasked only if Options.Unmask is set.
func ExampleTelemetry_Grants() {
	t := telemetry.New(telemetry.Options{})
	limiter := core.Must(core.New([]core.Rule{{Name: "plan", Limits: []core.Limit{core.PerMonth(100)}}}))
	t.Attach(limiter)
	_ = limiter.Grant(context.Background(), "plan", "ip:203.0.113.9", 50)
	for _, g := range t.Grants(10) {
		fmt.Println(g.Rule, g.Key, g.Requests)
	}
	// Output: plan ip:203.0.113.0/24 50
}

// Recent returns the decisions of a rule in each of the last seconds.
func ExampleTelemetry_Recent() {
	_, t := observed(5)
	allowed, denied := 0, 0
	for _, second := range t.Recent("api", 60) {
		allowed, denied = allowed+second.Allowed, denied+second.Denied
	}
	fmt.Println(allowed, denied)
	// Output: 2 3
}

// The same for the last hour.
func ExampleTelemetry_History() {
	_, t := observed(5)
	denied := 0
	for _, second := range t.History("api") {
		denied += second.Denied
	}
	fmt.Println(denied)
	// Output: 3
}

// Another observer gets the same observations as t.
func ExampleTelemetry_Forward() {
	limiter, t := observed(0)
	t.Forward(func(_ context.Context, o *core.Observation) { fmt.Println(telemetry.OutcomeOf(o)) })
	_, _ = limiter.Check(httptest.NewRequest("GET", "/", nil))
	// Output: allowed
}

func ExampleOutcomeOf() {
	o := &core.Observation{Err: core.ErrNoKey}
	fmt.Println(telemetry.OutcomeOf(o))
	// Output: no_key
}

// It has the signature of rulefile.Options.Report, so that the page can show the active file.
func ExampleTelemetry_FileLoaded() {
	_, t := observed(0)
	t.FileLoaded("spillgate.yaml", "9f86d081", nil)
	t.FileLoaded("spillgate.yaml", "9f86d081", errors.New("spillgate.yaml:4:5: unknown field"))
	file := t.Snapshot().File
	fmt.Println(file.Hash, file.Loads, file.Failures)
	// Output: 9f86d081 1 1
}
