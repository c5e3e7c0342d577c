package stdlib_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// TestAtOnceInsideTimeoutHandler checks that a handler that outlives its timeout keeps its place.
func TestAtOnceInsideTimeoutHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		var running atomic.Int64
		slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			running.Add(1)
			<-release
		})
		l := core.Must(core.New([]core.Rule{core.AtOnce(2).By(func(*http.Request) (string, error) { return "const:all", nil })}))
		h := http.TimeoutHandler(stdlib.New(l)(slow), time.Second, "")
		var codes [5]int
		for i := range codes {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			codes[i] = w.Code
		}
		if want := [5]int{503, 503, 429, 429, 429}; codes != want || running.Load() != 2 {
			t.Errorf("got %v and %d handlers, want %v and 2", codes, running.Load(), want)
		}
		close(release)
	})
}
