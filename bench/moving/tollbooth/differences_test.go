// Package tollbooth checks what docs/moving/tollbooth.md says.
package tollbooth

import (
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/users/{id}", try.OK)
	return mux
}

func TestBothAdmitTheSameNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, h := range map[string]http.Handler{"before": before(routes()), "after": after(routes())} {
			expect.Equal(t, try.Admitted(h, 20, try.Client, "/users/1"), 10, "%s: admitted of 20", name)
		}
	})
}

// The key of tollbooth has the path that was requested, so a client gets a fresh limit for each.
func TestPathsAndRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := before(routes()), after(routes())
		try.Admitted(old, 20, try.Client, "/users/1")
		try.Admitted(now, 20, try.Client, "/users/1")
		expect.Equal(t, try.Admitted(old, 20, try.Client, "/users/2"), 10, "before: admitted of another path")
		expect.Equal(t, try.Admitted(now, 20, try.Client, "/users/2"), 0, "after: admitted of the same route")
	})
}

func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := before(try.OK)
		try.Admitted(old, 10, try.Client, "/")
		h := try.Get(old, try.Client, "/").Header()
		expect.True(t, h.Get("Retry-After") == "" && h.Get("RateLimit-Reset") == "1" && h.Get("X-Rate-Limit-Request-Remote-Addr") == try.Client,
			"got %v", h)
	})
}

// Without an address nothing is limited.
func TestNoAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := tollbooth.NewLimiter(1, nil)
		limit.SetIPLookup(limiter.IPLookup{Name: "X-Real-IP"})
		old := tollbooth.HTTPMiddleware(limit)(try.OK)
		expect.Equal(t, try.Admitted(old, 50, try.Client, "/"), 50, "before: admitted of 50 without X-Real-IP")
		old = tollbooth.LimitHandler(tollbooth.NewLimiter(1, nil), try.OK)
		expect.Equal(t, try.Admitted(old, 50, try.Client, "/"), 50, "LimitHandler: admitted of 50 without SetIPLookup")
		expect.Equal(t, try.Admitted(after(routes()), 50, "nobody", "/users/1"), 0, "after: admitted of 50 without an address")
	})
}

// SetBasicAuthUsers limits these users only.
func TestBasicAuthUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := tollbooth.NewLimiter(1, nil)
		limit.SetBasicAuthUsers([]string{"bob"})
		rule := core.PerSecond(1).By(keyfunc.Join(keyfunc.RemoteIP, keyfunc.BasicUser))
		rule.Match = func(r *http.Request) bool { name, _, _ := r.BasicAuth(); return name == "bob" }
		now := stdlib.New(core.Must(core.New([]core.Rule{rule})))(try.OK)
		for name, h := range map[string]http.Handler{"before": tollbooth.HTTPMiddleware(limit)(try.OK), "after": now} {
			expect.Equal(t, try.Admitted(h, 3, try.Client, "/", "Authorization", "Basic Ym9iOng="), 1, "%s: admitted of 3 by bob", name)
			expect.Equal(t, try.Admitted(h, 3, try.Client, "/", "Authorization", "Basic YW5uOng="), 3, "%s: admitted of 3 by ann", name)
			expect.Equal(t, try.Admitted(h, 3, try.Client, "/"), 3, "%s: admitted of 3 by nobody", name)
		}
	})
}

// Without SetIPLookup the address is RemoteAddr, also if a middleware has rewritten it.
func TestNoLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := tollbooth.HTTPMiddleware(tollbooth.NewLimiter(1, nil))(try.OK)
		for _, remote := range []string{try.Client, "203.0.113.10:4000", "203.0.113.11"} {
			expect.Equal(t, try.Admitted(old, 50, remote, "/"), 1, "%s: admitted of 50", remote)
		}
	})
}

// Some seconds of requests at uneven times: both admit the same ones, and respond alike.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.Handle("/users/1", try.OK)
		old, now := before(mux), same(mux)
		try.SameBytes(t, old, now, 250*time.Millisecond, "/users/1", "X-Forwarded-For", "192.0.2.1")
	})
}

func TestZeroAndFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thirds := tollbooth.NewLimiter(10.0/3, nil)
		full := tollbooth.NewLimiter(10.0/3, nil)
		full.SetBurst(10)
		for name, test := range map[string]struct {
			h    http.Handler
			want int
		}{
			"NewLimiter(10.0 / 3)":           {tollbooth.HTTPMiddleware(thirds)(try.OK), 3},
			"NewLimiter(10.0 / 3), SetBurst": {tollbooth.HTTPMiddleware(full)(try.OK), 10},
			"PerSecond(0)":                   {try.Limited(core.PerSecond(0)), 0},
			"Every(10, 3s)":                  {try.Limited(core.Every(10, 3*time.Second)), 10},
			"Every(10, 3s).WithBurst(3)":     {try.Limited(core.Every(10, 3*time.Second).WithBurst(3)), 3},
		} {
			expect.Equal(t, try.Admitted(test.h, 20, try.Client, "/"), test.want, "%s: admitted of 20", name)
		}
		if runtime.GOARCH == "amd64" { // tollbooth converts an infinite number of seconds to a Duration
			expect.Equal(t, try.Admitted(tollbooth.HTTPMiddleware(tollbooth.NewLimiter(0, nil))(try.OK), 20, try.Client, "/"), 20, "NewLimiter(0): admitted of 20")
		}
	})
}
