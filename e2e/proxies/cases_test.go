package proxies

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/proxy"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/ipcases"
	"github.com/spillgate/spillgate/keyfunc"
)

// TestCases sends the header fields of each case through an nginx that passes them on unchanged. The peer address of a case
// is not available on loopback, so it is set by the server.
func TestCases(t *testing.T) {
	var app atomic.Value // of http.HandlerFunc
	addr := proxy.Start(t, proxy.Nginx{
		Listen: "127.0.0.1", Mute: true,
		Upstream: serve(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { app.Load().(http.HandlerFunc)(w, r) })),
	})
	client := connect(t, addr, client)
	for _, c := range ipcases.All(t) {
		for _, f := range apps.Frameworks {
			t.Run(c.Name+"/"+f.Name, func(t *testing.T) {
				var keys recorder
				built := f.Build(apps.Limited(recording(c.Config, &keys), wire.OK))
				app.Store(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.RemoteAddr = c.RemoteAddr
					built.ServeHTTP(w, r)
				}))
				got := wire.Send(t, client, wire.Request(t, http.MethodGet, "http://example.com/", nil, c.Fields()...))
				got.WantStatus(t, c.Status())
				key := keys.take()
				expect.True(t, c.Status() != http.StatusOK || key == c.Want, "key %q, want %q", key, c.Want)
			})
		}
	}
}

// recording returns a limiter that records keys. Its configuration may be invalid.
func recording(config ipcases.Config, keys *recorder) *core.Limiter {
	find := keyfunc.ClientIP(config).Key
	return core.Must(core.New([]core.Rule{core.PerHour(1).By(func(r *http.Request) (string, error) {
		key, err := find(r)
		keys.set(key)
		return key, err
	})}))
}
