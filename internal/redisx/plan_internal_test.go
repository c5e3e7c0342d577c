package redisx

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// A server caches a bounded number of plans, so requests that differ only in their costs and waits share a plan.
func TestCostsAndWaitsShareAPlan(t *testing.T) {
	s := frozenStore(t)
	three := core.MustParseLimits("100/s, 1000/m, 5000/h")
	claimsOf := func(cost int, wait time.Duration) []core.Claim {
		return []core.Claim{
			{Rule: "api", Key: "a", Limits: three, Cost: cost, MaxWait: wait},
			{Rule: "all", Key: "b", Limits: core.MustParseLimits("9/m;fixed-window, 9 at once"), Cost: cost + 1, Hold: true},
			{Rule: "api", Key: "a", Limits: three, Cost: cost, DryRun: true},
		}
	}
	settlementsOf := func(cost int, wait time.Duration) []core.Settlement {
		return []core.Settlement{{Rule: "api", Key: "a", Limits: three, Cost: cost, Final: cost / 2, At: time.Now().Add(-wait), MaxWait: wait, Wait: wait / 2}}
	}
	var jobs []*job
	for _, how := range []routing{anyKeys, byKey} {
		for cost := range 5 {
			wait := time.Duration(cost) * time.Second
			take := must.Get(s.decider.layout.newTake(claimsOf(2+1000*cost, wait)))(t)
			for _, j := range []*job{take, s.decider.layout.newSettle(settlementsOf(2+1000*cost, wait))} {
				if how != anyKeys {
					how.split(j, s.decider.layout)
				}
				if len(j.parts) == 0 {
					jobs = append(jobs, j)
				}
				for i := range j.parts {
					jobs = append(jobs, &j.parts[i])
				}
			}
		}
	}
	plans := make(map[string]bool)
	for _, j := range jobs {
		j.prepare(false)
		plans[j.plan] = true
	}
	if len(plans) != 4 { // of all claims, of the claims of each key, and of the settlement
		t.Errorf("%d plans, want 4: %v", len(plans), plans)
	}
	for range 10 { // the jobs of a call stay in their order, and a plan that follows itself is sent once
		rand.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		words, last := callOf(0, jobs), ""
		args := words[3+words[2].(int):]
		for i, j := range jobs {
			plan, numbers := args[2*i], args[2*i+1]
			if want := j.plan; j.plan == last && plan != "" || j.plan != last && plan != want || numbers != j.words {
				t.Fatalf("job %d after %q: sent %q, want %q", i, last, plan, want)
			}
			last = j.plan
		}
	}
}

// A job that only peeks still decides for the sum of its claims.
func TestPeekingJobDecidesForAllItsClaims(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, limits := range []string{"9/d", "9/d;fixed-window", "9/d;sliding-window", "9/d;sliding-log"} {
			c := core.Claim{Key: limits, Limits: core.MustParseLimits(limits), Cost: 5}
			peek := c
			peek.Peek = true
			dry := c
			dry.DryRun = true
			for _, row := range []struct {
				claims []core.Claim
				want   bool
			}{
				{[]core.Claim{c, c}, false},
				{[]core.Claim{c}, true},
				{[]core.Claim{c, peek}, true},
				{[]core.Claim{c, dry}, true},
			} {
				j := s.jobOf(t, row.claims...)
				j.prepare(true)
				s.mustRun(t, j)
				if j.admitted() != row.want || s.remains(t, c) != 9 {
					t.Errorf("%s: %d claims: %+v, want %v, and nothing charged", limits, len(row.claims), j.usages, row.want)
				}
			}
		}
	})
}
