// Package tollbooth checks what docs/moving/tollbooth.md says.
package tollbooth

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
)

const client = "203.0.113.9:4000"

func routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/users/{id}", try.OK)
	return mux
}

func TestBothAdmitTheSameNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.Handler{"before": before(routes()), "after": after(routes())} {
			if got := try.Admitted(h, 20, client, "/users/1"); got != 10 {
				t.Errorf("%s: admitted %d of 20, want 10", name, got)
			}
		}
	})
}

// The key of tollbooth has the path that was requested, so a client gets a fresh limit for each.
func TestPathsAndRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(routes()), after(routes())
		try.Admitted(old, 20, client, "/users/1")
		try.Admitted(now, 20, client, "/users/1")
		if got := try.Admitted(old, 20, client, "/users/2"); got != 10 {
			t.Errorf("before: admitted %d of another path, want 10", got)
		}
		if got := try.Admitted(now, 20, client, "/users/2"); got != 0 {
			t.Errorf("after: admitted %d of the same route, want 0", got)
		}
	})
}

func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := before(try.OK)
		try.Admitted(old, 10, client, "/")
		h := try.Get(old, client, "/").Header()
		if h.Get("Retry-After") != "" || h.Get("RateLimit-Reset") != "1" || h.Get("X-Rate-Limit-Request-Remote-Addr") != client {
			t.Errorf("got %v", h)
		}
	})
}

// Without an address nothing is limited.
func TestNoAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := tollbooth.NewLimiter(1, nil)
		limit.SetIPLookup(limiter.IPLookup{Name: "X-Real-IP"})
		old := tollbooth.HTTPMiddleware(limit)(try.OK)
		if got := try.Admitted(old, 50, client, "/"); got != 50 {
			t.Errorf("before: admitted %d of 50 without X-Real-IP, want all", got)
		}
		if got := try.Admitted(after(routes()), 50, "nobody", "/users/1"); got != 0 {
			t.Errorf("after: admitted %d of 50 without an address, want none", got)
		}
	})
}
