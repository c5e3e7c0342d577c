package proxy

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/nginx"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/keyfunc"
)

// cases is the file that the tests of each adapter read.
const cases = "../../middleware/internal/adaptertest/testdata/client-ip.json"

// A clientIPCase is a request and the key it must have: "error" is a 400, "invalid" a 500.
type clientIPCase struct {
	Name   string
	Config struct {
		Trusted  []netip.Prefix
		Unix     bool
		Hops     int
		Header   string
		IPv6Bits int
	}
	RemoteAddr string `json:"remote_addr"`
	Headers    [][2]string
	Want       string
}

// TestCases sends the header fields of each case through an nginx that passes them on unchanged. The peer address of a case
// is not available on loopback, so it is set by the server.
func TestCases(t *testing.T) {
	text, err := os.ReadFile(cases)
	if err != nil {
		t.Fatal(err)
	}
	var all []clientIPCase
	if err := json.Unmarshal(text, &all); err != nil || len(all) < 20 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	var app atomic.Value // of http.HandlerFunc
	addr := nginx.Start(t, nginx.Proxy{
		Listen: "127.0.0.1", Mute: true,
		Upstream: serve(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { app.Load().(http.HandlerFunc)(w, r) })),
	})
	client := connect(t, addr, client)
	for _, c := range all {
		for _, f := range apps.Frameworks {
			t.Run(c.Name+"/"+f.Name, func(t *testing.T) {
				var keys recorder
				built := f.Build(apps.Limited(c.limiter(&keys), wire.OK))
				app.Store(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.RemoteAddr = c.RemoteAddr
					built.ServeHTTP(w, r)
				}))
				c.check(t, wire.Send(t, client, wire.Request(t, http.MethodGet, "http://example.com/", nil, c.fields()...)), keys.take())
			})
		}
	}
}

// limiter returns a limiter by the configuration of c, which may be invalid.
func (c *clientIPCase) limiter(keys *recorder) *core.Limiter {
	find := keyfunc.ClientIP(c.Config).Key
	return core.Must(core.New([]core.Rule{core.PerHour(1).By(func(r *http.Request) (string, error) {
		key, err := find(r)
		keys.set(key)
		return key, err
	})}))
}

func (c *clientIPCase) fields() (fields []string) {
	for _, h := range c.Headers {
		fields = append(fields, h[0]+": "+h[1])
	}
	return fields
}

func (c *clientIPCase) check(t *testing.T, got wire.Reply, key string) {
	t.Helper()
	if status := map[string]int{"error": http.StatusBadRequest, "invalid": http.StatusInternalServerError}[c.Want]; status != 0 {
		got.WantStatus(t, status)
		return
	}
	got.WantStatus(t, http.StatusOK)
	if key != c.Want {
		t.Errorf("key %q, want %q", key, c.Want)
	}
}
