package core_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// byUser is a key func for the examples. Applications use the key funcs of package keyfunc.
func byUser(r *http.Request) (string, error) {
	user := r.Header.Get("X-User")
	if user == "" {
		return "", fmt.Errorf("header X-User: %w", core.ErrNoKey)
	}
	return "user:" + user, nil
}

func requestOf(user, path string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("X-User", user)
	return r
}

// user identifies the sender of a request. Package keyfunc has key funcs for addresses, API keys and more.
func user(r *http.Request) (string, error) {
	name, _, ok := r.BasicAuth()
	if !ok {
		return "", core.ErrNoKey
	}
	return "user:" + name, nil
}

// The program of the package comment.
func Example_program() {
	limiter := core.Must(core.New([]core.Rule{
		{Name: "api", Key: user, Limits: []core.Limit{core.PerSecond(10), core.PerMinute(120)}},
		{Name: "login", Key: user, Limits: core.MustParseLimits("5/10m"), Routes: []string{"POST /login"}},
	}))
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d, err := limiter.Check(r)
		switch {
		case errors.Is(err, core.ErrNoKey):
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case err != nil:
			http.Error(w, "cannot decide", http.StatusServiceUnavailable)
		case !d.Allowed:
			http.Error(w, "retry after "+d.RetryAfter().String(), http.StatusTooManyRequests)
		default:
			_, _ = w.Write([]byte("hello\n"))
		}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}

func Example() {
	limiter := core.Must(core.New([]core.Rule{core.PerHour(2).By(byUser)}))

	for range 3 {
		d, err := limiter.Check(requestOf("ann", "/"))
		if err != nil {
			fmt.Println(err)
			return
		}
		result, _ := d.Tightest()
		fmt.Println(d.Allowed, result.Remaining, result.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 30m0s
}

func ExampleNew() {
	isHealthCheck := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	limiter, err := core.New([]core.Rule{
		{Name: "api", Key: byUser, Limits: []core.Limit{core.PerSecond(10), core.PerMinute(120), core.PerHour(240)}},
		{Name: "login", Key: byUser, Limits: core.MustParseLimits("5/m"), Routes: []string{"/login"}, OnFailure: core.FailClosed},
	}, core.WithSkip(isHealthCheck))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/", "/login", "/healthz"} {
		d, _ := limiter.Check(requestOf("ann", path))
		fmt.Println(path, d.Allowed, len(d.Results))
	}
	// Output:
	// / true 3
	// /login true 4
	// /healthz true 0
}

func ExampleNew_mistakes() {
	_, err := core.New([]core.Rule{
		{Name: "login", Key: byUser, Limits: []core.Limit{{Rate: 5}}},
		{Name: "api", Key: byUser, Limits: []core.Limit{core.PerMinute(-1), core.PerDay(1)}, OnFailure: 3},
	})
	fmt.Println(err)
	// Output:
	// spillgate: rule "login": limit 1: period must be at least 1ms, got 0s
	// spillgate: rule "api": limit 1: rate must be between 0 and 1000000000, got -1
	// spillgate: rule "api": there is no failure mode 3; want FailLocal, FailOpen or FailClosed
}

func ExampleParseLimits() {
	limits, err := core.ParseLimits("10/s, 100/m;burst=20, 5/15m;sliding-log")
	fmt.Println(limits, err)

	_, err = core.ParseLimits("10/s, 100/fortnight")
	fmt.Println(err)
	// Output:
	// [10/1s 100/1m;burst=20 5/15m;sliding-log] <nil>
	// spillgate: limit "100/fortnight": period "fortnight" is not a duration, such as s, 15m, 500ms or day
}

// Reading and writing have different limits, and a large upload costs more.
func ExampleRule() {
	writes := func(r *http.Request) bool { return r.Method != http.MethodGet }
	perMegabyte := func(r *http.Request) int { return 1 + int(max(0, r.ContentLength)>>20) }
	limiter := core.Must(core.New([]core.Rule{
		{Name: "read", Key: byUser, Limits: []core.Limit{core.PerMinute(100)}},
		{Name: "write", Key: byUser, Limits: []core.Limit{core.PerHour(10)}, Match: writes, Cost: perMegabyte},
	}))
	r := requestOf("ann", "/upload")
	r.Method, r.ContentLength = "POST", 3<<20
	d, _ := limiter.Check(r)
	for _, result := range d.Results {
		fmt.Println(result.Rule, result.Remaining)
	}
	// Output:
	// read 99
	// write 6
}

// A tier takes the place of a rule's limits. What was used stays used.
func ExampleRule_tier() {
	pro := false
	limiter := core.Must(core.New([]core.Rule{{
		Key:    byUser,
		Limits: []core.Limit{core.PerDay(10)},
		Tier: func(*http.Request) []core.Limit {
			if pro {
				return []core.Limit{core.PerDay(1000)}
			}
			return nil
		},
	}}))
	d, _ := limiter.Check(requestOf("ann", "/"))
	fmt.Println(d.Results[0].Limit, d.Results[0].Remaining)

	pro = true
	d, _ = limiter.Check(requestOf("ann", "/"))
	fmt.Println(d.Results[0].Limit, d.Results[0].Remaining)
	// Output:
	// 10/1d 9
	// 1000/1d 998
}

// Tokens of a language model are known only after the answer: hold what it may cost, then say what it has cost.
func ExampleLimiter_Take() {
	ctx := context.Background()
	limiter := core.Must(core.New([]core.Rule{{Name: "tokens", Limits: []core.Limit{core.PerDay(1000)}}}))

	held, err := limiter.Take(ctx, core.Claim{Rule: "tokens", Key: "user:ann", Cost: 400, Hold: true})
	if err != nil || !held.Allowed {
		return
	}
	fmt.Println(held.Results[0].Remaining)
	if err := limiter.Settle(ctx, held, "tokens", 150); err != nil {
		return
	}
	d, _ := limiter.Take(ctx, core.Claim{Rule: "tokens", Key: "user:ann", Peek: true})
	fmt.Println(d.Results[0].Remaining)
	// Output:
	// 600
	// 850
}

func ExampleFromContext() {
	handler := func(_ http.ResponseWriter, r *http.Request) {
		d, ok := core.FromContext(r.Context())
		fmt.Println(ok, d.Results[0].Remaining)
	}
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(5).By(byUser)}))

	r := requestOf("ann", "/") // what an adapter does:
	d, _ := limiter.Check(r)
	handler(nil, r.WithContext(core.NewContext(r.Context(), d)))
	// Output: true 4
}

func ExampleLimiter_Check_noKey() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(5).By(byUser)}))
	_, err := limiter.Check(httptest.NewRequest("GET", "/", nil))
	fmt.Println(errors.Is(err, core.ErrNoKey), strings.HasPrefix(err.Error(), "spillgate: "))
	// Output: true true
}
