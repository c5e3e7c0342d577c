package recipes

import (
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// monitored counts neither the probes of a load balancer nor CORS preflights.
func monitored() *core.Limiter {
	probe := func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Path == "/healthz" }
	rules := []core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}
	return core.Must(core.New(rules, core.WithSkip(probe), core.WithSkip(core.Preflight)))
}
