package spillgate_test

import (
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/telemetry"
)

// Many rules, all in one limiter.
func Example() {
	ip, err := keyfunc.NewClientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	user := keyfunc.First(keyfunc.APIKey("X-Api-Key"), ip)
	login := core.Rule{
		Name:   "login",
		Key:    keyfunc.RemoteIP,
		Limits: core.MustParseLimits("5/m"),
		Routes: []string{"POST /login"},
	}
	route := core.Rule{
		Name:   "route",
		Key:    keyfunc.Join(keyfunc.RemoteIP, keyfunc.Pattern),
		Limits: []core.Limit{core.PerMinute(60)},
	}
	api := core.Rule{
		Name:   "api",
		Key:    user,
		Limits: []core.Limit{core.PerSecond(10), core.PerMinute(120), core.PerHour(240)},
	}
	plan := core.Rule{
		Name:   "plan",
		Key:    user,
		Limits: []core.Limit{core.PerDay(1000)},
		Tier: func(r *http.Request) []core.Limit {
			if r.Header.Get("X-Plan") == "pro" { // set by the gateway
				return []core.Limit{core.PerDay(100_000)}
			}
			return nil // Limits
		},
		Cost: func(r *http.Request) int {
			if core.RoutePattern(r) == "/export" { // however the path is written
				return 25
			}
			return 1
		},
	}
	limiter := core.Must(core.New([]core.Rule{login, route, api, plan}))
	limit := stdlib.New(limiter, stdlib.WithHeaders(headers.Join(headers.GitHub, headers.IETF)))

	mux := http.NewServeMux()
	mux.HandleFunc("/export", func(http.ResponseWriter, *http.Request) {})
	w := httptest.NewRecorder()
	limit(mux).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/export", nil))
	fmt.Println(w.Code, w.Header().Get("X-RateLimit-Resource"), w.Header().Get("X-RateLimit-Remaining"))
	fmt.Println(w.Header().Get("RateLimit"))
	// Output:
	// 200 api 9
	// "route";r=59;t=1,"api-1s";r=9;t=1,"api-1m";r=119;t=1,"api-1h";r=239;t=15,"plan";r=975;t=87
}

// Rules whose requests are charged when their responses have ended.
func Example_afterTheResponse() {
	ip, user := keyfunc.RemoteIP, keyfunc.APIKey("X-Api-Key")
	login := core.Rule{
		Name:      "login",
		Key:       ip,
		Routes:    []string{"POST /login"},
		Limits:    core.MustParseLimits("5/10m;ban=1h"),
		CostAfter: core.Failures, // a right password is free
	}
	tokens := core.Rule{
		Name:      "tokens",
		Key:       user,
		Routes:    []string{"POST /v1/chat"},
		Limits:    []core.Limit{core.PerMinute(100_000)},
		Cost:      func(*http.Request) int { return 2_000 },                    // held until the response has ended
		CostAfter: func(_ *http.Request, o core.Outcome) int { return o.Cost }, // the cost that the handler has set by core.SetCost
	}
	uploads := core.Rule{
		Name:   "uploads",
		Key:    user,
		Routes: []string{"POST /uploads"},
		Limits: []core.Limit{core.AtOnce(2), core.PerHour(60)},
	}
	limiter := core.Must(core.New([]core.Rule{login, tokens, uploads}))

	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat", func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("held:", core.SetCost(r.Context(), "tokens", 58))
	})
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/chat", nil)
	r.Header.Set("X-Api-Key", "correct horse battery staple")
	stdlib.New(limiter)(mux).ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("X-RateLimit-Used"))
	// Output:
	// held: true
	// 200 2000
}

// The program of the package comment.
func Example_program() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("hello\n")) })

	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", stdlib.New(limiter)(mux)))
}

// Limits shared by all processes that talk to one Redis.
func Example_redis() {
	rules := []core.Rule{{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerMinute(100)}}}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	limiter, err := core.New(rules, core.WithStore(redisstore.New(client)))
	if err != nil {
		fmt.Println(err)
		return
	}
	http.Handle("/", stdlib.New(limiter)(http.NotFoundHandler()))
}

// Counts of a limiter, and a page that shows them.
func Example_telemetry() {
	rules := []core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}
	admin := http.NewServeMux()
	counts := telemetry.New(telemetry.Options{Log: slog.Default()})
	limiter, err := core.New(rules, core.WithObserver(counts.Observe))
	counts.Attach(limiter)
	admin.Handle("/limits/", dashboard.New(counts))

	d, err2 := limiter.Check(httptest.NewRequest(http.MethodGet, "/", nil))
	page := httptest.NewRecorder()
	admin.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "http://localhost/limits/", nil))
	fmt.Println(d.Allowed, counts.Snapshot().Requests[0].Count, page.Code, err, err2)
	// Output: true 1 200 <nil> <nil>
}

// The snippets of README.md.
func Example_readme() {
	user := keyfunc.APIKey("X-Api-Key")
	login := core.Rule{
		Name: "login", Key: keyfunc.RemoteIP, Routes: []string{"POST /login"},
		Limits: core.MustParseLimits("5/10m;ban=1h, 20/d"), CostAfter: core.Failures,
	}

	tokens := core.PerMinute(100_000).By(user)
	tokens.Name, tokens.Cost = "tokens", func(*http.Request) int { return 2_000 }
	tokens.CostAfter = func(_ *http.Request, o core.Outcome) int { return o.Cost }
	// in the handler: core.SetCost(r.Context(), "tokens", used)
	tokens.Routes = []string{"POST /v1/chat"}

	uploads := core.Rule{
		Name: "uploads", Key: user, Routes: []string{"POST /uploads"},
		Limits: core.MustParseLimits("2 at once, 60/h"),
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	mux.HandleFunc("POST /v1/chat", func(_ http.ResponseWriter, r *http.Request) { core.SetCost(r.Context(), "tokens", 58) })
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	store := &core.MemoryStore{Now: func() time.Time { return noon }} // no token refills in the meantime
	limit := stdlib.New(core.Must(core.New([]core.Rule{login, tokens, uploads}, core.WithStore(store))))
	send := func(path string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil)
		r.Header.Set("X-Api-Key", "correct horse battery staple")
		limit(mux).ServeHTTP(w, r)
		return w
	}
	for range 6 {
		fmt.Print(send("/login").Code, " ")
	}
	send("/v1/chat")
	fmt.Println(send("/v1/chat").Header().Get("X-RateLimit-Used"), "tokens")
	// Output: 401 401 401 401 401 429 2058 tokens
}
