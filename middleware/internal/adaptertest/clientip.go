package adaptertest

import (
	_ "embed"
	"net/http"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/ipcases"
	"github.com/spillgate/spillgate/keyfunc"
)

// testClientIP checks that the key comes from keyfunc.ClientIP, and not the framework's own client address.
func testClientIP(t *testing.T, a Adapter) {
	for _, c := range ipcases.All(t) {
		t.Run(c.Name, func(t *testing.T) {
			store := &script{results: []core.Result{half}}
			rule := core.Rule{Key: keyfunc.ClientIP(c.Config).Key, Limits: []core.Limit{perMinute}}
			app := a.Build(single(Guard{Limiter: newLimiter(store, rule)}))
			s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = c.RemoteAddr
				app.ServeHTTP(w, r)
			}), false)
			got := s.do(http.MethodGet, "/", c.Fields()...)
			got.wantStatus(t, c.Status())
			if c.Status() != http.StatusOK {
				return
			}
			if keys := store.asked(); !slices.Equal(keys, []string{c.Want}) {
				t.Errorf("key %q, want %q", keys, c.Want)
			}
		})
	}
}
