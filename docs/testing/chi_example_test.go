package testing

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

func TestChi(t *testing.T) {
	r := chi.NewRouter()
	r.Use(chilimit.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(keyfunc.RemoteIP)}))))
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want {
			t.Errorf("got %d, want %d", w.Code, want)
		}
	}
}
