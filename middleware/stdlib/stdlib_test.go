package stdlib_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func guard(g adaptertest.Guard) func(http.Handler) http.Handler {
	g = g.Through(stdlib.WriteDenial, stdlib.WriteError)
	return stdlib.New(g.Limiter, stdlib.WithHeaders(g.Headers), stdlib.WithDenyHandler(g.Deny), stdlib.WithErrorHandler(g.Fail))
}

// wrap puts guards around h, the first outermost.
func wrap(h http.Handler, guards []adaptertest.Guard) http.Handler {
	for i := len(guards) - 1; i >= 0; i-- {
		h = guard(guards[i])(h)
	}
	return h
}

// around guards the mux as a whole.
func around(app adaptertest.App) http.Handler {
	mux := http.NewServeMux()
	for _, r := range app.Routes {
		for _, method := range adaptertest.Methods {
			if method == http.MethodHead { // GET serves it
				continue
			}
			mux.Handle(method+" "+exact(r.Pattern), wrap(r.Handler, r.Guards))
		}
	}
	return wrap(app.Cleaned(mux), app.Guards)
}

// inside guards the handlers in the mux.
func inside(app adaptertest.App) http.Handler {
	mux := http.NewServeMux()
	for _, r := range app.Routes {
		mux.Handle(exact(r.Pattern), wrap(wrap(r.Handler, r.Guards), app.Guards))
	}
	return app.Cleaned(mux)
}

// nested guards a mux that holds a mux.
func nested(app adaptertest.App) http.Handler {
	inner := http.NewServeMux()
	for _, r := range app.Routes {
		inner.Handle(exact(r.Pattern), wrap(r.Handler, r.Guards))
	}
	outer := http.NewServeMux()
	outer.Handle("/", inner)
	return wrap(app.Cleaned(outer), app.Guards)
}

// between guards a mux in a mux.
func between(app adaptertest.App) http.Handler {
	inner := http.NewServeMux()
	for _, r := range app.Routes {
		inner.Handle(exact(r.Pattern), wrap(r.Handler, r.Guards))
	}
	outer := http.NewServeMux()
	outer.Handle("/", wrap(inner, app.Guards))
	return app.Cleaned(outer)
}

// exact keeps "/" from matching every path.
func exact(pattern string) string {
	if pattern == "/" {
		return "/{$}"
	}
	return pattern
}

func TestContract(t *testing.T) {
	t.Run("around", func(t *testing.T) { adaptertest.Run(t, adaptertest.Adapter{Build: around}) })
	t.Run("inside", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: inside, RoutedOnly: true}) })
	t.Run("nested", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: nested}) })
	t.Run("between", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: between}) })
}

func FuzzCalls(f *testing.F) { adaptertest.FuzzCalls(f, adaptertest.Adapter{Build: around}) }

// TestAtOnceInsideTimeoutHandler checks that a handler that outlives its timeout keeps its place.
func TestAtOnceInsideTimeoutHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		var running atomic.Int64
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			running.Add(1)
			<-release
		})
		l := core.Must(core.New([]core.Rule{core.AtOnce(2).By(func(*http.Request) (string, error) { return "const:all", nil })}))
		h := http.TimeoutHandler(stdlib.New(l)(slow), time.Second, "")
		var codes [5]int
		for i := range codes {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			codes[i] = w.Code
		}
		want := [5]int{503, 503, 429, 429, 429}
		expect.True(t, codes == want && running.Load() == 2, "got %v and %d handlers, want %v and 2", codes, running.Load(), want)
		close(release)
	})
}

// patterns returns a middleware whose key func stores the pattern it finds.
func patterns(found *string) func(http.Handler) http.Handler {
	return stdlib.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(func(r *http.Request) (string, error) {
		*found = core.RoutePattern(r)
		return "const:all", nil
	})})))
}

func TestPatternNotations(t *testing.T) {
	for _, row := range []struct{ why, pattern, path, want string }{
		{"the method is not part of it", "GET /users/{id}", "/users/1", "/users/{id}"},
		{"the host is", "GET example.com/users/{id}", "/users/1", "example.com/users/{id}"},
		{"a subtree", "/files/", "/files/a/b", "/files/"},
		{"the rest of the path", "/files/{path...}", "/files/a/b", "/files/{path...}"},
		{"a path that is redirected belongs to where it leads", "/files/", "/files", "/files/"},
		{"no route", "/files/", "/", ""},
	} {
		var outside, inside string
		mux := http.NewServeMux()
		mux.Handle(row.pattern, patterns(&inside)(http.NotFoundHandler()))
		patterns(&outside)(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, row.path, nil))
		expect.Equal(t, outside, row.want, "%s: outside", row.why)
		expect.True(t, inside == "" || inside == row.want, "%s: inside %q, want %q", row.why, inside, row.want)
	}
}

// TestPatternBeyondMux checks which patterns are known in front of handlers that do not report them.
func TestPatternBeyondMux(t *testing.T) {
	opaque := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	api := http.NewServeMux()
	api.Handle("/api/", http.StripPrefix("/api", opaque))
	for _, row := range []struct {
		why  string
		next http.Handler
		want string
	}{
		{"the mux knows no further than its handler", api, "/api/"},
		{"a mux that contains itself is not asked for ever", loop{}, "/"},
	} {
		var found string
		patterns(&found)(row.next).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/users/1", nil))
		expect.Equal(t, found, row.want, "%s", row.why)
	}
}

func TestPatternOutsideOpaqueHandler(t *testing.T) {
	adaptertest.CheckOpaque(t, guard, "mount the limiter directly around an http.ServeMux or around the handlers in it, or use the adapter of your router")
}

// TestPatternBetweenMuxes checks which mux's pattern is found if the middleware is between two muxes.
func TestPatternBetweenMuxes(t *testing.T) {
	for _, row := range []struct{ why, outer, inner, want string }{
		{"the inner one divides a subtree", "/api/", "/api/users/{id}", "/api/users/{id}"},
		{"however the subtree is written", "/api/{rest...}", "/api/users/{id}", "/api/users/{id}"},
		{"an inner one that does not know the request", "/api/", "/other/", "/api/"},
		{"a route is not made coarser", "/api/users/{id}", "/", "/api/users/{id}"},
	} {
		var found string
		inner, outer := http.NewServeMux(), http.NewServeMux()
		inner.Handle(row.inner, http.NotFoundHandler())
		outer.Handle(row.outer, patterns(&found)(inner))
		outer.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/users/1", nil))
		expect.Equal(t, found, row.want, "%s", row.why)
	}
}

type loop struct{}

func (l loop) Handler(*http.Request) (http.Handler, string)   { return l, "/" }
func (loop) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

// TestRoutesBehindRewrites checks that Rule.Routes reads what a ServeMux has routed, although middleware between the mux
// and the limiter has since rewritten the request.
func TestRoutesBehindRewrites(t *testing.T) {
	for _, row := range []struct{ pattern, method, path, limited string }{
		{"POST /api/login", "POST", "/api/login", "POST /api/login"},
		{"/api/{page}", "POST", "/api/login", "POST /api/login"},
		{"POST example.com/api/{page}", "POST", "/api/login", "POST /api/login"},
		{"/api/{page...}", "POST", "/api/login", "POST /api/login"},
		{"/api/{user}/{page}", "CONNECT", "/api//login", "/api/{user}/{page}"}, // PathValue panics
	} {
		rule := core.Rule{Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: []core.Limit{core.PerHour(5)}, Routes: []string{row.limited}}
		logins := 0
		limited := stdlib.New(core.Must(core.New([]core.Rule{rule})))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { logins++ }))
		mux := http.NewServeMux()
		mux.HandleFunc(row.pattern, func(w http.ResponseWriter, r *http.Request) {
			r.URL = &url.URL{Path: "/elsewhere"}
			limited.ServeHTTP(w, r)
		})
		for range 20 {
			mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(row.method, row.path, nil))
		}
		expect.Equal(t, logins, 5, "%s: logins", row.pattern)
	}
}

var (
	parameters  = regexp.MustCompile(`;[^/]*`)
	backslashes = strings.NewReplacer(`\`, "/")
)

// TestSkipsInFrontOfProxy checks that a skip never frees another handler behind a proxy whose server cleans paths, decodes
// them again, or ignores parameters of segments, as servers do.
func TestSkipsInFrontOfProxy(t *testing.T) {
	for why, read := range map[string]func(u *url.URL) string{
		"cleans": func(u *url.URL) string { return path.Clean("/" + u.Path) },
		"decodes again": func(u *url.URL) string {
			again, err := url.PathUnescape(u.Path)
			if err != nil {
				again = u.Path
			}
			return path.Clean("/" + again)
		},
		"ignores parameters": func(u *url.URL) string { return path.Clean("/" + parameters.ReplaceAllString(u.Path, "")) },
		"takes \\ for /":     func(u *url.URL) string { return path.Clean("/" + backslashes.Replace(u.Path)) },
	} {
		t.Run(why, func(t *testing.T) {
			adaptertest.RunSkips(t, adaptertest.Adapter{Build: func(app adaptertest.App) http.Handler {
				mux := http.NewServeMux()
				for _, r := range app.Routes {
					mux.Handle(exact(r.Pattern), r.Handler)
				}
				backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.URL = &url.URL{Path: read(r.URL)}
					mux.ServeHTTP(w, r)
				}))
				t.Cleanup(backend.Close)
				return wrap(app.Cleaned(httputil.NewSingleHostReverseProxy(must.Get(url.Parse(backend.URL))(t))), app.Guards)
			}})
		})
	}
}

// planOf returns a limiter of everybody at an instant, which has granted so many requests and charges *cost.
func planOf(t *testing.T, at int64, l core.Limit, granted int, cost *int, more ...core.Limit) *core.Limiter {
	store := &core.MemoryStore{Now: func() time.Time { return time.Unix(at, 0) }}
	rule := core.Rule{Name: "plan", Key: keyfunc.Const("all"), Limits: append([]core.Limit{l}, more...), Cost: func(*http.Request) int { return *cost }}
	limiter := core.Must(core.New([]core.Rule{rule}, core.WithStore(store)))
	if granted > 0 {
		must.Do(t, limiter.Grant(t.Context(), "plan", "const:all", granted))
	}
	return limiter
}

// wantFields serves a request and checks the status and the fields: Limit, Remaining, Used, Reset and Retry-After.
func wantFields(t *testing.T, h http.Handler, status int, fields ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var got []string
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Used", "X-RateLimit-Reset", "Retry-After"} {
		got = append(got, w.Header().Get(name))
	}
	expect.True(t, w.Code == status && slices.Equal(got, fields), "got %d, %q; want %d, %q", w.Code, got, status, fields)
}

// TestDenialThatWaitingDoesNotEnd checks a request that an inner limiter denies for a while, and whose cost the outer limiter, whose
// clock is behind, has admitted only because of a grant, which that request has used up. Reset is when the inner one admits the cost.
func TestDenialThatWaitingDoesNotEnd(t *testing.T) {
	cost := 15
	outer := planOf(t, 1_767_268_800, core.PerHour(10).Using(core.FixedWindow), 30, &cost)
	inner := planOf(t, 1_767_268_860, core.PerMinute(20), 0, &cost)
	write := stdlib.WithHeaders(headers.Join(headers.GitHub, headers.IETF))
	h := stdlib.New(outer, write)(stdlib.New(inner, write)(http.NotFoundHandler()))
	wantFields(t, h, 404, "20", "5", "15", "1767268905", "")
	wantFields(t, h, 429, "20", "0", "20", "1767268890", "")
}

// TestDenialOfWhatOnlyAGrantCouldAdmit checks a cost that what is granted on top of the capacity could admit, but not beside what was
// used, and not after the grant has ended: 429, with the fields of a 429. If another limit never admits the cost: 413, with its fields.
func TestDenialOfWhatOnlyAGrantCouldAdmit(t *testing.T) {
	cost := 8
	h := stdlib.New(planOf(t, 1_767_268_800, core.PerHour(10).Using(core.FixedWindow), 10, &cost, core.PerMinute(14)))(http.NotFoundHandler())
	wantFields(t, h, 404, "14", "6", "8", "1767268835", "")
	cost = 13
	wantFields(t, h, 429, "20", "0", "20", "1767272400", "")
	cost = 15
	wantFields(t, h, 413, "14", "6", "8", "1767268835", "")
	cost = 21
	wantFields(t, h, 413, "20", "12", "8", "1767272400", "")
}
