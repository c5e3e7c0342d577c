package testing

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func TestThirdDownloadIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		download := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done })
		app := stdlib.New(core.Must(core.New([]core.Rule{core.AtOnce(2).By(keyfunc.RemoteIP)})))(download)
		get := func() int {
			w := httptest.NewRecorder()
			app.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			return w.Code
		}
		go get()
		go get()
		synctest.Wait() // both are in the handler
		if got := get(); got != http.StatusTooManyRequests {
			t.Errorf("the third: got %d", got)
		}
		close(done)
		synctest.Wait()
		if got := get(); got != http.StatusOK {
			t.Errorf("after the two: got %d", got)
		}
	})
}
