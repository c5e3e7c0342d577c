package routers

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"
	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// guarded are the paths that the routers serve, each as a pattern of Routes.
var guarded = []string{"/login", "/v1/{tenant}/login", "/a/b/{$}"}

// colons translates a pattern into the notation of gin and echo.
func colons(pattern string) string {
	return strings.NewReplacer("{tenant}", ":tenant", "{$}", "").Replace(pattern)
}

// routers returns routers of all kinds. Each stores in hit the pattern that it served.
func routers(hit *string) map[string]http.Handler {
	served := func(pattern string) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) { *hit = pattern }
	}
	gin.SetMode(gin.ReleaseMode)
	all := map[string]http.Handler{}
	mux := http.NewServeMux()
	for _, p := range guarded {
		mux.Handle("POST "+p, served(p))
	}
	all["net/http"] = mux
	for name, use := range map[string][]func(http.Handler) http.Handler{
		"chi": nil, "chi, clean": {middleware.CleanPath}, "chi, stripped": {middleware.StripSlashes},
		"chi, clean and stripped": {middleware.CleanPath, middleware.StripSlashes},
	} {
		r := chi.NewRouter()
		r.Use(use...)
		for _, p := range guarded {
			r.Post(strings.TrimSuffix(p, "{$}"), served(p))
		}
		all[name] = r
	}
	for _, raw := range []bool{false, true} {
		for _, extra := range []bool{false, true} {
			g := gin.New()
			g.UseRawPath, g.RemoveExtraSlash = raw, extra
			for _, p := range guarded {
				g.POST(colons(p), gin.WrapF(served(p)))
			}
			all["gin"+map[bool]string{true: ", raw path"}[raw]+map[bool]string{true: ", extra slash"}[extra]] = g
		}
	}
	e, e5 := echo.New(), echov5.New()
	for _, p := range guarded {
		e.POST(colons(p), echo.WrapHandler(served(p)))
		e5.POST(colons(p), echov5.WrapHandler(served(p)))
	}
	all["echo"], all["echov5"] = e, e5
	return all
}

// received returns the request that a server reads from the line "METHOD TARGET", sent to example.com.
func received(t testing.TB, line string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: example.com\r\n\r\n")))
	if err != nil {
		t.Skipf("no server accepts %q: %v", line, err)
	}
	return r
}

// However a path is written, if a router serves it with a handler, Rule.Routes matches the handler's pattern.
func TestRoutesMatchWhatRoutersServe(t *testing.T) {
	rules := make([]core.Rule, len(guarded))
	for i, p := range guarded {
		rules[i] = core.PerHour(1_000_000).By(keyfunc.Const("all"))
		rules[i].Name, rules[i].Routes = "POST "+p, []string{"POST " + p}
	}
	l := core.Must(core.New(rules))
	var hit string
	all := routers(&hit)
	parts := rapid.SampledFrom([]string{
		"login", "v1", "a", "b", "x", "/", "/", "/", "//", ".", "..", "%2F", "%2f", "%2e", "%2E%2E", "%6Cogin", "%61", "%76%31", "%20", "%25", ";", "%5C", "\\",
	})
	check := func(tb rapid.TB, line string) (served int) {
		for name, router := range all {
			hit = ""
			router.ServeHTTP(httptest.NewRecorder(), received(t, line))
			if hit == "" {
				continue
			}
			served++
			d := must.Get(l.Peek(received(t, line)))(t)
			expect.True(tb, slices.ContainsFunc(d.Results, func(res core.Result) bool { return res.Rule == "POST "+hit }),
				"%s: %s is served by %s, and Routes see %+v", name, line, hit, d.Results)
		}
		return served
	}
	n := check(t, "POST /login")
	expect.True(t, n == len(all), "%d of %d routers serve POST /login", n, len(all))
	rapid.Check(t, func(rt *rapid.T) { check(rt, "POST /"+strings.Join(rapid.SliceOfN(parts, 1, 8).Draw(rt, "path"), "")) })
}
