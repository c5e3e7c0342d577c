package routers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/julienschmidt/httprouter"
	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

func status(h http.Handler, method, path string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code
}

// In a limited group, a request to a route with its own limiter is charged by both limiters.
func TestGroupsAndSingleRoutes(t *testing.T) {
	plain := func(http.ResponseWriter, *http.Request) {}
	inGin := func(c *gin.Context) { c.Status(http.StatusOK) }
	inEcho := func(c echo.Context) error { return c.NoContent(http.StatusOK) }
	for name, build := range map[string]func(api, export *core.Limiter) http.Handler{
		"chi":  func(api, export *core.Limiter) http.Handler { return withChi(api, export, plain, plain) },
		"gin":  func(api, export *core.Limiter) http.Handler { return withGin(api, export, inGin, inGin) },
		"echo": func(api, export *core.Limiter) http.Handler { return withEcho(api, export, inEcho, inEcho) },
	} {
		t.Run(name, func(t *testing.T) {
			api := core.Must(core.New([]core.Rule{perAPI(keyfunc.RemoteIP)}))
			h := build(api, core.Must(core.New([]core.Rule{perExport(keyfunc.RemoteIP)})))
			count := map[int]int{}
			for range 7 {
				count[status(h, http.MethodPost, "/api/export")]++
			}
			for range 95 {
				count[status(h, http.MethodGet, "/api/items")]++
			}
			expect.True(t, count[200] >= 98 && count[200] <= 99 && count[429] == 102-count[200],
				"statuses %v, want 5 exports and 93 others served", count)
		})
	}
}

// These routers accept net/http middleware. Each admits the same number of requests.
func TestOtherRouters(t *testing.T) {
	limiter := func() *core.Limiter { return core.Must(core.New([]core.Rule{core.PerHour(3).By(keyfunc.RemoteIP)})) }
	for name, h := range map[string]http.Handler{
		"gorilla/mux": withGorilla(limiter(), func(http.ResponseWriter, *http.Request) {}),
		"httprouter":  withHTTPRouter(limiter(), func(http.ResponseWriter, *http.Request, httprouter.Params) {}),
	} {
		for n := range 5 {
			expect.Equal(t, status(h, http.MethodGet, "/items/3"), map[bool]int{true: 200, false: 429}[n < 3], "%s: request %d", name, n+1)
		}
	}
}

// In Fiber a denial has the right status, headers and body, and an admitted request has the headers.
func TestFiber(t *testing.T) {
	app := withFiber(core.Must(core.New([]core.Rule{core.PerHour(3).By(keyfunc.RemoteIP)})), func(c fiber.Ctx) error { return c.SendString("item " + c.Params("id")) })
	for n := range 5 {
		resp := must.Get(app.Test(httptest.NewRequest(http.MethodGet, "/items/3", nil)))(t)
		body := must.Get(io.ReadAll(resp.Body))(t)
		want, text := 200, "item 3"
		if n >= 3 {
			want, text = 429, `"violated-policies":["default"]`
		}
		expect.True(t, resp.StatusCode == want && resp.Header.Get("X-RateLimit-Limit") == "3" && strings.Contains(string(body), text),
			"request %d: %d, %v, %s", n+1, resp.StatusCode, resp.Header, body)
	}
}

// Fiber's adaptor ends the middleware before the handler runs, so a limiter sees no status: failed logins are free.
func TestFiberHidesTheResponse(t *testing.T) {
	rule := core.PerHour(3).By(keyfunc.RemoteIP)
	rule.CostAfter = core.Failures
	app := withFiber(core.Must(core.New([]core.Rule{rule})), func(c fiber.Ctx) error { return c.SendStatus(http.StatusUnauthorized) })
	for range 5 {
		resp := must.Get(app.Test(httptest.NewRequest(http.MethodGet, "/items/3", nil)))(t)
		must.Equal(t, resp.StatusCode, http.StatusUnauthorized, "%v; docs/recipes.md says that failures are not seen", resp)
	}
}
