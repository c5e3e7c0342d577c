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
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// The decision says what each limit has left, and headers show the tightest.
func ExampleDecision_Tightest() {
	limiter := core.Must(core.New([]core.Rule{{Key: byUser, Limits: core.MustParseLimits("5/s, 100/h")}}))
	d, _ := limiter.Check(requestOf("ann", "/"))
	tightest, _ := d.Tightest()
	fmt.Println(tightest.Limit, tightest.Remaining)
	// Output: 5/1s 4
}

func ExampleDecision_RetryAfter() {
	limiter := core.Must(core.New([]core.Rule{core.PerHour(1).By(byUser)}))
	for _, cost := range []int{1, 1, 2} {
		d, _ := limiter.Take(ctx, core.Claim{Key: "user:ann", Cost: cost})
		wait := d.RetryAfter()
		fmt.Println(d.Allowed, wait == core.Never, wait.Round(time.Minute))
	}
	// Output:
	// true false 0s
	// false false 1h0m0s
	// false true 2562047h47m0s
}

// A deny handler logs whose request it was.
func ExampleDecision_Key() {
	limiter := core.Must(core.New([]core.Rule{{Name: "login", Key: byUser, Limits: core.MustParseLimits("0/s")}}))
	deny := stdlib.WithDenyHandler(func(w http.ResponseWriter, _ *http.Request, d core.Decision) {
		user, _ := d.Key("login")
		fmt.Println("denied:", user)
		http.Error(w, "Come back later.", http.StatusTooManyRequests)
	})
	stdlib.New(limiter, deny)(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), requestOf("ann", "/"))
	// Output: denied: user:ann
}

// Peek returns what would remain, without charging.
func ExampleLimiter_Peek() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(5).By(byUser)}))
	for range 2 {
		d, _ := limiter.Peek(requestOf("ann", "/"))
		fmt.Println(d.Results[0].Remaining)
	}
	// Output:
	// 5
	// 5
}

// A job that failed costs nothing.
func ExampleLimiter_Refund() {
	limiter := core.Must(core.New([]core.Rule{core.PerDay(10).By(byUser)}))
	d, _ := limiter.Take(ctx, core.Claim{Key: "user:ann", Cost: 4})
	fmt.Println(d.Results[0].Remaining)

	err := limiter.Refund(ctx, d)
	d, _ = limiter.Take(ctx, core.Claim{Key: "user:ann", Peek: true})
	fmt.Println(d.Results[0].Remaining, err)
	// Output:
	// 6
	// 10 <nil>
}

// A charge is replaced by what the job cost in the end.
func ExampleLimiter_Settle() {
	limiter := core.Must(core.New([]core.Rule{core.PerDay(10).By(byUser)}))
	d, _ := limiter.Take(ctx, core.Claim{Key: "user:ann", Cost: 4})
	err := limiter.Settle(ctx, d, "default", 1)
	d, _ = limiter.Take(ctx, core.Claim{Key: "user:ann", Peek: true})
	fmt.Println(d.Results[0].Remaining, err)
	// Output: 9 <nil>
}

// A job that may take longer than a minute renews what it holds. Requests that an adapter holds are renewed by themselves.
func ExampleLimiter_Renew() {
	limiter := core.Must(core.New([]core.Rule{core.AtOnce(1).By(byUser)}))
	d, _ := limiter.Take(ctx, core.Claim{Key: "user:ann", Hold: true})
	steps := []func(){func() {}, func() {}} // of less than a minute
	for _, step := range steps {
		step()
		if err := limiter.Renew(ctx, d); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(limiter.Settle(ctx, d, "", 1))
	// Output: <nil>
}

func ExampleLimiter_Reset() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(1).By(byUser)}))
	_, _ = limiter.Check(requestOf("ann", "/"))
	err := limiter.Reset(ctx, "default", "user:ann")
	d, _ := limiter.Check(requestOf("ann", "/"))
	fmt.Println(d.Allowed, err)
	// Output: true <nil>
}

func ExampleLimiter_Ban() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(byUser)}))
	err := limiter.Ban(ctx, "default", "user:ann", time.Hour)
	d, _ := limiter.Check(requestOf("ann", "/"))
	fmt.Println(d.Allowed, d.RetryAfter().Round(time.Minute), err)
	// Output: false 1h0m0s <nil>
}

// Package rulefile does this when a file changes.
func ExampleLimiter_SetRules() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(byUser)}))
	_, _ = limiter.Check(requestOf("ann", "/"))

	err := limiter.SetRules([]core.Rule{core.PerMinute(100).By(byUser)})
	d, _ := limiter.Check(requestOf("ann", "/"))
	fmt.Println(d.Results[0].Limit, d.Results[0].Remaining, err)
	// Output: 100/1m 98 <nil>
}

func ExampleLimiter_Rules() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(byUser)}))
	for _, rule := range limiter.Rules() {
		fmt.Println(rule.Name, rule.Limits)
	}
	// Output: default [10/1m]
}

func ExampleLimiter_StoreHealth() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(10).By(byUser)}))
	_, _ = limiter.Check(requestOf("ann", "/"))
	health := limiter.StoreHealth()
	fmt.Println(health.Down, health.Err, health.Keys)
	// Output: false <nil> 1
}

// Only failed logins count.
func ExampleFailures() {
	rule := core.Rule{Name: "login", Key: byUser, Limits: []core.Limit{core.PerHour(3)}, CostAfter: core.Failures}
	limiter := core.Must(core.New([]core.Rule{rule}))
	status := http.StatusNoContent
	login := stdlib.New(limiter)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	for range 100 {
		login.ServeHTTP(httptest.NewRecorder(), requestOf("ann", "/login"))
	}
	status = http.StatusUnauthorized
	login.ServeHTTP(httptest.NewRecorder(), requestOf("ann", "/login"))
	d, _ := limiter.Peek(requestOf("ann", "/login"))
	fmt.Println(d.Results[0].Remaining)
	// Output: 2
}

// A handler says what a request has cost.
func ExampleSetCost() {
	limiter := core.Must(core.New([]core.Rule{{
		Name: "tokens", Key: byUser, Limits: []core.Limit{core.PerHour(1000)},
		Cost:      func(*http.Request) int { return 200 }, // held until the response has ended
		CostAfter: func(_ *http.Request, o core.Outcome) int { return o.Cost },
	}}))
	chat := stdlib.New(limiter)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		core.SetCost(r.Context(), "tokens", 58)
	}))
	chat.ServeHTTP(httptest.NewRecorder(), requestOf("ann", "/chat"))
	d, _ := limiter.Peek(requestOf("ann", "/chat"))
	fmt.Println(d.Results[0].Remaining)
	// Output: 942
}

// A cost that depends on the route, which the adapter of the router knows.
func ExampleRoutePattern() {
	cost := func(r *http.Request) int {
		if core.RoutePattern(r) == "/export/{id}" {
			return 25
		}
		return 1
	}
	limiter := core.Must(core.New([]core.Rule{{Key: byUser, Limits: []core.Limit{core.PerHour(100)}, Cost: cost}}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /export/{id}", func(http.ResponseWriter, *http.Request) {})
	w := httptest.NewRecorder()
	stdlib.New(limiter)(mux).ServeHTTP(w, requestOf("ann", "/export/7"))
	fmt.Println(w.Header().Get("X-RateLimit-Remaining"))
	// Output: 75
}

// A replay decides by the clock of its log.
func ExampleMemoryStore() {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	store := &core.MemoryStore{Now: func() time.Time { return now }}
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(1).By(byUser)}, core.WithStore(store)))
	for range 3 {
		d, _ := limiter.Check(requestOf("ann", "/"))
		fmt.Println(now.Format(time.TimeOnly), d.Allowed)
		now = now.Add(30 * time.Second)
	}
	fmt.Println(store.Stats().Keys)
	// Output:
	// 12:00:00 true
	// 12:00:30 false
	// 12:01:00 true
	// 1
}

// Two token buckets of the same rate: one admits a minute's requests at once, the other five.
func ExamplePerMinute() {
	fmt.Println(core.PerMinute(60).Capacity(), core.PerMinute(60).WithBurst(5).Capacity())
	// Output: 60 5
}

// A token bucket begins full and refills all day. A plan that promises 1,000 a day is a fixed window.
func ExamplePerDay() {
	fmt.Println(core.PerDay(1000), "admits up to 1999 on the first day")
	fmt.Println(core.PerDay(1000).Using(core.FixedWindow), "admits 1000 from midnight to midnight, UTC")
	// Output:
	// 1000/1d admits up to 1999 on the first day
	// 1000/1d;fixed-window admits 1000 from midnight to midnight, UTC
}

func ExamplePerSecond() {
	fmt.Println(core.PerSecond(10), core.PerSecond(10).WithBurst(100))
	// Output: 10/1s 10/1s;burst=100
}

func ExamplePerHour() {
	fmt.Println(core.PerHour(240).Using(core.SlidingWindow))
	// Output: 240/1h;sliding-window
}

func ExampleEvery() {
	fmt.Println(core.Every(5, 15*time.Minute).Using(core.SlidingLog))
	// Output: 5/15m;sliding-log
}

// At most two requests of a user are in flight. Each holds its place until its response has ended.
func ExampleAtOnce() {
	limiter := core.Must(core.New([]core.Rule{core.AtOnce(2).By(byUser)}))
	hold := core.Claim{Key: "user:ann", Hold: true}
	first, _ := limiter.Take(ctx, hold)
	second, _ := limiter.Take(ctx, hold)
	third, _ := limiter.Take(ctx, hold)
	fmt.Println(first.Allowed, second.Allowed, third.Allowed)

	_ = limiter.Settle(ctx, first, "", 1)
	fourth, _ := limiter.Take(ctx, hold)
	fmt.Println(fourth.Allowed)
	// Output:
	// true true false
	// true
}

// A rule that has nothing else to say.
func ExampleLimit_By() {
	rule := core.PerMinute(100).By(byUser)
	rule.Name = "api"
	fmt.Println(rule.Name, rule.Limits)
	// Output: api [100/1m]
}

func ExampleLimit_WithBurst() {
	limit := core.PerMinute(60).WithBurst(10)
	fmt.Println(limit, limit.Capacity())
	// Output: 60/1m;burst=10 10
}

func ExampleLimit_Using() {
	fmt.Println(core.PerMinute(60).Using(core.SlidingWindow))
	// Output: 60/1m;sliding-window
}

// String writes what ParseLimits reads.
func ExampleLimit_String() {
	limit := core.Limit{Rate: 5, Period: 10 * time.Minute, Ban: time.Hour}
	again, err := core.ParseLimits(limit.String())
	fmt.Println(limit, again[0] == limit, err)
	// Output: 5/10m;ban=1h true <nil>
}

func ExampleLimit_Validate() {
	fmt.Println(core.Limit{Rate: 5}.Validate())
	// Output: spillgate: period must be at least 1ms, got 0s
}

func ExampleMustParseLimits() {
	login := core.Rule{Name: "login", Key: byUser, Limits: core.MustParseLimits("5/10m;ban=1h, 20/d")}
	fmt.Println(login.Limits)
	// Output: [5/10m;ban=1h 20/1d]
}

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
