package testing

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// newShop returns the handler of the program under test.
func newShop() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	login := core.Rule{Name: "login", Key: keyfunc.RemoteIP, Routes: []string{"POST /login"}, Limits: core.MustParseLimits("5/15m;sliding-log")}
	return stdlib.New(core.Must(core.New([]core.Rule{login})))(mux)
}

func TestSixthLoginIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := newShop() // in the bubble, so that its clock is the fake one
		login := func(from string) *httptest.ResponseRecorder {
			r, w := httptest.NewRequest(http.MethodPost, "/login", nil), httptest.NewRecorder()
			r.RemoteAddr = from + ":40000"
			shop.ServeHTTP(w, r)
			return w
		}
		for range 5 {
			login("203.0.113.9")
		}
		denied := login("203.0.113.9")
		if denied.Code != http.StatusTooManyRequests || denied.Header().Get("Retry-After") != "900" {
			t.Errorf("got %d, Retry-After %q", denied.Code, denied.Header().Get("Retry-After"))
		}
		if got := login("203.0.113.10").Code; got != http.StatusUnauthorized {
			t.Errorf("another address: got %d", got)
		}
		time.Sleep(15 * time.Minute) // takes no time in a bubble
		if got := login("203.0.113.9").Code; got != http.StatusUnauthorized {
			t.Errorf("after 15 minutes: got %d", got)
		}
	})
}
