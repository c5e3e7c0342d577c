package core_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
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
	login.CostAfter = core.Failures
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
// claims that name the limits of their rule.
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

// TestObserversOfOneClaim has decisions without a context, and a key func that fails where it would have held.
func TestObserversOfOneClaim(t *testing.T) {
	var ctx context.Context
	var request *http.Request
	var claims []core.Claim
	observe := func(c context.Context, o *core.Observation) {
		ctx, request, claims = c, o.Request, append(claims, o.Claims...)
	}
	login := perHour("login", 5)
	login.CostAfter = core.Failures
	login.Key = func(*http.Request) (string, error) { return "", core.ErrNoKey }
	l := core.Must(core.New([]core.Rule{perHour("r", 5)}, core.WithObserver(observe)))
	for n := range 2 { // of a new key and of a known one
		ctx = nil
		if _, err := l.Take(nil, core.Claim{Rule: "r", Key: "k"}); err != nil || ctx == nil || len(claims) != n+1 { //nolint:staticcheck // nil is what is tested
			t.Fatalf("take %d: observed with the context %v and claims %+v, error %v", n+1, ctx, claims, err)
		}
	}
	if !reflect.DeepEqual(claims[0], claims[1]) {
		t.Errorf("observed %+v of a new key and %+v of a known one", claims[0], claims[1])
	}
	if _, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Peek: true}); err != nil || len(claims) != 2 {
		t.Errorf("a peek is observed: %+v, error %v", claims, err)
	}
	for n := range 2 {
		r := get("/")
		if _, err := l.Check(r); err != nil || request != r {
			t.Errorf("check %d: observed with the request %v, error %v", n+1, request, err)
		}
	}
	claims = nil
	l = core.Must(core.New([]core.Rule{login}, core.WithObserver(observe), core.WithLogger(slog.New(slog.DiscardHandler))))
	if _, err := l.Check(get("/")); !errors.Is(err, core.ErrNoKey) || len(claims) != 1 || claims[0].Hold || claims[0].Cost != 1 {
		t.Errorf("got %v and claims %+v, want one of cost 1 that holds nothing", err, claims)
	}
}

// TestOneLimitTakesOneAllocation checks that the decision of a rule with one limit is one object, whatever measures it.
func TestOneLimitTakesOneAllocation(t *testing.T) {
	for _, a := range []core.Algorithm{core.TokenBucket, core.FixedWindow} {
		rule := core.PerDay(1_000_000).Using(a).By(keyK)
		l, r := core.Must(core.New([]core.Rule{rule})), get("/")
		for name, decide := range map[string]func(){
			"Check": func() { l.Check(r) },
			"Peek":  func() { l.Peek(r) },
			"Take":  func() { l.Take(t.Context(), core.Claim{Key: "k"}) },
		} {
			if decide(); testing.AllocsPerRun(100, decide) > 1 {
				t.Errorf("%s of a %v allocates more than its decision", name, a)
			}
		}
	}
}
