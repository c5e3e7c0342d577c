package testing

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

func TestEchoV5(t *testing.T) {
	e := echo.New()
	e.Use(echolimit.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(keyfunc.RemoteIP)}))))
	e.GET("/", func(c *echo.Context) error { return c.NoContent(http.StatusOK) })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want {
			t.Errorf("got %d, want %d", w.Code, want)
		}
	}
}
