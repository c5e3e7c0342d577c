package core_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestTightest(t *testing.T) {
	left := func(rule string, remaining, capacity int) core.Result {
		return core.Result{Rule: rule, Allowed: true, Remaining: remaining, Limit: core.PerHour(capacity)}
	}
	denied := func(rule string, retry time.Duration) core.Result {
		return core.Result{Rule: rule, RetryAfter: retry, Limit: core.PerHour(10)}
	}
	recovers := func(r core.Result, refill, reset time.Duration) core.Result {
		r.RefillAfter, r.ResetAfter = refill, reset
		return r
	}
	dry := func(r core.Result) core.Result {
		r.DryRun = true
		return r
	}
	for _, tt := range []struct {
		why     string
		results []core.Result
		want    string // the rule; empty: none
	}{
		{"no results", nil, ""},
		{"requests in flight count only if they deny", []core.Result{{Rule: "a", Allowed: true, Limit: core.AtOnce(1)}, left("b", 5, 5)}, "b"},
		{"and then like any other", []core.Result{{Rule: "a", RetryAfter: 1, Limit: core.AtOnce(1)}, left("b", 5, 5)}, "a"},
		{"a dry run enforces nothing", []core.Result{dry(denied("a", core.Never))}, ""},
		{"the least share remaining, not the least number", []core.Result{left("a", 5, 10), left("b", 90, 1000), left("c", 3, 4)}, "b"},
		{"ties go to the first", []core.Result{left("a", 5, 10), left("b", 50, 100)}, "a"},
		{"of equal shares, the longer recovery", []core.Result{recovers(left("a", 5, 10), 9, 1), recovers(left("b", 50, 100), 2, 3), recovers(left("c", 1, 2), 1, 2)}, "b"},
		{"of two that are used up, the one without a request for longer", []core.Result{recovers(left("a", 0, 10), 2, 9), recovers(left("b", 0, 100), 3, 4), recovers(left("c", 0, 2), 1, 99)}, "b"},
		{"the share before the recovery", []core.Result{recovers(left("a", 6, 10), 9, 9), recovers(left("b", 5, 10), 1, 1)}, "b"},
		{"a denied one before an allowed one", []core.Result{left("a", 0, 10), denied("b", 1)}, "b"},
		{"in either order", []core.Result{denied("b", 1), left("a", 0, 10)}, "b"},
		{"the longest wait", []core.Result{denied("a", 1), denied("b", 3), denied("c", 2)}, "b"},
		{"Never is longer than any", []core.Result{denied("a", time.Hour), denied("b", core.Never), denied("c", 2*time.Hour)}, "b"},
		{"the first Never", []core.Result{denied("a", core.Never), denied("b", core.Never)}, "a"},
		{"a dry run is passed over", []core.Result{dry(denied("a", core.Never)), left("b", 5, 5), dry(left("c", 0, 5))}, "b"},
		{"the largest numbers do not overflow", []core.Result{left("a", 999_999_999, 1_000_000_000), left("b", 999_999_998, 1_000_000_000)}, "b"},
		{"the burst is the capacity", []core.Result{left("a", 5, 20), {Rule: "b", Allowed: true, Remaining: 5, Limit: core.PerHour(20).WithBurst(40)}}, "b"},
	} {
		got, ok := core.Decision{Results: tt.results}.Tightest()
		expect.True(t, ok == (tt.want != "") && got.Rule == tt.want, "%s: got rule %q, %v; want %q", tt.why, got.Rule, ok, tt.want)
	}
}

func TestPreflight(t *testing.T) {
	for _, tt := range []struct {
		why, method, origin, request string
		want                         bool
	}{
		{"a preflight", "OPTIONS", "https://example.com", "PUT", true},
		{"an opaque origin", "OPTIONS", "null", "PUT", true},
		{"only OPTIONS asks", "GET", "https://example.com", "PUT", false},
		{"methods are case-sensitive", "options", "https://example.com", "PUT", false},
		{"a browser names its origin", "OPTIONS", "", "PUT", false},
		{"and what it is about to do", "OPTIONS", "https://example.com", "", false},
		{"a plain OPTIONS", "OPTIONS", "", "", false},
	} {
		r := &http.Request{Method: tt.method, Header: http.Header{}}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if tt.request != "" {
			r.Header.Set("Access-Control-Request-Method", tt.request)
		}
		expect.Equal(t, core.Preflight(r), tt.want, "%s", tt.why)
	}
	expect.True(t, !core.Preflight(&http.Request{Method: "OPTIONS"}), "a request without headers is a preflight")
}

// TestDecisionKey asks three times for the keys of rules with a capacity of 1: the first request is admitted.
func TestDecisionKey(t *testing.T) {
	one := func(name string, limits string) core.Rule {
		key := func(*http.Request) (string, error) { return "user:" + name, nil }
		return core.Rule{Name: name, Key: key, Limits: core.MustParseLimits(limits)}
	}
	open, tier, final := one("open", "1/h"), one("tier", "5/h"), one("final", "1/h")
	open.OnFailure = core.FailOpen
	tier.Tier = func(*http.Request) []core.Limit { return []core.Limit{core.PerHour(1)} }
	final.CostAfter = core.Failures
	for why, row := range map[string]struct {
		rules []core.Rule
		opts  []core.Option
	}{
		"one limit":            {rules: []core.Rule{one("a", "1/h")}},
		"the default name":     {rules: []core.Rule{one("", "1/h")}},
		"a dry run":            {rules: []core.Rule{dry(one("a", "1/h"))}},
		"two limits":           {rules: []core.Rule{one("a", "1/h, 5/d")}},
		"a tier":               {rules: []core.Rule{tier}},
		"in flight":            {rules: []core.Rule{one("a", "1 at once")}},
		"a final cost":         {rules: []core.Rule{final}},
		"two rules":            {rules: []core.Rule{one("a", "5/h"), one("b", "1/h")}},
		"one of them dry":      {rules: []core.Rule{one("a", "5/h"), dry(one("b", "1/h"))}},
		"a store":              {rules: []core.Rule{one("a", "1/h")}, opts: []core.Option{core.WithStore(new(settler))}},
		"a store that is down": {rules: []core.Rule{open, one("a", "1/h")}, opts: []core.Option{core.WithStore(&faulty{fault: unreachable})}},
	} {
		t.Run(why, func(t *testing.T) {
			l := core.Must(core.New(row.rules, row.opts...))
			for name, decide := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
				for i := range 3 {
					d := must.Get(decide(get("/")))(t)
					for _, r := range row.rules {
						key, ok := d.Key(r.Name)
						expect.True(t, key == "user:"+r.Name && ok, "%s %d: rule %q: got %q, %v", name, i, r.Name, key, ok)
					}
					key, ok := d.Key("other")
					expect.True(t, key == "" && !ok, "%s %d: a rule that does not exist: got %q, %v", name, i, key, ok)
				}
			}
		})
	}
}

func TestDecisionKeyWithoutClaim(t *testing.T) {
	d, err := core.Must(core.New([]core.Rule{allow10(func(r *core.Rule) { r.Cost = cost(0) })})).Check(get("/"))
	for _, d := range []core.Decision{d, {}, {Results: []core.Result{{Rule: "r"}}}} {
		key, ok := d.Key("r")
		expect.True(t, key == "" && !ok && err == nil, "got %q, %v, %v", key, ok, err)
	}
}

// TestDecisionKeyOfTwoLimiters lets an outer limiter count by user and an inner one by address, under one name.
func TestDecisionKeyOfTwoLimiters(t *testing.T) {
	limiter := func(key string, limit core.Limit) *core.Limiter {
		return core.Must(core.New([]core.Rule{limit.By(func(*http.Request) (string, error) { return key, nil })}))
	}
	for why, row := range map[string]struct {
		inner int
		want  string
	}{
		"both allow":       {5, "user:42"},
		"the inner denies": {0, "ip:203.0.113.9"},
	} {
		outer, inner := limiter("user:42", core.PerHour(5)), limiter("ip:203.0.113.9", core.PerHour(row.inner))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		a := must.Get(outer.Guard(r.Context(), r, nil))(t)
		b := must.Get(inner.Guard(a.Request().Context(), a.Request(), nil))(t)
		key, ok := b.Decision().Key("")
		expect.True(t, key == row.want && ok, "%s: got %q, %v, want %s", why, key, ok, row.want)
		b.End()
		a.End()
	}
}

// A decision keeps only parts of its claims. A settlement still needs everything that was charged.
func TestRefundNamesTheClaimsThatWereCharged(t *testing.T) {
	day := perHour("day", 9)
	day.Limits = append(day.Limits, core.PerDay(99))
	for why, claims := range map[string][]core.Claim{
		"the limit of a rule":       {{Rule: "r", Key: "k"}},
		"a cost":                    {{Rule: "r", Key: "k", Cost: 255}},
		"a cost above a byte":       {{Rule: "r", Key: "k", Cost: 256}},
		"a dry run by the rule":     {{Rule: "trial", Key: "k"}},
		"a dry run by the claim":    {{Rule: "r", Key: "k", DryRun: true}},
		"two limits":                {{Rule: "day", Key: "k"}},
		"limits of its own":         {{Rule: "r", Key: "k", Limits: []core.Limit{core.PerHour(7)}}},
		"no rule":                   {{Rule: "jobs", Key: "k", Limits: []core.Limit{core.PerHour(7)}}},
		"two claims":                {{Rule: "r", Key: "k"}, {Rule: "r", Key: "other", Cost: 3}},
		"three, of which one peeks": {{Rule: "r", Key: "k"}, {Rule: "day", Key: "k", Peek: true}, {Rule: "trial", Key: "k"}},
	} {
		t.Run(why, func(t *testing.T) {
			g := &settler{at: time.Unix(1767268800, 0)}
			l := withStore(g, []core.Rule{perHour("r", 9), day, dry(perHour("trial", 9))})
			d, err := l.Take(t.Context(), claims...)
			must.True(t, err == nil && d.Allowed && d.At.Equal(g.at), "got %+v, %v", d, err)
			want, results := []core.Settlement(nil), d.Results
			for _, c := range g.taken {
				for _, limit := range c.Limits {
					r := results[0]
					expect.True(t, r.Rule == c.Rule && r.Limit == limit && r.DryRun == c.DryRun, "got %+v of %+v", r, c)
					results = results[1:]
				}
				if !c.Peek {
					want = append(want, oracle.Settlement(c, g.at))
				}
			}
			if err := l.Refund(t.Context(), d); err != nil || len(results) > 0 || !reflect.DeepEqual(exported(g.settled), want) {
				t.Errorf("settled %+v, %v, and %d results too many; want %+v", g.settled, err, len(results), want)
			}
		})
	}
}

// exported returns settlements without what a limiter adds for the stores of this module.
func exported(settlements []core.Settlement) (plain []core.Settlement) {
	for _, s := range settlements {
		plain = append(plain, core.Settlement{
			Rule: s.Rule, Key: s.Key, Limits: s.Limits, At: s.At, Cost: s.Cost, DryRun: s.DryRun, Held: s.Held, Lease: s.Lease,
			MaxWait: s.MaxWait, Wait: s.Wait, Final: s.Final, Renew: s.Renew, Ban: s.Ban,
		})
	}
	return plain
}

// TestDecisionsHaveTheResultsOfTheStore checks that decisions keep every field of a result, including fields for which a receipt
// has no room.
func TestDecisionsHaveTheResultsOfTheStore(t *testing.T) {
	at := time.UnixMicro(1767268800123456)
	for why, change := range map[string]func(r *core.Result){
		"allowed":                     func(*core.Result) {},
		"it waits":                    func(r *core.Result) { r.Wait = time.Second },
		"denied":                      func(r *core.Result) { r.Allowed, r.RetryAfter = false, time.Second },
		"denied forever":              func(r *core.Result) { r.Allowed, r.RetryAfter = false, core.Never },
		"denied without a wait":       func(r *core.Result) { r.Allowed = false },
		"allowed and a wait to retry": func(r *core.Result) { r.RetryAfter = time.Second },
		"granted":                     func(r *core.Result) { r.Granted = 3 },
		"taken away":                  func(r *core.Result) { r.Granted = -3 },
		"used beyond the capacity":    func(r *core.Result) { r.Over = 3 },
		"a fraction of a microsecond": func(r *core.Result) { r.ResetAfter += 7 },
		"a time in UTC":               func(r *core.Result) { r.At = at.UTC() },
		"a time of nanoseconds":       func(r *core.Result) { r.At = at.Add(7) },
		"a monotonic time":            func(r *core.Result) { r.At = time.Now() },
		"no time":                     func(r *core.Result) { r.At = time.Time{} },
		"the epoch":                   func(r *core.Result) { r.At = time.UnixMicro(0) },
		"another rule":                func(r *core.Result) { r.Rule = "other" },
		"another limit":               func(r *core.Result) { r.Limit = core.PerHour(8) },
		"a dry run":                   func(r *core.Result) { r.DryRun = true },
	} {
		t.Run(why, func(t *testing.T) {
			result := core.Result{
				Rule: "r", Limit: core.PerHour(9), Allowed: true, Remaining: 4, RefillAfter: time.Minute, ResetAfter: time.Hour, At: at,
			}
			change(&result)
			g := &oddStore{take: func(dst []core.Result) []core.Result { return append(dst, result) }}
			var seen core.Decision
			l := core.Must(core.New([]core.Rule{perHour("r", 9)}, core.WithStore(g)))
			observed := core.Must(core.New([]core.Rule{perHour("r", 9)}, core.WithStore(g),
				core.WithObserver(func(_ context.Context, o *core.Observation) { seen = o.Decision })))
			taken, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"})
			checked, err2 := l.Check(get("/"))
			again, err3 := observed.Check(get("/"))
			guarded, err4 := l.Guard(t.Context(), get("/"), nil)
			carried, _ := core.FromContext(guarded.Request().Context())
			if err = errors.Join(err, err2, err3, err4); err != nil {
				t.Fatal(err)
			}
			for name, d := range map[string]core.Decision{
				"Take": taken, "Check": checked, "Check, observed": again, "an observer": seen, "Guard": guarded.Decision(), "FromContext": carried,
			} {
				allowed := result.Allowed || result.DryRun
				if d.Allowed != allowed || d.At != result.At || d.Wait != result.Wait || len(d.Results) != 1 || d.Results[0] != result {
					t.Errorf("%s: got %+v, want %+v", name, d, result)
				}
			}
		})
	}
}

func TestKeptDecisionsDoNotChange(t *testing.T) {
	var seen, got []core.Decision
	l := core.Must(core.New([]core.Rule{perHour("r", 9)}, core.WithObserver(func(_ context.Context, o *core.Observation) { seen = append(seen, o.Decision) })))
	for range 3 {
		taken, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k"})
		checked, _ := l.Check(get("/"))
		g, _ := l.Guard(t.Context(), get("/"), nil)
		got = append(got, taken, checked, g.Decision())
	}
	for i := range got {
		if want := 8 - i; got[i].Results[0].Remaining != want || seen[i].Results[0].Remaining != want {
			t.Errorf("decision %d has %d remaining, and observers got %d, want %d", i, got[i].Results[0].Remaining, seen[i].Results[0].Remaining, want)
		}
	}
}

// TestTakeAllocatesNothing needs inlined functions, which the race detector prevents.
func TestTakeAllocatesNothing(t *testing.T) {
	testpass.Sequential(t)
	mayWait := core.Rule{Name: "may wait", Limits: core.MustParseLimits("1000000000/h"), MaxWait: time.Hour}
	l := core.Must(core.New([]core.Rule{perHour("r", 1_000_000_000), perHour("denied", 0), mayWait}))
	for _, c := range []core.Claim{
		{Rule: "r", Key: "k"}, {Rule: "r", Key: "k", Cost: 3, DryRun: true}, {Rule: "r", Key: "k", Peek: true}, {Rule: "denied", Key: "k"},
		{Rule: "may wait", Key: "k"},
	} {
		allowed := 0
		n := testing.AllocsPerRun(1000, func() {
			if d, err := l.Take(t.Context(), c); err == nil && d.Allowed && d.Results[0].Allowed {
				allowed++
			}
		})
		expect.True(t, n == 0 && (allowed > 0) == (c.Rule != "denied"), "%+v: %v allocations, and %d of 1001 allowed", c, n, allowed)
	}
}

// TestAllocations bounds the allocations of a decision, including its request and context.
func TestAllocations(t *testing.T) {
	key, limits := core.Claim{Rule: "r", Key: "k"}, core.MustParseLimits("1000000/s")
	l, r := core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: limits}})), get("/")
	two := core.Must(core.New([]core.Rule{{Name: "r", Limits: core.MustParseLimits("1000000/h, 1000000/d")}}))
	for name, row := range map[string]struct {
		decide func()
		most   float64
	}{
		"Take":               {func() { l.Take(t.Context(), key) }, 1},
		"Check":              {func() { l.Check(r) }, 1},
		"Peek":               {func() { l.Peek(r) }, 1},
		"Guard":              {func() { l.Guard(r.Context(), r, nil) }, 2},
		"Take of two claims": {func() { two.Take(t.Context(), key, core.Claim{Rule: "r", Key: "l"}) }, 3}, // a receipt, both claims, all results
	} {
		row.decide()
		expect.AtMost(t, testing.AllocsPerRun(1000, row.decide), row.most, "%s: allocations", name)
	}
}

// A held request may take three allocations more: its receipt has more fields, and its renewal a timer and a func.
func TestAllocationsOfAHeldRequest(t *testing.T) {
	allocations := func(enough float64, f func(*http.Request, core.Outcome) int) float64 {
		l, r := inMemory("1000000000/s", f), get("/")
		return testpass.LeastAllocations(enough, func() {
			g, _ := l.Guard(t.Context(), r, nil)
			if g.Watches() {
				g.Settle(core.Outcome{Status: 200})
			}
			g.End()
		})
	}
	plain := allocations(2, nil)
	held := allocations(plain+3, core.Failures)
	expect.True(t, held <= plain+3, "%v allocations, want at most 3 more than %v", held, plain)
}
