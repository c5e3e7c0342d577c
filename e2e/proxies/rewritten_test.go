package proxies

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5/middleware"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/keyfunc"
)

// chi's RealIP copies header values of the client into RemoteAddr. They must not choose the key.
func TestRewrittenAddressIsRejected(t *testing.T) {
	trusting := keyfunc.ClientIP{Trusted: loopback6, Hops: 1}
	for name, key := range map[string]core.KeyFunc{"RemoteIP": keyfunc.RemoteIP, "ClientIP": trusting.Key} {
		for _, f := range apps.Frameworks {
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				app := f.Build(apps.Limited(core.Must(core.New([]core.Rule{core.PerMinute(5).By(key)})), wire.OK))
				s := wire.Serve(t, middleware.RealIP(app), false) //nolint:staticcheck // the test needs an address that clients can forge
				for i := range 10 {
					for _, header := range []string{"X-Real-IP", "True-Client-IP", "X-Forwarded-For"} {
						s.Get("/", fmt.Sprintf("%s: 203.0.113.%d", header, i)).WantStatus(t, http.StatusInternalServerError)
						s.Get("/", fmt.Sprintf("%s: 2001:db8::%d", header, i)).WantStatus(t, http.StatusInternalServerError)
					}
				}
			})
		}
	}
}

// RewrittenIP is for servers where only trusted code sets RemoteAddr.
func TestRewrittenIPUsesTheRewrittenAddress(t *testing.T) {
	for _, f := range apps.Frameworks {
		t.Run(f.Name, func(t *testing.T) {
			app := f.Build(apps.Limited(core.Must(core.New([]core.Rule{core.PerHour(1).By(keyfunc.RewrittenIP)})), wire.OK))
			s := wire.Serve(t, middleware.RealIP(app), false) //nolint:staticcheck // the test needs an address that clients can forge
			s.Get("/", "X-Real-IP: 203.0.113.1").WantStatus(t, http.StatusOK)
			s.Get("/", "X-Real-IP: 203.0.113.1").WantStatus(t, http.StatusTooManyRequests)
			s.Get("/", "X-Real-IP: 203.0.113.2").WantStatus(t, http.StatusOK)
		})
	}
}
