package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

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
		why     string
		path    string
		reroute func(again http.Handler, w http.ResponseWriter, r *http.Request)
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
		if got.Header.Get("X-RateLimit-Resource") != "api" {
			t.Errorf("the batch shows %v, want the limit that the batch itself has", got.limiting())
		}
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
			if o.Status != 200 || o.Err != nil {
				t.Errorf("%s: the outcome is %+v", name, o)
			}
			return 2
		}
	}
	atOnce := func(rule *core.Rule) { rule.Limits = append(rule.Limits, core.AtOnce(1)) }
	s := a.serveRerouted(t, apiAndLogin(final, atOnce), func(again http.Handler, w http.ResponseWriter, r *http.Request) { again.ServeHTTP(w, moved(r)) })
	for range 2 {
		s.do(http.MethodPost, "/start").wantStatus(t, 200)
	}
	s.Close() // the last request has ended
	if mu.Lock(); finals["api"] != 2 || finals["login"] != 2 {
		t.Errorf("settled %v times, want each rule once a request", finals)
	}
	mu.Unlock()
	s.wantUsed(t, 4, 4)
	if s.logins != 2 {
		t.Errorf("%d logins ran, want 2", s.logins)
	}
}

// wantUsed checks how much of the rules is used. Without CostAfter, that is the number of logins that ran.
func (s *rerouted) wantUsed(t *testing.T, api, login int) {
	t.Helper()
	for rule, want := range map[string]int{"api": api, "login": login} {
		d := must.Get(s.limiter.Take(t.Context(), core.Claim{Rule: rule, Key: "user:" + secret, Peek: true}))(t)
		if used := d.Results[0].Limit.Capacity() - d.Results[0].Remaining; used != want {
			t.Errorf("%d of %s used, want %d", used, rule, want)
		}
	}
	if s.logins > login {
		t.Errorf("%d logins ran, want %d", s.logins, login)
	}
}
