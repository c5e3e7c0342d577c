package adaptertest

import (
	"bytes"
	_ "embed"
	"log/slog"
	"net/http"
	"slices"
	"strings"
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

// testRewrittenAddress checks that the limiter logs the first request whose address a middleware has rewritten, and says
// what to do.
func testRewrittenAddress(t *testing.T, a Adapter) {
	for _, row := range []struct {
		name   string
		key    core.KeyFunc
		status int
	}{
		{"RemoteIP", keyfunc.RemoteIP, 500},
		{"ClientIP", keyfunc.ClientIP{}.Key, 500},
		{"First", keyfunc.First(keyfunc.APIKey("X-Api-Key"), keyfunc.RemoteIP), 500},
		{"RewrittenIP", keyfunc.RewrittenIP, 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			limiter := core.Must(core.New([]core.Rule{perMinute.By(row.key)}, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
			app := a.Build(single(Guard{Limiter: limiter}))
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = r.Header.Get("X-Real-Ip") // as chi's RealIP and gorilla's ProxyHeaders do
				app.ServeHTTP(w, r)
			})
			s := serveHandler(t, h, false)
			for range 3 {
				s.do(http.MethodGet, "/", "X-Real-Ip: 203.0.113.9").wantStatus(t, row.status)
			}
			s.Close()
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if row.status == 200 {
				if lines[0] != "" {
					t.Errorf("logged %q", lines)
				}
				return
			}
			for _, want := range []string{"level=ERROR", "203.0.113.9", "outside of that middleware", "keyfunc.ClientIP", "keyfunc.RewrittenIP"} {
				if !strings.Contains(lines[0], want) {
					t.Errorf("logged %q, want %q in it", lines, want)
				}
			}
		})
	}
}
