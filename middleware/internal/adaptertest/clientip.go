package adaptertest

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

//go:embed testdata/client-ip.json
var clientIPCases []byte

// testClientIP checks that the key is that of keyfunc.ClientIP and not what the framework makes of the request.
func testClientIP(t *testing.T, a Adapter) {
	var cases []struct {
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
	if err := json.Unmarshal(clientIPCases, &cases); err != nil || len(cases) < 20 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			store := &script{results: []core.Result{half}}
			rule := core.Rule{Key: keyfunc.ClientIP(c.Config).Key, Limits: []core.Limit{perMinute}}
			app := a.Build(single(Guard{Limiter: newLimiter(store, rule)}))
			s := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = c.RemoteAddr
				app.ServeHTTP(w, r)
			}), false)
			var fields []string
			for _, h := range c.Headers {
				fields = append(fields, h[0]+": "+h[1])
			}
			got := s.do(http.MethodGet, "/", fields...)
			if status := map[string]int{"error": 400, "invalid": 500}[c.Want]; status != 0 {
				got.wantStatus(t, status)
				return
			}
			got.wantStatus(t, 200)
			if keys := store.asked(); !slices.Equal(keys, []string{c.Want}) {
				t.Errorf("key %q, want %q", keys, c.Want)
			}
		})
	}
}
