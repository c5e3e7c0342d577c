package stdlib_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// TestRoutesBehindRewrites checks that Rule.Routes reads what a ServeMux has routed, although middleware between the mux
// and the limiter has since rewritten the request.
func TestRoutesBehindRewrites(t *testing.T) {
	for _, pattern := range []string{"POST /api/login", "/api/{page}", "POST example.com/api/{page}", "/api/{page...}"} {
		rule := core.Rule{Key: func(*http.Request) (string, error) { return "const:all", nil }, Limits: []core.Limit{core.PerHour(5)}, Routes: []string{"POST /api/login"}}
		logins := 0
		limited := stdlib.New(core.Must(core.New([]core.Rule{rule})))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { logins++ }))
		mux := http.NewServeMux()
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.URL = &url.URL{Path: "/elsewhere"}
			limited.ServeHTTP(w, r)
		})
		for range 20 {
			mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/login", nil))
		}
		if logins != 5 {
			t.Errorf("%s: %d logins, want 5", pattern, logins)
		}
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
				at := must.Get(url.Parse(backend.URL))(t)
				return wrap(app.Cleaned(httputil.NewSingleHostReverseProxy(at)), app.Guards)
			}})
		})
	}
}
