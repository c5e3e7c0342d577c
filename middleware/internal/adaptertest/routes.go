package adaptertest

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// testRoutes checks the ways to limit routes separately: a limiter of a route, Match, Pattern, and separate rules for reads and writes.
func testRoutes(t *testing.T, a Adapter) {
	perHour := func(n int) []core.Limit { return []core.Limit{core.PerHour(n).Using(core.SlidingLog)} }
	memory := func(rules ...core.Rule) []Guard {
		return []Guard{{Limiter: newLimiter(new(core.MemoryStore), rules...)}}
	}
	reads := func(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }
	writes := func(r *http.Request) bool { return !reads(r) }
	isLogin := func(r *http.Request) bool { return r.URL.Path == "/login" }
	login := Route{Pattern: "/login", Handler: ok}
	guardedLogin := Route{Pattern: "/login", Guards: memory(core.Rule{Key: anyone, Limits: perHour(1)}), Handler: ok}
	user := Route{Pattern: "/users/{id}", Handler: ok}

	for _, row := range []struct {
		why    string
		app    App
		passes []string // requests that are admitted once and then denied
		free   []string // requests that are never denied
	}{
		{"a limiter of a route is asked for that route alone", App{Routes: []Route{guardedLogin, user}}, []string{"GET /login"}, []string{"GET /users/1"}},
		{"Match picks requests", App{Guards: memory(core.Rule{Key: anyone, Limits: perHour(1), Match: isLogin}), Routes: []Route{login, user}},
			[]string{"POST /login"}, []string{"POST /users/1"}},
		{"Pattern counts each route by itself, whatever its method and parameters", App{Guards: memory(core.Rule{Key: keyfunc.Pattern, Limits: perHour(2)}), Routes: []Route{login, user}},
			[]string{"GET /login", "POST /login", "GET /users/1", "POST /users/2"}, nil},
		{"Join of Method and Pattern counts each method of a route by itself", App{Guards: memory(core.Rule{Key: keyfunc.Join(keyfunc.Method, keyfunc.Pattern), Limits: perHour(1)}), Routes: []Route{login, user}},
			[]string{"GET /login", "POST /login", "GET /users/1", "POST /users/2"}, nil},
		{"reading and writing have rules of their own", App{Guards: memory(core.Rule{Name: "reads", Key: anyone, Limits: perHour(2), Match: reads},
			core.Rule{Name: "writes", Key: anyone, Limits: perHour(1), Match: writes}), Routes: []Route{login}},
			[]string{"GET /login", "HEAD /login", "POST /login"}, nil},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := a.serve(t, row.app)
			for round, status := range []int{200, 429} {
				s.wantStatuses(t, round, row.passes, status)
				s.wantStatuses(t, round, row.free, 200)
			}
		})
	}
}

func (s *server) wantStatuses(t *testing.T, round int, requests []string, status int) {
	for _, request := range requests {
		expect.Equal(t, s.request(request).StatusCode, status, "round %d: %s: status", round+1, request)
	}
}

// A patternServer counts requests by the pattern of their route.
type patternServer struct {
	*server
	store     *script
	inHandler string // the pattern that the last handler found
}

func (a Adapter) servePatterns(t *testing.T) *patternServer {
	p := &patternServer{store: &script{results: []core.Result{half}}}
	guard := Guard{Limiter: newLimiter(p.store, core.Rule{Key: keyfunc.Pattern, Limits: []core.Limit{perMinute}})}
	app := App{Guards: []Guard{guard}}
	for _, pattern := range []string{"/users", "/users/{id}", "/users/{id}/posts/{post}", "/api/v1/items/{item}"} {
		app.Routes = append(app.Routes, Route{Pattern: pattern, Handler: func(_ http.ResponseWriter, r *http.Request) { p.inHandler = core.RoutePattern(r) }})
	}
	p.server = a.serve(t, app)
	return p
}

// testPatterns checks the pattern that a key func finds for a request of a route.
func testPatterns(t *testing.T, a Adapter) {
	p := a.servePatterns(t)
	for request, want := range map[string]string{
		"GET /users":            "/users",
		"GET /users/42":         "/users/{id}",
		"GET /users/43?id=1":    "/users/{id}",
		"POST /users/42":        "/users/{id}",
		"HEAD /users/42":        "/users/{id}",
		"GET /users/a%20b":      "/users/{id}",
		"GET /users/42/posts/7": "/users/{id}/posts/{post}",
		"GET /api/v1/items/9":   "/api/v1/items/{item}",
	} {
		p.inHandler = ""
		p.request(request).wantStatus(t, 200)
		keys := p.store.asked()
		expect.True(t, slices.Equal(keys, []string{"route:" + want}), "%s: keys %q, want %q", request, keys, "route:"+want)
		expect.Equal(t, p.inHandler, want, "%s: the handler finds", request)
	}
}

// testUnknownPatterns checks that requests without a route, or with unknown methods, share one key, which contains no text
// from the client.
func testUnknownPatterns(t *testing.T, a Adapter) {
	p := a.servePatterns(t)
	for _, row := range []struct {
		one, other string
		routed     bool // some routers reject it before it reaches the guards
	}{
		{"GET /nowhere", "GET /nowhere/else", a.RoutedOnly},
		{"BREW /users/42", "STEEP /users/42", true},
	} {
		p.request(row.one)
		p.request(row.other)
		if keys := p.store.asked(); len(slices.Compact(keys)) > 1 || len(keys) == 0 && !row.routed {
			t.Errorf("%s and %s have the keys %q, want one", row.one, row.other, keys)
		}
	}
}

// cleaners change the path of a request as routers' middleware does.
var cleaners = map[string]func(*url.URL){
	"none":         func(*url.URL) {},
	"strip":        func(u *url.URL) { u.Path = cmp.Or(strings.TrimSuffix(u.Path, "/"), "/") },
	"clean":        func(u *url.URL) { u.Path = path.Clean(u.Path) },
	"decode":       func(u *url.URL) { u.RawPath = "" },
	"decode first": func(u *url.URL) { u.Path, u.RawPath = path.Clean(u.Path), "" },
}

// cleaning returns a middleware that changes the URL of a request.
func cleaning(change func(*url.URL)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			change(r.URL)
			next.ServeHTTP(w, r)
		})
	}
}

// serveTo sends h a request for a target, as a server reads it, and returns the status.
func serveTo(t *testing.T, h http.Handler, method, target string) int {
	r, w := httptest.NewRequest(method, "http://localhost/", nil), httptest.NewRecorder()
	r.URL = must.Get(url.ParseRequestURI(target))(t)
	h.ServeHTTP(w, r)
	return w.Code
}

// oddPaths are paths that a middleware may turn into "/login".
var oddPaths = []string{
	"/login", "/login/", "//login", "/login//", "//login/", "/x/../login", "/x/y/../../login", "/./login", "/x/..//login/.", "/../login",
	"/log%69n", "/log%69n/", "//log%69n", "/%6Cogin//", "/x%2F..%2Flogin", "/x/%2e%2e/login", "/x/..%2Flogin", "/%2Flogin", "/login%2F",
	"/login;x", "/login/;x", "/login%3B", "/login?x", "/login/?x#y", "/login/.", "/login/x/..",
}

// testOddPaths checks that logins are limited by their route's limit, however the path is written, and whether the
// server, the router or the limiter cleans it.
func testOddPaths(t *testing.T, a Adapter) {
	limit := []core.Limit{core.PerHour(1).Using(core.SlidingLog)}
	isLogin := func(r *http.Request) bool { return core.RoutePattern(r) == "/login" }
	for why, rule := range map[string]core.Rule{
		"Match":   {Key: anyone, Limits: limit, Match: isLogin},
		"Pattern": {Key: keyfunc.Pattern, Limits: limit},
	} {
		for name, change := range cleaners {
			for _, inside := range []bool{true, false} {
				logins := 0
				app := App{Guards: []Guard{{Limiter: newLimiter(new(core.MemoryStore), rule)}}, Routes: []Route{
					{Pattern: "/login", Handler: func(http.ResponseWriter, *http.Request) { logins++ }},
					{Pattern: "/{a}/{b}", Handler: ok}, {Pattern: "/{a}/{b}/{c}", Handler: ok},
				}}
				h := cleaning(change)(a.Build(app))
				if inside && name != "none" {
					app.Clean = cleaning(change)
				}
				if inside {
					h = a.Build(app)
				}
				for range 2 {
					for _, p := range oddPaths {
						serveTo(t, h, http.MethodPost, p)
					}
				}
				if logins > 1 || logins == 0 && name == "none" {
					t.Errorf("%s, cleaned by %s, inside %v: %d logins, want 1", why, name, inside, logins)
				}
			}
		}
	}
}

// testPreflight checks that core.Preflight skips only preflights.
func testPreflight(t *testing.T, a Adapter) {
	l := core.Must(core.New([]core.Rule{core.PerHour(1).By(anyone)}, core.WithSkip(core.Preflight)))
	s := a.serve(t, single(Guard{Limiter: l}))
	origin, method := "Origin: https://example.com", "Access-Control-Request-Method: POST"
	for range 2 {
		got := s.do(http.MethodOptions, "/", origin, method)
		got.wantStatus(t, 200)
		got.wantLimiting(t)
	}
	s.do(http.MethodOptions, "/", origin).wantStatus(t, 200)
	s.do(http.MethodOptions, "/", origin).wantStatus(t, 429)
	s.do(http.MethodGet, "/", origin, method).wantStatus(t, 429)
	s.do(http.MethodOptions, "/", origin, method).wantStatus(t, 200)
}

// A rerouted App has routes whose handlers make the App serve the request as a login. A limiter admits 5 logins per hour, and
// 1,000 of any kind.
type rerouted struct {
	*server
	limiter *core.Limiter
	logins  int // that the handler of "/login" has served
}

// serveRerouted serves the App with the limiter as one of its guards. Reroute is the handler of "/start" and "/v1/login"; it gets
// the App as again.
func (a Adapter) serveRerouted(t *testing.T, rules []core.Rule, reroute func(again http.Handler, w http.ResponseWriter, r *http.Request)) *rerouted {
	s := &rerouted{limiter: newLimiter(new(core.MemoryStore), rules...)}
	var again http.Handler
	handle := func(w http.ResponseWriter, r *http.Request) { reroute(again, w, r) }
	g := Guard{Limiter: s.limiter}
	app := a.Build(App{Guards: []Guard{g, {Limiter: counting(1000)}, g}, Routes: []Route{
		{Pattern: "/start", Handler: handle},
		{Pattern: "/v1/login", Handler: handle},
		{Pattern: "/login", Guards: []Guard{g}, Handler: func(w http.ResponseWriter, r *http.Request) {
			s.logins++
			ok(w, r)
		}},
	}})
	if again = app; a.Again != nil {
		again = a.Again(app)
	}
	s.server = serveHandler(t, app, false)
	return s
}

// apiAndLogin are the rules of a rerouted App, changed by edits.
func apiAndLogin(edits ...func(*core.Rule)) []core.Rule {
	api := core.Rule{Name: "api", Key: anyone, Limits: []core.Limit{core.PerHour(1000).Using(core.SlidingLog)}}
	login := core.Rule{Name: "login", Key: anyone, Limits: []core.Limit{core.PerHour(5).Using(core.SlidingLog)}, Routes: []string{"POST /login"}}
	for _, edit := range edits {
		edit(&api)
		edit(&login)
	}
	return []core.Rule{api, login}
}

// moved returns a copy of r for the login.
func moved(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.URL.Path = "/login"
	return r
}

// testRerouted checks that a request that is routed again is charged for its new route, and only once by each rule.
func testRerouted(t *testing.T, a Adapter) {
	for _, row := range []struct {
		why, path string
		reroute   func(again http.Handler, w http.ResponseWriter, r *http.Request)
	}{
		{"the URL is changed in place", "/start", func(again http.Handler, w http.ResponseWriter, r *http.Request) {
			r.URL.Path = "/login"
			again.ServeHTTP(w, r)
		}},
		{"a clone has another URL", "/start", func(again http.Handler, w http.ResponseWriter, r *http.Request) { again.ServeHTTP(w, moved(r)) }},
		{"a prefix is stripped", "/v1/login", func(again http.Handler, w http.ResponseWriter, r *http.Request) {
			http.StripPrefix("/v1", again).ServeHTTP(w, r)
		}},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := a.serveRerouted(t, apiAndLogin(), row.reroute)
			for i := range 8 {
				got, status, left := s.do(http.MethodPost, row.path), 200, 4-i
				if i >= 5 {
					status, left = 429, 0
				}
				got.wantStatus(t, status)
				if shown := got.Header["X-Ratelimit-Remaining"]; len(shown) != 1 || shown[0] != string(rune('0'+left)) || got.Header.Get("X-RateLimit-Resource") != "login" {
					t.Errorf("request %d shows %v, want %d logins remaining", i+1, got.limiting(), left)
				}
			}
			s.wantUsed(t, 8, 5)
			for range 3 { // now the login itself
				s.do(http.MethodPost, "/login").wantStatus(t, 429)
			}
			s.wantUsed(t, 8, 5)
		})
	}
}

// testBatch checks that each part of a batch is charged as a login, and the whole batch as one request.
func testBatch(t *testing.T, a Adapter) {
	s := a.serveRerouted(t, apiAndLogin(), func(again http.Handler, _ http.ResponseWriter, r *http.Request) {
		for range 10 {
			again.ServeHTTP(httptest.NewRecorder(), moved(r))
		}
	})
	for range 3 {
		got := s.do(http.MethodPost, "/start")
		got.wantStatus(t, 200)
		expect.Equal(t, got.Header.Get("X-RateLimit-Resource"), "api", "the batch shows %v (the limit that the batch itself has)", got.limiting())
	}
	s.wantUsed(t, 3, 5)
}

// testReroutedHolds checks that each rule of a request that is routed again is held and settled once.
func testReroutedHolds(t *testing.T, a Adapter) {
	var mu sync.Mutex
	finals := map[string]int{}
	final := func(rule *core.Rule) {
		name := rule.Name
		rule.CostAfter = func(_ *http.Request, o core.Outcome) int {
			mu.Lock()
			defer mu.Unlock()
			finals[name]++
			expect.True(t, o.Status == 200 && o.Err == nil, "%s: the outcome is %+v", name, o)
			return 2
		}
	}
	atOnce := func(rule *core.Rule) { rule.Limits = append(rule.Limits, core.AtOnce(1)) }
	s := a.serveRerouted(t, apiAndLogin(final, atOnce), func(again http.Handler, w http.ResponseWriter, r *http.Request) { again.ServeHTTP(w, moved(r)) })
	for range 2 {
		s.do(http.MethodPost, "/start").wantStatus(t, 200)
	}
	s.Close() // the last request has ended
	mu.Lock()
	expect.True(t, finals["api"] == 2 && finals["login"] == 2, "settled %v times, want each rule once a request", finals)
	mu.Unlock()
	s.wantUsed(t, 4, 4)
	expect.Equal(t, s.logins, 2, "logins ran")
}

// wantUsed checks how much of the rules is used. Without CostAfter, that is the number of logins that ran.
func (s *rerouted) wantUsed(t *testing.T, api, login int) {
	t.Helper()
	for rule, want := range map[string]int{"api": api, "login": login} {
		d := must.Get(s.limiter.Take(t.Context(), core.Claim{Rule: rule, Key: "user:" + secret, Peek: true}))(t)
		expect.Equal(t, d.Results[0].Limit.Capacity()-d.Results[0].Remaining, want, "of %s used", rule)
	}
	expect.AtMost(t, s.logins, login, "logins ran")
}
