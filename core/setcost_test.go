package core_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestSetCost(t *testing.T) {
	s := new(settler)
	outer := withStore(s, []core.Rule{final("tokens", 100_000, costOf), perHour("plain", 5)})
	inner := withStore(s, []core.Rule{final("tokens", 100_000, costOf), final("other", 9, costOf), withLimits("places", core.AtOnce(9))})
	var ctx context.Context
	serve(t, outer, func(r *http.Request, g *core.Guard) {
		in := must.Get(inner.Guard(r.Context(), r, nil))(t)
		ctx = in.Request().Context()
		for _, step := range []struct {
			why, rule string
			cost      int
			want      bool
		}{
			{"a rule under way", "tokens", 58, true},
			{"the last word counts", "tokens", 175, true},
			{"a negative cost", "tokens", -1, false},
			{"a rule without CostAfter", "plain", 5, false},
			{"a rule of requests in flight", "places", 5, false},
			{"a rule that there is not", "typo", 5, false},
			{"nothing at all", "other", 0, true},
		} {
			expect.Equal(t, core.SetCost(ctx, step.rule, step.cost), step.want, "%s", step.why)
		}
		in.Settle(core.Outcome{Status: 200})
		in.End()
		expect.True(t, core.SetCost(ctx, "tokens", 200) && !core.SetCost(ctx, "other", 3),
			"after the end of the inner limiter only the outer one is under way")
		g.Settle(core.Outcome{Status: 200})
	})
	s.want(t, "tokens 1→175", "other 1→0", "places 1→1", "tokens 1→200")
	expect.True(t, !core.SetCost(ctx, "tokens", 1) && !core.SetCost(context.Background(), "tokens", 1),
		"SetCost did something after the end of the request, or without one")
}

func TestSetCostIsSafeForConcurrentUse(t *testing.T) {
	s := new(settler)
	l := withStore(s, []core.Rule{final("tokens", 100_000, costOf)})
	var wg sync.WaitGroup
	serve(t, l, func(r *http.Request, g *core.Guard) {
		for i := range 8 {
			wg.Go(func() {
				for n := range 1000 {
					core.SetCost(r.Context(), "tokens", i*1000+n)
				}
			})
		}
		g.Settle(core.Outcome{})
	})
	wg.Wait()
	expect.Equal(t, len(s.settled), 1, "settled %v", s.finals())
}

func TestSetCostLogsAMistakeOncePerRuleName(t *testing.T) {
	log := new(expect.Buffer)
	idle := final("idle", 9, costOf)
	idle.Match = func(*http.Request) bool { return false }
	options := []core.Option{core.WithStore(new(settler)), core.WithLogger(log.Logger())}
	outer := core.Must(core.New([]core.Rule{final("outer", 9, costOf)}, options[0]))
	l := core.Must(core.New([]core.Rule{final("tokens", 9, costOf), idle, perHour("plain", 5)}, options...))
	for range 3 {
		serve(t, outer, func(r *http.Request, _ *core.Guard) {
			g := must.Get(l.Guard(r.Context(), r, nil))(t)
			ctx := g.Request().Context()
			core.SetCost(ctx, "tokens", -1)
			for _, rule := range []string{"tokns", "plain", "tokens", "idle", "outer"} {
				core.SetCost(ctx, rule, 3)
			}
			g.End()
			core.SetCost(ctx, "tokens", 3)
		})
	}
	core.SetCost(t.Context(), "tokens", 3)
	const warning = `level=WARN msg="spillgate: SetCost has no effect" rule=`
	wantLines(t, log.String(), warning+`tokns err="there is no rule \"tokns\"; did you mean tokens?`,
		warning+`plain err="rule \"plain\" has no CostAfter`)
}

// Handlers may take rule names from requests, so the names that are remembered are bounded.
func TestSetCostLogsABoundedNumberOfNames(t *testing.T) {
	log := new(expect.Buffer)
	l := core.Must(core.New([]core.Rule{perHour("plain", 5)}, core.WithLogger(log.Logger())))
	serve(t, l, func(r *http.Request, _ *core.Guard) {
		for i := range 1000 {
			core.SetCost(r.Context(), strconv.Itoa(i), 1)
		}
	})
	expect.Equal(t, strings.Count(log.String(), "\n"), 100, "lines")
}

func TestSettle(t *testing.T) {
	both := []core.Claim{{Rule: "a", Key: "k", Cost: 5}, {Rule: "b", Key: "k", Cost: 3}}
	for _, tt := range []struct {
		why    string
		claims []core.Claim
		settle []core.Claim // rule and cost
		a, b   int          // what remains afterwards
	}{
		{"some of what was charged", both[:1], []core.Claim{{Rule: "a", Cost: 2}}, 8, 10},
		{"what was charged, as it was", both[:1], []core.Claim{{Rule: "a", Cost: 5}}, 5, 10},
		{"one rule of two", both, []core.Claim{{Rule: "b", Cost: 1}}, 5, 9},
		{"each rule at a cost of its own", both, []core.Claim{{Rule: "a", Cost: 1}, {Rule: "b", Cost: 2}}, 9, 8},
		{"all rules at one cost", both, []core.Claim{{Rule: "", Cost: 2}}, 8, 8},
		{"a rule once", both, []core.Claim{{Rule: "a", Cost: 4}, {Rule: "a", Cost: 0}}, 6, 7},
		{"the rest, after one rule", both, []core.Claim{{Rule: "a", Cost: 4}, {Rule: "", Cost: 0}}, 6, 10},
		{"two claims of a rule", []core.Claim{{Rule: "a", Key: "k", Cost: 4}, {Rule: "a", Key: "k", Cost: 4}}, []core.Claim{{Rule: "a", Cost: 1}}, 8, 10},
		{"a rule that was not charged", both[:1], []core.Claim{{Rule: "b", Cost: 0}}, 5, 10},
		{"a denied request was charged nothing", []core.Claim{{Rule: "a", Key: "k", Cost: 11}}, []core.Claim{{Rule: "a", Cost: 0}}, 10, 10},
	} {
		t.Run(tt.why, func(t *testing.T) {
			l := core.Must(core.New([]core.Rule{perHour("a", 10), perHour("b", 10)}))
			d := must.Get(l.Take(t.Context(), tt.claims...))(t)
			for _, s := range tt.settle {
				must.Do(t, l.Settle(t.Context(), d, s.Rule, s.Cost))
			}
			a, b := remaining(t, l, "a"), remaining(t, l, "b")
			expect.True(t, a == tt.a && b == tt.b, "got %d and %d left, want %d and %d", a, b, tt.a, tt.b)
		})
	}
}

func TestSettleMistakes(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("a", 10)}))
	d, _ := l.Take(t.Context(), core.Claim{Rule: "a", Key: "k", Cost: 5}, core.Claim{Rule: "jobs", Key: "k", Limits: []core.Limit{core.PerHour(9)}})
	wantError(t, l.Settle(t.Context(), d, "a", -1), core.ErrInvalid, "settle: cost must not be negative, got -1")
	wantError(t, l.Settle(t.Context(), d, "typo", 1), core.ErrInvalid, `spillgate: settle: there is no rule "typo"`)
	expect.NoError(t, l.Settle(t.Context(), d, "jobs", 0), "a name that only the claim knows")
	expect.Equal(t, remaining(t, l, "a"), 5, "left after a mistake")
	if err := l.Settle(t.Context(), d, "a", 0); err != nil || remaining(t, l, "a") != 10 {
		t.Errorf("got %v and %d left; a mistake must not use the settlement up", err, remaining(t, l, "a"))
	}
}

// Each slot of a Redis Cluster has a clock of its own: Settle must name the instant at which the claim was charged.
type clocks struct {
	core.MemoryStore
	at      map[string]time.Time
	settled []core.Settlement
}

func (c *clocks) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	results, err := c.MemoryStore.Take(ctx, claims, dst)
	i := 0
	for _, claim := range claims {
		for range claim.Limits {
			results[i].At = c.at[claim.Key]
			i++
		}
	}
	return results, err
}

func (c *clocks) Settle(_ context.Context, settlements []core.Settlement) error {
	c.settled = append(c.settled, settlements...)
	return nil
}

func TestSettleNamesTheInstantOfEachClaim(t *testing.T) {
	noon := time.Unix(1767268800, 0)
	c := &clocks{at: map[string]time.Time{"x": noon.Add(time.Second), "y": noon, "z": noon.Add(-time.Second)}}
	two := perHour("two", 10)
	two.Limits = append(two.Limits, core.PerDay(3))
	l := withStore(c, []core.Rule{perHour("one", 10), two})
	d, err := l.Take(t.Context(), core.Claim{Rule: "one", Key: "x"}, core.Claim{Rule: "two", Key: "y"}, core.Claim{Rule: "one", Key: "z"})
	must.True(t, err == nil && d.At.Equal(noon) && d.Wait == 0, "got %+v, %v; want the instant of the tightest limit, and no wait", d, err)
	err = l.Refund(t.Context(), d)
	must.True(t, err == nil && len(c.settled) == 3, "settled %+v, %v", c.settled, err)
	for _, claim := range c.settled {
		expect.True(t, claim.At.Equal(c.at[claim.Key]) && claim.Final == 0,
			"settled %+v, want the instant %v of its charge", claim, c.at[claim.Key])
	}
}

func TestSettleWhileTheStoreIsDown(t *testing.T) {
	s := new(faulty)
	l := withStore(s, []core.Rule{perHour("a", 10)})
	d, _ := l.Take(t.Context(), core.Claim{Rule: "a", Key: "k", Cost: 5})
	s.fault = unreachable
	expect.ErrorIs(t, l.Settle(t.Context(), d, "a", 1), core.ErrUnavailable, "settlement without the store")
	s.fault = nil
	if err := l.Settle(t.Context(), d, "a", 1); err != nil || remaining(t, l, "a") != 5 {
		t.Errorf("got %v, %d left; what became of the first settlement is unknown, so there is no second", err, remaining(t, l, "a"))
	}
}
