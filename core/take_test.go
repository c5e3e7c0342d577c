package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestTake(t *testing.T) {
	for _, tt := range []struct {
		why     string
		claims  []core.Claim
		allowed bool
		results []core.Result // rule, limit, remaining and dry run
	}{
		{"the limits of the rule", []core.Claim{{Rule: "r", Key: "k"}}, true, []core.Result{{Rule: "r", Limit: core.PerHour(10), Remaining: 9}}},
		{"a cost", []core.Claim{{Rule: "r", Key: "k", Cost: 4}}, true, []core.Result{{Rule: "r", Limit: core.PerHour(10), Remaining: 6}}},
		{"a cost above the capacity", []core.Claim{{Rule: "r", Key: "k", Cost: math.MaxInt}}, false, []core.Result{{Rule: "r", Limit: core.PerHour(10), Remaining: 10}}},
		{"a tier of the rule", []core.Claim{{Rule: "r", Key: "k", Limits: []core.Limit{core.PerHour(3)}}}, true, []core.Result{{Rule: "r", Limit: core.PerHour(3), Remaining: 2}}},
		{"no name is default", []core.Claim{{Key: "k"}}, true, []core.Result{{Rule: "default", Limit: core.PerHour(2), Remaining: 1}}},
		{"a name of its own", []core.Claim{{Rule: "jobs", Key: "k", Limits: []core.Limit{core.PerHour(7)}}}, true, []core.Result{{Rule: "jobs", Limit: core.PerHour(7), Remaining: 6}}},
		{"a peek", []core.Claim{{Rule: "r", Key: "k", Peek: true}}, true, []core.Result{{Rule: "r", Limit: core.PerHour(10), Remaining: 10}}},
		{"a dry run by the rule", []core.Claim{{Rule: "trial", Key: "k", Cost: 2}}, true, []core.Result{{Rule: "trial", Limit: core.PerHour(1), Remaining: 1, DryRun: true}}},
		{"a dry run by the claim", []core.Claim{{Rule: "r", Key: "k", Cost: 11, DryRun: true}}, true, []core.Result{{Rule: "r", Limit: core.PerHour(10), Remaining: 10, DryRun: true}}},
		{"all or nothing", []core.Claim{{Rule: "r", Key: "k"}, {Rule: "default", Key: "k", Cost: 3}}, false,
			[]core.Result{{Rule: "r", Limit: core.PerHour(10), Remaining: 10}, {Rule: "default", Limit: core.PerHour(2), Remaining: 2}}},
		{"the same key twice is charged as the sum", []core.Claim{{Rule: "r", Key: "k", Cost: 6}, {Rule: "r", Key: "k", Cost: 6}}, false,
			[]core.Result{{Rule: "r", Limit: core.PerHour(10), Remaining: 10}, {Rule: "r", Limit: core.PerHour(10), Remaining: 10}}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			d, err := core.Must(core.New([]core.Rule{perHour("r", 10), perHour("", 2), dry(perHour("trial", 1))})).Take(t.Context(), tt.claims...)
			must.True(t, err == nil && d.Allowed == tt.allowed && len(d.Results) == len(tt.results), "got %+v, %v", d, err)
			for i, want := range tt.results {
				got := d.Results[i]
				expect.True(t, got.Rule == want.Rule && got.Limit == want.Limit && got.Remaining == want.Remaining && got.DryRun == want.DryRun,
					"result %d: got %+v, want %+v", i, got, want)
			}
		})
	}
}

func TestTakeWithoutClaims(t *testing.T) {
	d, err := core.Must(core.New([]core.Rule{perHour("r", 10)})).Take(t.Context())
	wantError(t, err, core.ErrInvalid, "Take needs at least one claim")
	expect.True(t, !d.Allowed, "nothing was asked, and it was allowed")
}

func TestTakeMistakes(t *testing.T) {
	for _, tt := range []struct {
		why   string
		claim core.Claim
		kind  error
		want  string
	}{
		{"no rule of this name", core.Claim{Rule: "login", Key: "k"}, core.ErrInvalid, `claim 2: rule "login": there is no rule of this name, and the claim has no limits`},
		{"no key", core.Claim{Rule: "r"}, core.ErrNoKey, `claim 2: rule "r": no key`},
		{"a negative cost", core.Claim{Rule: "r", Key: "k", Cost: -1}, core.ErrInvalid, `claim 2: rule "r": cost must not be negative, got -1`},
		{"a name that does not print", core.Claim{Rule: "a\tb", Key: "k", Limits: []core.Limit{core.PerHour(1)}}, core.ErrInvalid, `claim 2: rule "a\tb": name must be printable ASCII`},
		{"a bad limit", core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{{Rate: 1}}}, core.ErrInvalid, `claim 2: rule "r": limit 1: period must be at least 1ms, got 0s`},
		{"a limit in flight that is not held", core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{core.AtOnce(1)}}, core.ErrInvalid, `claim 2: rule "r": a claim with a limit of requests in flight needs Hold or Peek`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			l := core.Must(core.New([]core.Rule{perHour("r", 10)}))
			d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"}, tt.claim)
			wantError(t, err, tt.kind, tt.want)
			expect.True(t, !d.Allowed, "a mistake was admitted")
			expect.Equal(t, remaining(t, l, "r"), 10, "left of the claim before the mistake")
		})
	}
}

func TestNilContexts(t *testing.T) {
	var none context.Context
	l := core.Must(core.New([]core.Rule{perHour("r", 10)}, core.WithObserver(func(ctx context.Context, _ *core.Observation) {
		expect.NotEqual(t, ctx, nil, "an observer was handed a nil context")
	})))
	d := must.Get(l.Take(none, core.Claim{Rule: "r", Key: "k"}))(t)
	expect.Equal(t, d.Results[0].Remaining, 9, "%+v", d)
	expect.True(t, must.Get(l.Wait(none, core.Claim{Rule: "r", Key: "k"}))(t).Allowed, "a wait with a nil context is denied")
	expect.NoError(t, errors.Join(l.Refund(none, d), l.Reset(none, "r", "k")), "calls with a nil context")
	type key struct{}
	remote := &faulty{fault: func(ctx context.Context) error { _ = ctx.Value(key{}); return nil }}
	l = withStore(remote, []core.Rule{perHour("r", 10)})
	d = must.Get(l.Take(none, core.Claim{Rule: "r", Key: "k", Hold: true}))(t)
	expect.NoError(t, errors.Join(l.Renew(none, d), l.Ban(none, "r", "k", 1), l.Reset(none, "r", "k"), l.Refund(none, d)), "calls with a nil context")
}

func TestRefund(t *testing.T) {
	for _, tt := range []struct {
		why     string
		claims  []core.Claim
		r, left int // what remains of "r" before and after the refund
		trial   int // what remains of "trial" after it
	}{
		{"exactly what was charged", []core.Claim{{Rule: "r", Key: "k", Cost: 3}}, 6, 9, 1},
		{"a denied request was charged nothing", []core.Claim{{Rule: "r", Key: "k", Cost: 10}}, 9, 9, 1},
		{"nor was what would have fitted beside", []core.Claim{{Rule: "r", Key: "k"}, {Rule: "jobs", Key: "k", Limits: []core.Limit{core.PerHour(0)}}}, 9, 9, 1},
		{"nor was a peek", []core.Claim{{Rule: "r", Key: "k", Cost: 3, Peek: true}}, 9, 9, 1},
		{"nor a dry run that did not fit", []core.Claim{{Rule: "r", Key: "k"}, {Rule: "trial", Key: "k", Cost: 2}}, 8, 9, 1},
		{"even if it comes first", []core.Claim{{Rule: "trial", Key: "k", Cost: 2}, {Rule: "r", Key: "k"}}, 8, 9, 1},
		{"a dry run that fitted was", []core.Claim{{Rule: "r", Key: "k"}, {Rule: "trial", Key: "k", Cost: 1}}, 8, 9, 1},
		{"each of several limits once", []core.Claim{{Rule: "r", Key: "k", Limits: []core.Limit{core.PerHour(10), core.PerMinute(10)}, MaxWait: time.Hour}}, 8, 9, 1},
		{"twice the same key", []core.Claim{{Rule: "r", Key: "k", Cost: 3}, {Rule: "r", Key: "k", Cost: 4}}, 2, 9, 1},
	} {
		t.Run(tt.why, func(t *testing.T) {
			store := &core.MemoryStore{Now: func() time.Time { return time.Unix(-1, 0) }} // a clock may be before 1970
			l := core.Must(core.New([]core.Rule{perHour("r", 10), dry(perHour("trial", 2))}, core.WithStore(store)))
			must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"}, core.Claim{Rule: "trial", Key: "k"}))(t)
			d := must.Get(l.Take(t.Context(), tt.claims...))(t)
			expect.Equal(t, remaining(t, l, "r"), tt.r, "before: left")
			for range 2 { // the second time gives back nothing more
				must.Do(t, l.Refund(t.Context(), d))
				if r, trial := remaining(t, l, "r"), remaining(t, l, "trial"); r != tt.left || trial != tt.trial {
					t.Errorf("after: got %d and %d left, want %d and %d", r, trial, tt.left, tt.trial)
				}
			}
		})
	}
}

func TestRefundOfNothing(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("r", 10)}))
	other := core.Must(core.New([]core.Rule{perHour("r", 10)}))
	d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"})
	for _, d := range []core.Decision{{}, {Allowed: true, Results: d.Results}} {
		expect.NoError(t, l.Refund(t.Context(), d), "Refund")
	}
	expect.NoError(t, other.Refund(t.Context(), d), "Refund")
	expect.Equal(t, remaining(t, l, "r"), 9, "left (only the limiter that charged a decision gives it back)")
}

func TestReset(t *testing.T) {
	l := core.Must(core.New([]core.Rule{perHour("r", 10), perHour("", 10)}))
	tier := []core.Limit{core.PerDay(5).Using(core.SlidingLog)}
	take := func(rule, key string, limits []core.Limit, want int, why string) {
		t.Helper()
		d, err := l.Take(t.Context(), core.Claim{Rule: rule, Key: key, Limits: limits})
		expect.True(t, err == nil && d.Results[0].Remaining == want, "%s: got %+v, %v; want %d left", why, d, err, want)
	}
	take("r", "k", nil, 9, "first")
	take("r", "k", tier, 4, "first of a tier")
	take("r", "other", nil, 9, "another key")
	take("", "k", nil, 9, "another rule")
	must.Do(t, l.Reset(t.Context(), "r", "k"))
	take("r", "k", nil, 9, "forgotten")
	take("r", "k", tier, 4, "its tiers are forgotten too")
	take("r", "other", nil, 8, "another key stays")
	take("", "k", nil, 8, "another rule stays")
	must.Do(t, l.Reset(t.Context(), "", "k"))
	take("default", "k", nil, 9, "no name is default")
	wantError(t, l.Reset(t.Context(), "r", ""), core.ErrNoKey, `reset of rule "r"`)
	wantError(t, l.Reset(t.Context(), "jobs", "k"), core.ErrInvalid, `spillgate: reset: there is no rule "jobs"`)
}

// A Tier needs a request, so Take does not guess which limits apply.
func TestTakeOfATieredRuleNeedsLimits(t *testing.T) {
	r := perHour("plan", 10)
	r.Tier = func(*http.Request) []core.Limit { return nil }
	l := core.Must(core.New([]core.Rule{r, perHour("plain", 10)}))
	for _, c := range []core.Claim{{Rule: "plan", Key: "k"}, {Rule: "plan", Key: "k", Peek: true}, {Rule: "plan", Key: "k", Cost: 3, Hold: true}} {
		d, err := l.Take(t.Context(), core.Claim{Rule: "plain", Key: "k"}, c)
		wantError(t, err, core.ErrInvalid, `claim 2: rule "plan": the rule has a Tier, which needs a request`)
		expect.True(t, !d.Allowed, "%+v was allowed", c)
		wantError(t, expect.ErrorOf(l.Take(t.Context(), c)), core.ErrInvalid, `claim 1: rule "plan": the rule has a Tier`)
	}
	for _, limits := range [][]core.Limit{{core.PerHour(100)}, r.Limits} {
		d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k", Limits: limits})
		expect.True(t, err == nil && d.Allowed && d.Results[0].Limit == limits[0], "with limits %v: got %+v, %v", limits, d, err)
	}
	d := must.Get(l.Take(t.Context(), core.Claim{Rule: "plain", Key: "k", Peek: true}))(t)
	expect.Equal(t, d.Results[0].Remaining, 10, "a mistake in one claim charged another: %+v", d)
}

// allow takes n requests of a key and checks how many of them are admitted.
func allow(t *testing.T, l *core.Limiter, key string, n, want int) {
	t.Helper()
	admitted := 0
	for range n {
		if must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: key}))(t).Allowed {
			admitted++
		}
	}
	expect.Equal(t, admitted, want, "of %d requests of %s are admitted", n, key)
}

func left(t *testing.T, l *core.Limiter, key string, limits ...core.Limit) core.Result {
	t.Helper()
	return must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: key, Limits: limits, Peek: true}))(t).Results[0]
}

func plan(limits ...core.Limit) core.Rule {
	return core.Rule{Name: "plan", Key: constKey, Limits: limits}
}

func grant(t *testing.T, l *core.Limiter, key string, n int) {
	t.Helper()
	must.Do(t, l.Grant(t.Context(), "plan", key, n))
}

func TestGrantMistakes(t *testing.T) {
	tiered := core.Rule{Name: "tiered", Key: constKey, Limits: []core.Limit{core.PerMonth(5)}, Tier: func(*http.Request) []core.Limit { return nil }}
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5)), tiered}))
	for _, tt := range []struct {
		rule, key string
		n         int
		limits    []core.Limit
		kind      error
		want      string
	}{
		{"plan", "k", 0, nil, core.ErrInvalid, "and not 0, got 0"},
		{"plan", "k", 1_000_000_001, nil, core.ErrInvalid, "requests must be between -1000000000 and 1000000000"},
		{"plan", "k", 9001, []core.Limit{core.PerHour(1000).Using(core.SlidingLog)}, core.ErrInvalid,
			`grant of rule "plan": requests must be at most 9000 for 1000/1h;sliding-log, together with earlier grants, got 9001`},
		{"plan", "k", -1_000_000_001, nil, core.ErrInvalid, "requests must be between -1000000000 and 1000000000"},
		{"plan", "", 1, nil, core.ErrNoKey, "grant of rule"},
		{"pln", "k", 1, nil, core.ErrInvalid, `there is no rule "pln"`},
		{"tiered", "k", 1, nil, core.ErrInvalid, "the rule has a Tier"},
		{"plan", "k", 1, []core.Limit{{}}, core.ErrInvalid, "period must be"},
	} {
		wantError(t, l.Grant(t.Context(), tt.rule, tt.key, tt.n, tt.limits...), tt.kind, tt.want)
	}
	expect.NoError(t, l.Grant(t.Context(), "tiered", "k", 1, core.PerMonth(7)), "Grant")
	for _, n := range []int{1_000_000_000, -1_000_000_000, 1_000_000_000, 1_000_000_000} {
		expect.NoError(t, l.Grant(t.Context(), "plan", "k", n), "%d", n)
	}
	expect.Equal(t, must.Get(l.UsageOf(t.Context(), "plan", "k"))(t).Results[0].Granted, 1_073_741_823, "of two that end together")
}

func TestGrantFailsWithTheStore(t *testing.T) {
	s := new(faulty)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5))}, core.WithStore(s)))
	s.fault = unreachable
	wantError(t, l.Grant(t.Context(), "plan", "k", 5), core.ErrUnavailable, "connection lost")
	allow(t, l, "k", 6, 5) // of the fallback
	s.fault = nil
	expect.Equal(t, s.memory.Stats().Keys, 0, "the store has keys")
}

func TestHundredGrantsNeverAddUpToMore(t *testing.T) {
	const grants, apart = 100, 30 * time.Second
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	l := core.Must(core.New([]core.Rule{plan(core.PerHour(10).Using(core.SlidingLog))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	for i := range 2 * grants {
		now = now.Add(apart)
		if i < grants {
			grant(t, l, "k", 1)
		}
		d := must.Get(l.UsageOf(t.Context(), "plan", "k"))(t)
		got, want := d.Results[0].Granted, min(i+1, grants) // of an hour, the first grants have not ended
		if ended := i + 1 - int(time.Hour/apart); ended > 0 {
			want = max(want-ended, 0)
		}
		if got > want || i < grants && got != want {
			t.Errorf("%v after the first grant: %d are granted, want %d", now, got, want)
		}
	}
}

// Grants lists successful grants only.
func TestGrants(t *testing.T) {
	s := new(faulty)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5)), {Name: "other", Limits: []core.Limit{core.PerMonth(5)}}}, core.WithStore(s)))
	for i := range 120 {
		grant(t, l, "k", i+1)
	}
	must.Do(t, l.Grant(t.Context(), "other", "k2", -7))
	s.fault = unreachable
	expect.Fails(t, l.Grant(t.Context(), "plan", "k", 1000), "a grant without the store succeeds")
	got := l.Grants()
	expect.True(t, got.Made["plan"] == 120 && got.Made["other"] == 1 && len(got.Last) == 100, "made %v, %d listed", got.Made, len(got.Last))
	if first, last := got.Last[0], got.Last[99]; first.Rule != "other" || first.Key != "k2" || first.Requests != -7 || first.At.IsZero() || last.Requests != 22 {
		t.Errorf("got %+v first and %+v last", first, last)
	}
	got.Made["plan"], got.Last[0].Key = 0, "changed"
	again := l.Grants()
	expect.True(t, again.Made["plan"] == 120 && again.Last[0].Key == "k2", "what Grants returns is not a copy")
	for name, l := range map[string]*core.Limiter{"nil": nil, "zero": new(core.Limiter)} {
		got := l.Grants()
		expect.True(t, got.Made == nil && got.Last == nil, "%s: got %+v", name, got)
	}
}

func TestUnusedGrantSurvivesAFlood(t *testing.T) {
	for _, limit := range []core.Limit{
		core.PerMonth(100), core.PerDay(100).Using(core.FixedWindow), core.PerDay(100).Using(core.SlidingWindow), core.PerDay(100).Using(core.SlidingLog),
	} {
		now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
		rules := []core.Rule{plan(limit), {Name: "flood", Limits: []core.Limit{core.PerSecond(5)}}}
		l := core.Must(core.New(rules, core.WithStore(&core.MemoryStore{MaxKeys: 8, Now: func() time.Time { return now }})))
		grant(t, l, "k", 50)
		for i := range 500 {
			now = now.Add(time.Second)
			must.Get(l.Take(t.Context(), core.Claim{Rule: "flood", Key: fmt.Sprint(i)}))(t)
		}
		expect.Equal(t, left(t, l, "k").Remaining, 150, "%v: remaining after a flood of other keys", limit)
	}
}

// A cost is too large only if it exceeds the capacity and what is granted.
func TestIsTooLarge(t *testing.T) {
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(10))}))
	grant(t, l, "k", 8)
	for _, row := range []struct {
		cost                int
		allowed, isTooLarge bool
	}{{19, false, true}, {12, true, false}, {12, false, false}, {10, false, false}, {19, false, true}} {
		d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k", Cost: row.cost})
		expect.True(t, err == nil && d.Allowed == row.allowed && d.IsTooLarge(0) == row.isTooLarge,
			"cost %d: allowed %v, too large %v, %v; want %+v", row.cost, d.Allowed, d.IsTooLarge(0), err, row)
	}
	grant(t, l, "x", 8)
	must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "x", Cost: 9}))(t)
	two := must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: "x", Cost: 12}, core.Claim{Rule: "new", Key: "x", Cost: 12, Limits: []core.Limit{core.PerDay(5)}}))(t)
	tightest, _ := two.Tightest()
	expect.Equal(t, tightest.Rule, "new", "the tightest, beside a limit that a further grant could lift")
	never := core.Result{Rule: "plan", Limit: core.PerMonth(10), RetryAfter: core.Never}
	s := &oddStore{take: func(dst []core.Result) []core.Result { return append(dst, never) }}
	d := must.Get(core.Must(core.New([]core.Rule{plan(core.PerMonth(10))}, core.WithStore(s))).Take(t.Context(), core.Claim{Rule: "plan", Key: "k"}))(t)
	expect.True(t, d.IsTooLarge(0), "%+v, want too large: its store says that the cost never fits", d)
}

func TestLeaseMistakes(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		why, limits string
		lease       time.Duration
		final       func(*http.Request, core.Outcome) int
		want        string // empty: none
	}{
		{"no lease", "5/m;sliding-log", 0, core.Failures, ""},
		{"the shortest", "5/m, 7/h;fixed-window", ms, nil, ""},
		{"the longest", "5/m;burst=3", 10 * time.Second, nil, ""},
		{"negative", "5/m", -ms, nil, `rule "r": lease must be 0 or between 1ms and 10s, got -1ms`},
		{"too short", "5/m", ms - 1, nil, `rule "r": lease must be 0 or between 1ms and 10s, got 999.999µs`},
		{"too long", "5/m", 10*time.Second + 1, nil, `rule "r": lease must be 0 or between 1ms and 10s, got 10.000000001s`},
		{"with CostAfter", "5/m", ms, core.Failures, `rule "r": lease must be 0 for a rule with CostAfter, which holds its cost, got 1ms`},
		{"a sliding window", "5/m, 7/h;sliding-window", ms, nil, `lease 1ms needs token buckets without a ban or fixed windows, got limit 2, 7/1h;sliding-window`},
		{"a sliding log", "5/m;sliding-log", ms, nil, `got limit 1, 5/1m;sliding-log`},
		{"requests in flight", "5 at once", ms, nil, `got limit 1, 5 at once`},
		{"a ban", "5/m;ban=1h", ms, nil, `got limit 1, 5/1m;ban=1h`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			r := core.Rule{Name: "r", Key: constKey, Limits: core.MustParseLimits(tt.limits), Lease: tt.lease, CostAfter: tt.final}
			wantMistake(t, r, tt.want)
		})
	}
}

// wantMistake checks what New and SetRules say of a rule: an ErrInvalid with this text or, if it is empty, nothing.
func wantMistake(t *testing.T, r core.Rule, want string) {
	t.Helper()
	err, set := newErr(r), core.Must(core.New([]core.Rule{named("a")})).SetRules([]core.Rule{r})
	if want == "" && (err != nil || set != nil) {
		t.Fatalf("got %v from New and %v from SetRules, want none", err, set)
	}
	if want != "" {
		wantError(t, err, core.ErrInvalid, want)
		wantError(t, set, core.ErrInvalid, want)
	}
}

func TestClaimLeaseMistakes(t *testing.T) {
	l := core.Must(core.New([]core.Rule{named("r")}))
	for _, lease := range []time.Duration{-1, time.Millisecond - 1, 10*time.Second + 1} {
		c := core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{core.PerMinute(1)}, Lease: lease}
		wantError(t, c.Validate(), core.ErrInvalid, "lease must be 0 or between 1ms and 10s")
		wantError(t, expect.ErrorOf(l.Take(context.Background(), c)), core.ErrInvalid, "lease must be 0 or between 1ms and 10s")
	}
}

// A leaser is a store that keeps the claims of its last Take and its last Settle, and has leases.
type leaser struct {
	core.MemoryStore
	taken   []core.Claim
	settled []core.Settlement
}

func (s *leaser) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.taken = append(s.taken[:0], claims...)
	return s.MemoryStore.Take(ctx, claims, dst)
}

func (s *leaser) Settle(ctx context.Context, settlements []core.Settlement) error {
	s.settled = append(s.settled[:0], settlements...)
	return s.MemoryStore.Settle(ctx, settlements)
}

func (s *leaser) LeaseStats() core.LeaseStats {
	return core.LeaseStats{Keys: 1, Decisions: 2, Returned: 3}
}

func TestClaimsHaveTheLeaseOfTheirRule(t *testing.T) {
	const lease = 100 * time.Millisecond
	s := new(leaser)
	r := named("r")
	r.Lease = lease
	l := core.Must(core.New([]core.Rule{r}, core.WithStore(s)))
	claim := core.Claim{Rule: "r", Key: "k"}
	own := core.Claim{Rule: "r", Key: "k", Lease: time.Second}
	for _, tt := range []struct {
		why    string
		decide func() (core.Decision, error)
		want   time.Duration
	}{
		{"check", func() (core.Decision, error) { return l.Check(get("/")) }, lease},
		{"peek", func() (core.Decision, error) { return l.Peek(get("/")) }, lease},
		{"take", func() (core.Decision, error) { return l.Take(context.Background(), claim) }, lease},
		{"take with one of its own", func() (core.Decision, error) { return l.Take(context.Background(), own) }, time.Second},
	} {
		_ = l.Reset(context.Background(), "r", "k")
		_ = l.Reset(context.Background(), "r", "const:all")
		d, err := tt.decide()
		expect.True(t, err == nil && len(s.taken) == 1 && s.taken[0].Lease == tt.want,
			"%s: got %+v, %v, want a lease of %v", tt.why, s.taken, err, tt.want)
		if tt.why == "peek" {
			continue
		}
		if err := l.Refund(context.Background(), d); err != nil || len(s.settled) != 1 || s.settled[0].Lease != tt.want {
			t.Errorf("%s: settled %+v, %v, want a lease of %v", tt.why, s.settled, err, tt.want)
		}
	}
}

func TestHealthHasTheLeasesOfTheStore(t *testing.T) {
	l := core.Must(core.New([]core.Rule{named("r")}, core.WithStore(new(leaser))))
	expect.Equal(t, l.StoreHealth().Leases, core.LeaseStats{Keys: 1, Decisions: 2, Returned: 3}, "l.StoreHealth().Leases")
	expect.Equal(t, core.Must(core.New([]core.Rule{named("r")})).StoreHealth().Leases, core.LeaseStats{}, "of a store without leases")
}
