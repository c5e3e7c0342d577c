// Package echotest holds the tests that the adapters of echo's versions 4 and 5 share. It imports neither version: each adapter
// describes its own as a Version.
package echotest

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
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

// A Version is a version of echo with its adapter.
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

// guard mounts g.
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

// group builds app with guards on a group of routes.
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

// anyone is a key func with one key for all clients.
func anyone(*http.Request) (string, error) { return "const:all", nil }

// serve sends a request to e.
func serve(e http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// admitting is a store that admits every request.
type admitting struct{}

func (admitting) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for _, c := range claims {
		dst = append(dst, core.Result{Rule: c.Rule, Limit: c.Limits[0], Allowed: true})
	}
	return dst, nil
}

func (admitting) Settle(context.Context, []core.Settlement) error { return nil }
func (admitting) Reset(context.Context, []core.Pair) error        { return nil }
