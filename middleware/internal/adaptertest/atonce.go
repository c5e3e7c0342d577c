package adaptertest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// testAtOnce checks a limit of requests in flight: a request takes a place until its handler has ended, however it ends.
// Only a denial shows such a limit.
func testAtOnce(t *testing.T, a Adapter) {
	for why, end := range map[string]func(w http.ResponseWriter){
		"returns": func(http.ResponseWriter) {},
		"panics":  func(http.ResponseWriter) { panic("oops") },
		"aborts":  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		for _, final := range []func(*http.Request, core.Outcome) int{nil, core.Failures} {
			t.Run(fmt.Sprintf("%s, watched %v", why, final != nil), func(t *testing.T) { a.oneAtOnce(t, end, final) })
		}
	}
}

func (a Adapter) oneAtOnce(t *testing.T, end func(http.ResponseWriter), final func(*http.Request, core.Outcome) int) {
	l := newLimiter(new(core.MemoryStore), core.Rule{Name: "up", Key: anyone, Limits: []core.Limit{core.AtOnce(1)}, CostAfter: final})
	started, release := make(chan bool), make(chan bool)
	first := true
	app := a.Build(App{Guards: []Guard{{Limiter: l}, {Limiter: l}}, Routes: []Route{{Pattern: "/", Handler: func(w http.ResponseWriter, r *http.Request) {
		if !first {
			ok(w, r)
			return
		}
		first = false
		close(started)
		<-release
		end(w)
	}}}})
	ended := make(chan bool, 9)
	s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- true }()
		app.ServeHTTP(w, r)
	}), false)
	go func() {
		if resp, err := s.Client().Get(s.URL); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-started
	denied := s.get("/")
	<-ended
	denied.wantStatus(t, http.StatusTooManyRequests)
	if h := denied.Header; h.Get("Retry-After") != "1" || h.Get("X-RateLimit-Limit") != "1" || h.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("denied with %v", h)
	}
	close(release)
	<-ended
	got := s.get("/")
	got.wantStatus(t, http.StatusOK)
	got.wantLimiting(t)
}
