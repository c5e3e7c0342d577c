package recipes

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// Two services with one prefix share limits, so they deny each other's clients. Services with different prefixes do
// not.
func TestServicesWithOnePrefixShareLimits(t *testing.T) {
	server := redistest.Start(t)
	rules := []core.Rule{{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(3)}, OnFailure: core.FailClosed}}
	attempt := 0
	redistest.Wait(t, "three decisions in time", func() bool { // on a busy machine the server may be late, and still charge
		attempt++
		for _, row := range []struct {
			service string
			allowed bool
		}{{"shop", true}, {"shop", false}, {"blog", true}} {
			l := must.Get(shared(rules, server.Addr, row.service))(t)
			d, err := l.Take(t.Context(), core.Claim{Rule: "api", Key: fmt.Sprint("user:", attempt), Cost: 3})
			if errors.Is(err, core.ErrUnavailable) {
				return false
			}
			if err != nil || d.Allowed != row.allowed {
				t.Errorf("%s: %+v, %v; want allowed %v", row.service, d, err, row.allowed)
			}
		}
		return true
	})
}
