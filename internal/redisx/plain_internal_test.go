package redisx

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
)

// plainPlansCases are the cases of TestPlainPlans.
var plainPlansCases = []struct {
	why, limits string
	claim       core.Claim
	plain       bool
}{
	{"one bucket", "10/m", core.Claim{}, true},
	{"several of a pair", "10/s, 100/m", core.Claim{}, true},
	{"all that a bucket admits", "10/m", core.Claim{Cost: 10}, true},
	{"more than it ever admits is not", "10/m", core.Claim{Cost: 11}, false},
	{"nor is a bucket of rate 0", "0/m", core.Claim{}, false},
	{"nor one of coarse ticks", "1000000/d", core.Claim{}, false},
	{"nor another algorithm", "10/m;fixed-window", core.Claim{}, false},
	{"nor both", "10/m, 10/m;sliding-window", core.Claim{}, false},
	{"nor a peek", "10/m", core.Claim{Peek: true}, false},
	{"nor a dry run", "10/m", core.Claim{DryRun: true}, false},
	{"a hold", "10/m", core.Claim{Hold: true}, true},
	{"a hold of several limits", "10/s, 3 at once, 100/m", core.Claim{Hold: true, Cost: 2}, true},
	{"more than is ever admitted at once is not", "0 at once", core.Claim{Hold: true}, false},
	{"nor a hold with another algorithm", "10/m;fixed-window, 2 at once", core.Claim{Hold: true}, false},
	{"nor one that peeks", "2 at once", core.Claim{Peek: true}, false},
}

// TestPlainPlans checks which plans lua/plain.lua decides, and that the load of a batch counts them so.
func TestPlainPlans(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := New(client, Options{Prefix: "p"})
	for _, row := range plainPlansCases {
		row.claim.Limits = core.MustParseLimits(row.limits)
		j := s.jobOf(t, row.claim)
		source := plain + "return isPlain(newPlan(ARGV[1])) and 1 or 0"
		n, err := client.Eval(context.Background(), source, nil, j.plan).Int()
		if err != nil || (n == 1) != row.plain {
			t.Errorf("%s: %d, %v", row.why, n, err)
		}
		if load := j.load(); (load == len(j.asks)*plainLoad) != row.plain && row.claim.Cost < 11 && row.limits != "0/m" && row.limits != "0 at once" {
			t.Errorf("%s: a load of %d", row.why, load)
		}
	}
	both := core.Claim{Limits: core.MustParseLimits("10/m")}
	j := s.jobOf(t, both, both)
	if n, err := client.Eval(context.Background(), plain+"return isPlain(newPlan(ARGV[1])) and 1 or 0", nil, j.plan).Int(); n != 0 || err != nil {
		t.Errorf("two claims of one state: %d, %v, want them not to be plain", n, err)
	}
}
