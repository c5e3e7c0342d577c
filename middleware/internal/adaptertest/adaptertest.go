// Package adaptertest holds the HTTP contract of adapters, as tests that every adapter runs unchanged:
//
//	adaptertest.Run(t, adaptertest.Adapter{Build: build})
package adaptertest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/must"
)

// A Guard is one mounting of the middleware. Nil fields are options that are not set.
type Guard struct {
	Limiter *core.Limiter
	Headers headers.Writer
	Deny    func(w http.ResponseWriter, r *http.Request, d core.Decision)
	Fail    func(w http.ResponseWriter, r *http.Request, err error)
	Log     func(err error)                      // an error handler that calls Log, then WriteError; in place of Fail
	Denied  func(h http.Header, d core.Decision) // a deny handler that calls Denied, then WriteDenial; in place of Deny
}

// A Route serves Methods at a pattern like "/users/{id}".
type Route struct {
	Pattern string
	Guards  []Guard // of this route alone, after the application's guards
	Handler http.HandlerFunc
}

var Methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions}

// An App is an application in terms that every framework can build.
type App struct {
	Guards []Guard // of all routes, the first outermost
	Routes []Route

	// Clean is a middleware that changes the path, or nil. It runs in front of the router, and behind the guards if these do, too.
	Clean func(http.Handler) http.Handler
}

// Through returns g with Log and Denied in its handlers, in front of the adapter's own.
func (g Guard) Through(deny func(http.ResponseWriter, *http.Request, core.Decision), fail func(http.ResponseWriter, *http.Request, error)) Guard {
	if g.Log != nil {
		g.Fail = func(w http.ResponseWriter, r *http.Request, err error) {
			g.Log(err)
			fail(w, r, err)
		}
	}
	if g.Denied != nil {
		g.Deny = func(w http.ResponseWriter, r *http.Request, d core.Decision) {
			g.Denied(w.Header(), d)
			deny(w, r, d)
		}
	}
	return g
}

// An Adapter builds an App with one adapter, mounted in one of the ways that it supports.
type Adapter struct {
	Build func(App) http.Handler

	// Again returns the handler for requests that a handler of app has rewritten. Nil means app itself.
	Again func(app http.Handler) http.Handler

	// RoutedOnly is true if requests that match no route do not pass the guards.
	RoutedOnly bool

	// ProblemType is the content type of the default pages; empty: application/problem+json.
	ProblemType string
}

// A group is a part of the contract.
type group struct {
	name string
	run  func(*testing.T, Adapter)
}

// byPlace depend on the place where the middleware is mounted.
var byPlace = []group{
	{"denial", testDenial},
	{"failure", testFailure},
	{"error handler", testErrorHandler},
	{"two limiters", testTwoLimiters},
	{"mounted twice", testMountedTwice},
	{"routed again", testRerouted},
	{"routed again and held", testReroutedHolds},
	{"context", testContext},
	{"routes", testRoutes},
	{"patterns", testPatterns},
	{"unknown patterns", testUnknownPatterns},
	{"odd paths", testOddPaths},
	{"ambiguous paths", testAmbiguousPaths},
	{"skips", testSkips},
	{"preflight", testPreflight},
	{"response writer", testResponseWriter},
	{"panics", testPanics},
	{"transparency", testTransparency},
	{"outcome", testOutcome},
	{"outcome of HEAD", testOutcomeOfHead},
	{"client gone", testClientGone},
	{"watched writer", testWatchedWriter},
}

// anyPlace do not.
var anyPlace = []group{
	{"nil limiter", testNilLimiter},
	{"headers", testHeaders},
	{"writers", testWriters},
	{"count", testCount},
	{"failure modes", testFailureModes},
	{"deny handler", testDenyHandler},
	{"batch", testBatch},
	{"client IP", testClientIP},
	{"rewritten address", testRewrittenAddress},
	{"streaming", testStreaming},
	{"hijack", testHijack},
	{"early hints", testEarlyHints},
	{"expect continue", testExpectContinue},
	{"trailers", testTrailers},
	{"response trailers", testResponseTrailers},
	{"SetCost", testSetCost},
	{"at once", testAtOnce},
	{"call denial", testCallDenial},
	{"call failure", testCallFailure},
	{"call outcome", testCallOutcome},
	{"nested calls", testCallNested},
	{"waiting", testWaiting},
	{"waiting body", testWaitingBody},
	{"waiting client gone", testWaitingClientGone},
	{"waiting client gone unnoticed", testWaitingClientGoneUnnoticed},
	{"waiting at shutdown", testWaitingAtShutdown},
	{"waiting and timeouts", testWaitingAndTimeouts},
	{"waiting within a timeout", testWaitingWithinATimeout},
	{"waiting within a deadline", testWaitingWithinADeadline},
	{"waiting holds nothing", testWaitingHoldsNothing},
}

// Run checks the adapter over real sockets.
func Run(t *testing.T, a Adapter) {
	RunPlaced(t, a)
	runAll(t, a, anyPlace)
}

// RunPlaced checks the promises that depend on the place, for each further place where an adapter can be mounted.
func RunPlaced(t *testing.T, a Adapter) { runAll(t, a, byPlace) }

func runAll(t *testing.T, a Adapter, groups []group) {
	s := serveHandler(t, http.HandlerFunc(ok), true)
	resp, err := s.Client().Get(s.URL)
	must.True(t, err == nil && resp.ProtoMajor == 2, "HTTP/2 does not work, and groups would wait for requests over it: %v, %v", resp, err)
	defer resp.Body.Close()
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) { g.run(t, a) })
	}
}

func (app App) Cleaned(h http.Handler) http.Handler {
	if app.Clean == nil {
		return h
	}
	return app.Clean(h)
}

// Colons returns the pattern of a Route as gin and echo write it: "/users/:id".
func Colons(pattern string) string { return strings.NewReplacer("{", ":", "}", "").Replace(pattern) }
