// Package dashboard serves a live page about the rate limiters of this process: requests per second that each rule allowed
// and denied, the keys denied most, and the health of the store.
//
//	t := telemetry.New(telemetry.Options{})
//	limiter, err := core.New(rules, core.WithObserver(t.Observe))
//	...
//	t.Attach(limiter)
//	mux.Handle("/limits/", requireAdmin(dashboard.New(t)))
//
// The page has no authentication: mount it behind yours. It works under any path, with or without http.StripPrefix, in
// any router that can mount an http.Handler for all paths below a prefix. The prefix without its slash redirects to the
// page. Once the page has been opened, unknown paths below it get 404.
//
// By default, the page can be opened only as localhost or under a loopback address, such as 127.0.0.1 or ::1. Requests
// with any other Host get 403. Otherwise a website could read a page that only your browser can reach, by making its
// own name resolve to the page's address (DNS rebinding). [WithHosts] allows more hosts. The check needs the Host that
// the browser has sent. So a reverse proxy that replaces the Host with a loopback address must serve only your own
// names, and no middleware may set Request.Host from a field that a website can send, such as X-Forwarded-Host.
//
// The handler starts no goroutine. While a browser shows the page, one request stays open and gets an event per second.
// It ends when the server is shut down.
package dashboard

import (
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/charts"
	"github.com/spillgate/spillgate/telemetry"
)

// An Option adds functions to the page, or hosts under which it can be opened.
type Option func(*handler)

// WithReset adds buttons that reset or ban a key. authorize reports whether the sender of a request may do that; it is
// called concurrently. authorize should check a credential in the request, not the sender's address, because a reverse
// proxy on your machine, or a website open in a browser on your machine, sends requests from an address that you trust.
// WithReset uses http.CrossOriginProtection against requests from other origins. It panics if authorize is nil.
func WithReset(authorize func(*http.Request) bool) Option {
	if authorize == nil {
		panic(fmt.Errorf("spillgate: %w: dashboard.WithReset needs a func that says which senders may reset, got nil", core.ErrInvalid))
	}
	return func(h *handler) { h.authorize = authorize }
}

// New returns a handler for the page, which shows all limiters attached to t, now or later. Without WithReset, the page
// is read-only. New panics if t or an option is nil.
func New(t *telemetry.Telemetry, opts ...Option) http.Handler {
	if t == nil {
		panic(fmt.Errorf("spillgate: %w: dashboard.New needs a Telemetry, such as telemetry.New returns, got nil", core.ErrInvalid))
	}
	h := &handler{telemetry: t, authorize: func(*http.Request) bool { return false }, hosts: make(map[string]bool), stops: make(map[*http.Server]chan struct{})}
	for i, o := range opts {
		if o == nil {
			panic(fmt.Errorf("spillgate: %w: dashboard.New: option %d of %d: option is nil; leave it out", core.ErrInvalid, i+1, len(opts)))
		}
		o(h)
	}
	return h
}

//go:embed static/index.html
var index string

//go:embed static/app.js
var app string

//go:embed static/lookup.js
var lookup string

// contentSecurityPolicy allows the page nothing but its own files.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// A file is a file of the page.
type file struct{ mediaType, content string }

// files are all files of the page, by name.
var files = map[string]file{
	"":          {"text/html; charset=utf-8", index},
	"app.js":    {"text/javascript; charset=utf-8", app},
	"lookup.js": {"text/javascript; charset=utf-8", lookup},
	"chart.js":  {"text/javascript; charset=utf-8", charts.Script},
	"style.css": {"text/css; charset=utf-8", charts.Style},
	"icon.svg":  {"image/svg+xml", charts.Icon},
}

// ServeHTTP serves a file or an action by the last element of the path, so that any prefix works.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", contentSecurityPolicy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if !h.mayServe(r) {
		http.Error(w, fmt.Sprintf("The page cannot be opened as %q; dashboard.WithHosts allows more hosts than localhost.", r.Host), http.StatusForbidden)
		return
	}
	dir, name := split(r)
	switch name {
	case "", "app.js", "lookup.js", "chart.js", "style.css", "icon.svg":
		if allow(w, r, http.MethodGet, http.MethodHead) {
			if name == "" { // before the client gets the page and asks for more
				h.places.add(dir)
				h.stopped(r) // for a stream whose request gets here after Shutdown has begun, which is too late to register
			}
			files[name].serve(w)
		}
	case "events":
		if allow(w, r, http.MethodGet) {
			h.events(w, r)
		}
	case "lookup", "reset", "ban":
		if allow(w, r, http.MethodPost) {
			h.act(w, r, name)
		}
	default:
		if !h.places.mayBe(r, dir+"/"+name) {
			http.NotFound(w, r)
		} else if allow(w, r, http.MethodGet, http.MethodHead) {
			w.Header().Set("Location", "./"+name+"/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}
}

func (f file) serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", f.mediaType)
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = io.WriteString(w, f.content) // net/http drops it for HEAD
}

// allow reports whether the method of r is one of methods. If not, it responds with 405.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	for _, m := range methods {
		if r.Method == m {
			return true
		}
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}
