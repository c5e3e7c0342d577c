package core_test

import (
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// plainRules are rules with one token bucket each, of which nearly all decisions are.
func plainRules() []core.Rule {
	trial := dry(perHour("trial", 5))
	login := perHour("login", 5)
	login.Final = core.Failures
	return []core.Rule{perHour("r", 5), trial, login, perHour("many", 1000), perHour("none", 0)}
}

// variations are claims of cost 2 that ask for one thing more, or that cost another amount.
func variations() map[string]core.Claim {
	all := map[string]core.Claim{}
	for name, c := range map[string]core.Claim{
		"a charge":           {},
		"a peek":             {Peek: true},
		"a dry run":          {DryRun: true},
		"a hold":             {Hold: true},
		"a held peek":        {Hold: true, Peek: true},
		"a lease":            {Lease: time.Second},
		"a lease, too short": {Lease: 1},
		"what is for Settle": {Final: 3, Ban: time.Hour, Renew: true},
	} {
		c.Key, c.Cost = "k", 2
		all[name] = c
	}
	for name, cost := range map[string]int{"free": 0, "one": 1, "much": 255, "more": 256, "far more": 300, "most": math.MaxInt, "less than nothing": -1} {
		all[name] = core.Claim{Key: "k", Cost: cost}
	}
	all["without a key"] = core.Claim{Cost: 2}
	return all
}

// TestTakeOfOneClaim compares claims that leave out their limits, which a limiter decides without the machinery for several, with
// claims that name those of their rule.
func TestTakeOfOneClaim(t *testing.T) {
	rules := plainRules()
	for name, claim := range variations() {
		for i := range rules {
			t.Run(name+" of "+rules[i].Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					short := &taker{limiter: core.Must(core.New(rules))}
					full := &taker{limiter: core.Must(core.New(rules))}
					claim.Rule = rules[i].Name
					named := claim
					named.Limits = []core.Limit{rules[i].Limits[0]}
					for n := range 4 {
						got, want := short.take(t, claim), full.take(t, named)
						if !reflect.DeepEqual(got, want) {
							t.Fatalf("take %d:\ngot  %+v\nwant %+v", n+1, got, want)
						}
						time.Sleep(time.Second)
					}
				})
			})
		}
	}
}

// A taker has a limiter decide, and gives back each second decision.
type taker struct {
	limiter *core.Limiter
	takes   int
}

// A taking is all that shows of a decision.
type taking struct {
	decision core.Decision
	err      string
	health   core.Health
	left     int // after a refund, if there was one
}

func (x *taker) take(t *testing.T, c core.Claim) (got taking) {
	d, err := x.limiter.Take(t.Context(), c)
	got.decision = core.Decision{Allowed: d.Allowed, At: d.At, Results: d.Results, Degraded: d.Degraded}
	if err != nil {
		got.err = err.Error()
	}
	if x.takes++; x.takes%2 == 0 {
		if err := x.limiter.Refund(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	got.health = x.limiter.StoreHealth()
	peek, err := x.limiter.Take(t.Context(), core.Claim{Rule: c.Rule, Key: "k", Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	got.left = peek.Results[0].Remaining
	return got
}
