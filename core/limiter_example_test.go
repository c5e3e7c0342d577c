package core_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
