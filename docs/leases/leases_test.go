// Package leases holds the snippets about leases of docs/redis.md and docs/scale.md.
package leases

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
)

// No deadline passes in the bubble while Redis decides.
func TestTenantsHaveLimits(t *testing.T) {
	server := redistest.Start(t)
	synctest.Test(t, func(t *testing.T) {
		l := must.Get(tenantLimiter(server.Client(t), keyfunc.Const("all")))(t)
		for tenant, cost := range map[string]int{"a": 50_000, "b": 50_001} {
			d := must.Get(l.Take(context.Background(), core.Claim{Rule: "tenant", Key: "user:" + tenant, Cost: cost}))(t)
			expect.Equal(t, d.Allowed, cost == 50_000, "tenant %s: %+v", tenant, d)
		}
	})
}

func TestRulesStayTheSame(t *testing.T) {
	rules := []core.Rule{core.PerHour(1).By(keyfunc.Const("all"))}
	one := must.Get(alone(rules))(t)
	server := redistest.Start(t)
	two := must.Get(together(rules, server.Addr))(t)
	three := must.Get(together(rules, server.Addr))(t)
	attempt := 0
	redistest.Wait(t, "three decisions in time", func() bool { // on a busy machine the server may be late
		attempt++
		for i, l := range []*core.Limiter{one, two, three} {
			d, err := l.Take(context.Background(), core.Claim{Key: fmt.Sprint("const:", attempt)})
			if d.Degraded != nil {
				return false
			}
			expect.True(t, err == nil && d.Allowed == (i < 2), "limiter %d: %+v, %v", i+1, d, err)
		}
		return true
	})
}
