package clients

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/must"
)

const origin = "https://shop.example"

// cors stands for a CORS middleware: it responds to preflights and lists the fields that scripts may read.
func cors(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", strings.Join(headers.Expose, ", "))
	if !core.Preflight(r) {
		return false
	}
	w.Header().Set("Access-Control-Allow-Methods", "PUT")
	w.Header().Set("Access-Control-Allow-Headers", "content-type")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// A browser sends a preflight before each cross-origin request, and shows scripts only the fields that the response exposes.
type browser struct{ s *wire.Server }

// put returns the status and the fields that a script sees, or false if the preflight failed.
func (b browser) put(t *testing.T) (status int, visible http.Header, ok bool) {
	pre := b.s.Do(http.MethodOptions, "/", "Origin: "+origin, "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: content-type")
	if pre.StatusCode < 200 || pre.StatusCode > 299 || pre.Header.Get("Access-Control-Allow-Origin") != origin {
		return 0, nil, false
	}
	got := b.s.Send(wire.Request(t, http.MethodPut, b.s.URL, strings.NewReader("{}"), "Origin: "+origin, "Content-Type: application/json"))
	visible = http.Header{}
	for name := range strings.SplitSeq(got.Header.Get("Access-Control-Expose-Headers"), ", ") {
		if v := got.Header.Values(name); v != nil {
			visible[http.CanonicalHeaderKey(name)] = v
		}
	}
	return got.StatusCode, visible, true
}

// TestCORS checks that preflights cost nothing and are never denied, and that a script of another origin can read why its
// request was denied. The CORS middleware is around the limiter or behind it.
func TestCORS(t *testing.T) {
	behind := func(w http.ResponseWriter, r *http.Request) {
		if !cors(w, r) {
			wire.OK(w, r)
		}
	}
	for _, f := range apps.Frameworks {
		guarded := func() http.Handler {
			return f.Build(apps.Limited(wire.PerHour(2, core.WithSkip(core.Preflight)), behind))
		}
		around := guarded()
		for why, h := range map[string]http.Handler{
			"behind the limiter": guarded(),
			"around the limiter": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !cors(w, r) {
					around.ServeHTTP(w, r)
				}
			}),
		} {
			t.Run(f.Name+" "+why, func(t *testing.T) {
				b := browser{wire.Serve(t, h, true)}
				for i, want := range []int{200, 200, 429, 429} {
					status, visible, ok := b.put(t)
					must.True(t, ok && status == want, "request %d: preflight passed: %v; status %d, want %d", i+1, ok, status, want)
					if strings.HasPrefix(why, "around") && (visible.Get("X-RateLimit-Remaining") == "" || (visible.Get("Retry-After") != "") != (want == 429)) {
						t.Errorf("request %d: a script sees %v", i+1, visible)
					}
				}
			})
		}
	}
}
