package recipes

import (
	"fmt"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// Two services with one prefix refuse each other's clients; with prefixes of their own they do not.
func TestServicesShareWhatHasOnePrefix(t *testing.T) {
	server := redistest.Start(t)
	rules := []core.Rule{{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(3)}, OnFailure: core.FailClosed}}
	take := func(service string) bool {
		var d core.Decision
		redistest.Wait(t, "a decision of "+service, func() bool {
			l, err := shared(rules, fmt.Sprintf("127.0.0.1:%d", server.Port()), service)
			if err != nil {
				t.Fatal(err)
			}
			d, err = l.Take(t.Context(), core.Claim{Rule: "api", Key: "ip:203.0.113.9", Cost: 3})
			return err == nil
		})
		return d.Allowed
	}
	for _, row := range []struct {
		service string
		allowed bool
	}{{"shop", true}, {"shop", false}, {"blog", true}} {
		if got := take(row.service); got != row.allowed {
			t.Errorf("%s: allowed %v, want %v", row.service, got, row.allowed)
		}
	}
}
