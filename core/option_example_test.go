package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/spillgate/spillgate/core"
)

var ctx = context.Background()

// Two limiters that share a store share the limits of rules of the same name.
func ExampleWithStore() {
	store := &core.MemoryStore{MaxKeys: 100_000}
	rules := []core.Rule{core.PerMinute(2).By(byUser)}
	one := core.Must(core.New(rules, core.WithStore(store)))
	other := core.Must(core.New(rules, core.WithStore(store)))
	for _, limiter := range []*core.Limiter{one, other, one} {
		d, _ := limiter.Check(requestOf("ann", "/"))
		fmt.Println(d.Allowed)
	}
	// Output:
	// true
	// true
	// false
}

// away is a store that is down.
type away struct{ core.MemoryStore }

func (*away) Take(context.Context, []core.Claim, []core.Result) ([]core.Result, error) {
	return nil, errors.New("no route to host")
}

// While the store is down, rules with FailLocal are enforced by the fallback. One that several limiters share makes them
// enforce their limits together.
func ExampleWithFallback() {
	fallback := &core.MemoryStore{MaxKeys: 10_000}
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(1).By(byUser)},
		core.WithStore(new(away)), core.WithFallback(fallback), core.WithLogger(slog.New(slog.DiscardHandler))))
	for range 2 {
		d, err := limiter.Check(requestOf("ann", "/"))
		fmt.Println(d.Allowed, err, d.Degraded)
	}
	// Output:
	// true <nil> spillgate: store unavailable: no route to host
	// false <nil> spillgate: store unavailable: no route to host
}

// Probes of the load balancer are not limited.
func ExampleWithSkip() {
	probe := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(0).By(byUser)}, core.WithSkip(probe)))
	for _, path := range []string{"/", "/healthz"} {
		d, _ := limiter.Check(requestOf("ann", path))
		fmt.Println(path, d.Allowed)
	}
	// Output:
	// / false
	// /healthz true
}

// Preflights are not limited where a CORS middleware behind the limiter answers them.
func ExamplePreflight() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(byUser)}, core.WithSkip(core.Preflight)))
	r := httptest.NewRequest(http.MethodOptions, "/", nil)
	r.Header.Set("Origin", "https://example.com")
	r.Header.Set("Access-Control-Request-Method", "POST")
	d, err := limiter.Check(r) // has no X-User
	fmt.Println(d.Allowed, err)
	// Output: true <nil>
}

// An observer must not block. Package telemetry has one that counts.
func ExampleWithObserver() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(1).By(byUser)},
		core.WithObserver(func(_ context.Context, o *core.Observation) {
			fmt.Println(o.Claims[0].Key, o.Allowed)
		})))
	for range 2 {
		_, _ = limiter.Check(requestOf("ann", "/"))
	}
	// Output:
	// user:ann true
	// user:ann false
}

func ExampleWithLogger() {
	text := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(byUser)}, core.WithLogger(slog.New(text))))
	_, _ = limiter.Check(httptest.NewRequest("GET", "/", nil))
	// Output: level=WARN msg="spillgate: request not decided" rule=default err="spillgate: rule \"default\": header X-User: no key"
}

// A store in another region may need longer than the 50ms that a decision waits by default.
func ExampleWithTimeout() {
	_, err := core.New([]core.Rule{core.PerMinute(100).By(byUser)}, core.WithTimeout(200*time.Millisecond))
	fmt.Println(err)
	_, err = core.New([]core.Rule{core.PerMinute(100).By(byUser)}, core.WithTimeout(0))
	fmt.Println(err)
	// Output:
	// <nil>
	// spillgate: WithTimeout: timeout must be positive, got 0s
}
