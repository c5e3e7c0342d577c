package testing

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
)

func TestGin(t *testing.T) {
	gin.SetMode(gin.TestMode)
	r := gin.New()
	r.Use(ginlimit.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(keyfunc.RemoteIP)}))))
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusOK) })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want {
			t.Errorf("got %d, want %d", w.Code, want)
		}
	}
}
