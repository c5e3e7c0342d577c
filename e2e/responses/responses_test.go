package responses

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
)

// each runs f for every framework, by HTTP/1.1 and by HTTP/2.
func each(t *testing.T, f func(t *testing.T, framework apps.Framework, http2 bool)) {
	for _, framework := range apps.Frameworks {
		for _, p := range wire.Protocols {
			t.Run(framework.Name+"/"+p.Name, func(t *testing.T) { f(t, framework, p.HTTP2) })
		}
	}
}

// eachOf serves h behind a limit of n by every framework and protocol. It does so for each of limiters.
func eachOf(t *testing.T, n int, h http.HandlerFunc, f func(t *testing.T, s *wire.Server)) {
	each(t, func(t *testing.T, framework apps.Framework, http2 bool) {
		for name, l := range limiters(n) {
			t.Run(name, func(t *testing.T) { f(t, wire.Serve(t, framework.Build(apps.Limited(l, h)), http2)) })
		}
	})
}

// limiters returns limiters of n per hour. One charges a request when it arrives, the other when its response has ended.
func limiters(n int) map[string]*core.Limiter {
	rule := core.PerHour(n).Using(core.SlidingLog).By(wire.Anyone)
	rule.CostAfter = func(_ *http.Request, o core.Outcome) int { return o.Cost }
	return map[string]*core.Limiter{"when it comes": wire.PerHour(n), "when it has ended": core.Must(core.New([]core.Rule{rule}))}
}
