// Package manners checks that what handlers can do without a limiter they can do with one.
package manners

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
)

// each runs f for every framework, by HTTP/1.1 and by HTTP/2.
func each(t *testing.T, f func(t *testing.T, framework apps.Framework, http2 bool)) {
	for _, framework := range apps.Frameworks {
		for _, p := range wire.Protocols {
			t.Run(framework.Name+"/"+p.Name, func(t *testing.T) { f(t, framework, p.HTTP2) })
		}
	}
}

// eachOf serves h behind a limit of n by every framework and protocol.
func eachOf(t *testing.T, n int, h http.HandlerFunc, f func(t *testing.T, s *wire.Server)) {
	each(t, func(t *testing.T, framework apps.Framework, http2 bool) {
		f(t, wire.Serve(t, framework.Build(apps.Limited(wire.PerHour(n), h)), http2))
	})
}

// innermost returns the writer of net/http beneath that of a framework.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}

// wantRemaining fails the test unless r shows what is left, once.
func wantRemaining(t *testing.T, h http.Header, want string) {
	t.Helper()
	if got := h.Values("X-RateLimit-Remaining"); len(got) != 1 || got[0] != want {
		t.Errorf("X-RateLimit-Remaining = %q, want %s", got, want)
	}
}
