// Package echotest holds the tests that the adapters of echo's versions 4 and 5 share. It imports neither version: each adapter
// describes its own as a Version.
package echotest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
)

// Context has the methods of echo's Context that the tests call.
type Context interface {
	comparable
	Request() *http.Request
	SetRequest(*http.Request)
	Get(key string) any
	Set(key string, value any)
	NoContent(status int) error
	String(status int, text string) error
	JSON(status int, value any) error
	HTML(status int, text string) error
	RealIP() string
}

// An Adder is an *echo.Echo or an *echo.Group. H is echo's HandlerFunc, M its MiddlewareFunc, and R what Add returns.
type Adder[H, M, R any] interface {
	Add(method, path string, h H, ms ...M) R
}

// Echo has the methods of *echo.Echo that the tests call.
type Echo[C Context, H ~func(C) error, M ~func(H) H, R any] interface {
	http.Handler
	Adder[H, M, R]
	Pre(ms ...M)
	Use(ms ...M)
	NewContext(r *http.Request, w http.ResponseWriter) C
}

type Version[E Echo[C, H, M, R], C Context, H ~func(C) error, M ~func(H) H, R any] struct {
	New   func() E // without a log
	Group func(e E, prefix string, ms ...M) Adder[H, M, R]
	Host  func(e E, host string) Adder[H, M, R] // nil if the version does not route by host
	Wrap  func(m func(http.Handler) http.Handler) M

	// The adapter. A nil argument of Limit is an option that is not set.
	Limit       func(l *core.Limiter, h headers.Writer, deny func(C, core.Decision) error, fail func(C, error) error) M
	WriteDenial func(c C, d core.Decision) error
	WriteError  func(c C, err error) error
	ContextOf   func(r *http.Request) (C, bool)
	RealIP      core.KeyFunc
	ProblemType string // as in adaptertest.Adapter

	// Errors.
	SetErrorHandler func(e E, handle func(c C, err error))
	HandleError     func(c C, err error) // the default handler
	Debug           func(e E)            // makes the default handler show errors
	HTTPErrorOf     func(err error) (status int, message any, ok bool)
	NewHTTPError    func(status int, message string) error

	// Writers.
	Response  func(c C) http.ResponseWriter
	Writer    func(c C) http.ResponseWriter // the one that SetWriter replaces
	SetWriter func(c C, w http.ResponseWriter)
	Below     func(c C) http.ResponseWriter // the one that echo's Response writes to
	Record    func(c C)                     // replaces the response with a recorder

	// Client addresses.
	SetExtractor         func(e E, extract func(*http.Request) string)
	FromXFF              func(trusted ...*net.IPNet) func(*http.Request) string
	FromRealIP, FromPeer func(*http.Request) string

	ReadsMethod bool // Rule.Routes reads the method that echo has routed
}

// Run checks the adapter, with further endings of requests for this version.
func (v Version[E, C, H, M, R]) Run(t *testing.T, more map[string]Ending[C, H, M]) {
	t.Run("Use", func(t *testing.T) { adaptertest.Run(t, adaptertest.Adapter{Build: v.Used, ProblemType: v.ProblemType}) })
	t.Run("Pre", func(t *testing.T) {
		adaptertest.RunPlaced(t, adaptertest.Adapter{Build: v.pre, ProblemType: v.ProblemType})
	})
	t.Run("Group", func(t *testing.T) {
		adaptertest.RunPlaced(t, adaptertest.Adapter{Build: v.group, RoutedOnly: true, ProblemType: v.ProblemType})
	})
	for name, test := range map[string]func(*testing.T){
		"ContextOf":                      v.testContextOf,
		"request is restored":            v.testRequestIsRestored,
		"error handler":                  v.testErrorHandler,
		"error handler that logs":        v.testErrorHandlerThatLogs,
		"debug mode":                     v.testDebugMode,
		"middleware handles the denial":  v.testMiddlewareHandlesTheDenial,
		"error of the handler":           v.testErrorOfTheHandler,
		"calls bypass the error handler": v.testCallsBypassTheErrorHandler,
		"outcome":                        func(t *testing.T) { v.testOutcome(t, more) },
		"bytes":                          v.testBytes,
		"HEAD":                           v.testHead,
		"error is handled once":          v.testErrorIsHandledOnce,
		"call in Gzip":                   v.testCallInGzip,
		"RealIP":                         v.testRealIP,
		"patterns":                       v.testPatterns,
		"last parameter":                 v.testLastParameter,
		"rewrites behind Pre":            v.testRewritesBehindPre,
		"rewrites in front":              v.testRewritesInFront,
	} {
		t.Run(name, test)
	}
}

func (v Version[E, C, H, M, R]) guard(g adaptertest.Guard) M {
	var deny func(C, core.Decision) error
	var fail func(C, error) error
	if g.Deny != nil {
		deny = func(c C, d core.Decision) error {
			g.Deny(v.Response(c), c.Request(), d)
			return nil
		}
	}
	if g.Denied != nil {
		deny = func(c C, d core.Decision) error {
			g.Denied(v.Response(c).Header(), d)
			return v.WriteDenial(c, d)
		}
	}
	if g.Fail != nil {
		fail = func(c C, err error) error {
			g.Fail(v.Response(c), c.Request(), err)
			return nil
		}
	}
	if g.Log != nil {
		fail = func(c C, err error) error {
			g.Log(err)
			return v.WriteError(c, err)
		}
	}
	return v.Limit(g.Limiter, g.Headers, deny, fail)
}

func (v Version[E, C, H, M, R]) guards(all []adaptertest.Guard) (ms []M) {
	for _, g := range all {
		ms = append(ms, v.guard(g))
	}
	return ms
}

func (v Version[E, C, H, M, R]) addRoutes(to Adder[H, M, R], app adaptertest.App) {
	for _, route := range app.Routes {
		for _, method := range adaptertest.Methods {
			to.Add(method, adaptertest.Colons(route.Pattern), func(c C) error {
				route.Handler(v.Response(c), c.Request())
				return nil
			}, v.guards(route.Guards)...)
		}
	}
}

// Used builds app with guards mounted by Use.
func (v Version[E, C, H, M, R]) Used(app adaptertest.App) http.Handler {
	e := v.New()
	e.Pre(v.Wrap(app.Cleaned))
	e.Use(v.guards(app.Guards)...)
	v.addRoutes(e, app)
	return e
}

// pre builds app with guards mounted by Pre, before the router.
func (v Version[E, C, H, M, R]) pre(app adaptertest.App) http.Handler {
	e := v.New()
	e.Pre(v.guards(app.Guards)...)
	e.Pre(v.Wrap(app.Cleaned))
	v.addRoutes(e, app)
	return e
}

func (v Version[E, C, H, M, R]) group(app adaptertest.App) http.Handler {
	e := v.New()
	e.Pre(v.Wrap(app.Cleaned))
	v.addRoutes(v.Group(e, "", v.guards(app.Guards)...), app)
	return e
}

// limit returns the middleware of a limiter with one rule.
func (v Version[E, C, H, M, R]) limit(rule core.Rule, opts ...core.Option) M {
	return v.Limit(core.Must(core.New([]core.Rule{rule}, opts...)), nil, nil, nil)
}

func nothing[C Context](C) error { return nil }

func anyone(*http.Request) (string, error) { return "const:all", nil }

func serve(e http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// testContextOf checks that each callback finds what an earlier middleware has stored in echo's Context, and that the handler finds
// the form that a callback has read from it.
func (v Version[E, C, H, M, R]) testContextOf(t *testing.T) {
	user := func(r *http.Request) string {
		c, ok := v.ContextOf(r)
		if !ok {
			t.Error("there is no context")
			return ""
		}
		_ = c.Request().ParseForm() // reads the body
		name, _ := c.Get("user").(string)
		return name
	}
	rule := core.PerHour(10).By(func(r *http.Request) (string, error) { return "user:" + user(r), nil })
	rule.Match = func(r *http.Request) bool { return user(r) == "ann" }
	rule.Cost = func(r *http.Request) int { return len(user(r)) }
	rule.Tier = func(r *http.Request) []core.Limit { return []core.Limit{core.PerHour(10 * len(user(r)))} }
	e := v.New()
	e.Use(func(next H) H {
		return func(c C) error {
			c.Set("user", "ann")
			return next(c)
		}
	}, v.limit(rule))
	e.Add(http.MethodPost, "/", func(c C) error {
		found, ok := v.ContextOf(c.Request())
		expect.True(t, ok && found == c, "the handler finds %v, %v, want %v", found, ok, c)
		expect.Equal(t, c.Request().PostFormValue("a"), "1", "the handler finds in the form that a callback has read")
		return nil
	})
	w, sent := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("a=1"))
	sent.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	e.ServeHTTP(w, sent)
	expect.Equal(t, w.Header().Get("X-RateLimit-Remaining"), "27", "remaining of 30")
	var none C
	c, ok := v.ContextOf(httptest.NewRequest(http.MethodGet, "/", nil))
	expect.True(t, !ok && c == none, "a request without the middleware has the context %v", c)
}

type key struct{}

// testRequestIsRestored checks which request a middleware around two limiters finds in echo's Context afterwards.
func (v Version[E, C, H, M, R]) testRequestIsRestored(t *testing.T) {
	for why, row := range map[string]struct {
		handle        H
		same, changed bool
	}{
		"unchanged":                {nothing[C], true, false},
		"unchanged after an error": {func(C) error { return errors.New("oops") }, true, false},
		"unchanged after a panic":  {func(C) error { panic("oops") }, true, false},
		"changed in place":         {func(c C) error { c.Request().Host = "changed"; return nil }, true, true},
		"replaced by the handler": {func(c C) error {
			c.SetRequest(c.Request().WithContext(context.WithValue(c.Request().Context(), key{}, "changed")))
			return nil
		}, false, true},
	} {
		var before, after *http.Request
		e := v.New()
		e.Use(func(next H) H {
			return func(c C) error {
				before = c.Request()
				defer func() {
					_ = recover()
					after = c.Request()
				}()
				return next(c)
			}
		}, v.limit(core.PerHour(1).By(anyone)), v.limit(core.PerHour(1).By(anyone)))
		e.Add(http.MethodGet, "/", row.handle)
		serve(e, http.MethodGet, "/")
		expect.Equal(t, before == after, row.same, "%s: same request", why)
		expect.Equal(t, after.Host == "changed" || after.Context().Value(key{}) == "changed", row.changed, "%s: changed", why)
	}
}

func (v Version[E, C, H, M, R]) testRealIP(t *testing.T) {
	_, all4, _ := net.ParseCIDR("0.0.0.0/0")
	_, all6, _ := net.ParseCIDR("::/0")
	_, docs, _ := net.ParseCIDR("192.0.2.0/24")
	header := func(r *http.Request) string { return r.Header.Get("X-Client") }
	xRealIP := "ip:198.51.100.7"
	stranger := httptest.NewRequest(http.MethodGet, "/", nil)
	stranger.Header.Set("X-Real-Ip", "10.0.0.2")
	if v.FromRealIP(stranger) == "10.0.0.2" { // old versions of echo check whether they trust the address in the header, not the peer
		xRealIP = "IPExtractor"
	}
	byDefault := "IPExtractor"
	if v.New().NewContext(stranger, nil).RealIP() != "10.0.0.2" { // new versions trust nobody
		byDefault = "ip:203.0.113.9"
	}
	for _, row := range []struct {
		name         string
		extract      func(*http.Request) string
		peer, header string
		want         string // a key, or a part of the error
	}{
		{"a trusted proxy", v.FromXFF(), "10.0.0.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"the /64 of an IPv6 client", v.FromXFF(), "10.0.0.1:80", "X-Forwarded-For: 2001:db8:1:2:3::4", "ip:2001:db8:1:2::/64"},
		{"an untrusted peer", v.FromXFF(), "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"X-Real-IP", v.FromRealIP, "10.0.0.1:80", "X-Real-Ip: 198.51.100.7", xRealIP},
		{"no proxy", v.FromPeer, "203.0.113.9:80", "X-Forwarded-For: 198.51.100.7", "ip:203.0.113.9"},
		{"a trusted network for documentation", v.FromXFF(docs), "192.0.2.1:80", "X-Forwarded-For: 198.51.100.7", "ip:198.51.100.7"},
		{"no IPExtractor", nil, "203.0.113.9:80", "", byDefault},
		{"trust in all of IPv4", v.FromXFF(all4), "203.0.113.9:80", "", "IPExtractor"},
		{"trust in all of IPv6", v.FromXFF(all6), "203.0.113.9:80", "", "IPExtractor"},
		{"another header of any peer", header, "203.0.113.9:80", "X-Client: 198.51.100.7", "IPExtractor"},
		{"another header, which is missing", header, "203.0.113.9:80", "", "no key"},
		{"a Unix socket", v.FromPeer, "@", "", "no key"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := v.New()
			v.SetExtractor(e, row.extract)
			var key string
			var err error
			e.Use(v.limit(core.PerHour(9).By(func(r *http.Request) (string, error) {
				c, _ := v.ContextOf(r)
				before := c.Request()
				key, err = v.RealIP(r)
				expect.Equal(t, c.Request(), before, "RealIP leaves another request in the context")
				return "k", nil
			})))
			e.Add(http.MethodGet, "/", func(c C) error {
				expect.Equal(t, c.Request().RemoteAddr, row.peer, "the handler gets the peer")
				return nil
			})
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = row.peer
			if name, value, ok := strings.Cut(row.header, ": "); ok {
				r.Header.Set(name, value)
			}
			e.ServeHTTP(httptest.NewRecorder(), r)
			if key != row.want && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %q, %v, want %s", key, err, row.want)
			}
			expect.Equal(t, err == nil, key != "", "%q, %v", key, err)
		})
	}
	key, err := v.RealIP(httptest.NewRequest(http.MethodGet, "/", nil))
	expect.True(t, key == "" && errors.Is(err, core.ErrInvalid), "without the middleware: %q, %v", key, err)
}
