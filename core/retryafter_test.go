package core_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestRetryAfterOfNestedLimiters checks a request that the outer limiter charges and the inner limiter denies. After RetryAfter
// both limiters admit the same request. If the cost is 1, RetryAfter is exact: a microsecond earlier, one limiter denies.
func TestRetryAfterOfNestedLimiters(t *testing.T) {
	limits := func(n int) []core.Limit {
		return []core.Limit{
			core.PerMinute(n), core.PerMinute(1).WithBurst(n), core.Every(n, 7*time.Second), core.PerMinute(n).Using(core.FixedWindow),
			core.PerMinute(n).Using(core.SlidingWindow), core.PerMinute(n).Using(core.SlidingLog),
		}
	}
	for _, cost := range []int{1, 2, 5} {
		for _, outer := range append(limits(2*cost), limits(2*cost+1)...) {
			for _, inner := range limits(cost) {
				t.Run(fmt.Sprintf("cost %d, outer %v, inner %v", cost, outer, inner), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { nestedRetry(t, cost, outer, inner) })
				})
			}
		}
	}
}

func nestedRetry(t *testing.T, cost int, outer, inner core.Limit) {
	limiter := func(l core.Limit) *core.Limiter {
		return core.Must(core.New([]core.Rule{{Key: keyK, Limits: []core.Limit{l}, Cost: func(*http.Request) int { return cost }}}))
	}
	o, i := limiter(outer), limiter(inner)
	serve := func() core.Decision {
		r, d, err := guard(o, get("/"))
		if err == nil && d.Allowed {
			_, d, err = guard(i, r)
		}
		must.Do(t, err)
		return d
	}
	if d := serve(); !d.Allowed || d.RetryAfter() != 0 {
		t.Fatalf("the first request: %+v", d)
	}
	time.Sleep(time.Second)
	d := serve()
	must.True(t, !d.Allowed && len(d.Results) == 2, "the second request: %+v, want a denial by the inner limiter", d)
	wait := d.RetryAfter()
	expect.AtLeast(t, wait, d.Results[1].RetryAfter, "wait")
	time.Sleep(wait - time.Microsecond)
	early := func(l *core.Limiter) bool { d, _ := l.Peek(get("/")); return d.Allowed }
	if cost == 1 && early(o) && early(i) {
		t.Errorf("both admit it before %v", wait)
	}
	time.Sleep(time.Microsecond)
	expect.True(t, early(o) && early(i), "waiting %v was not enough: %+v", wait, d)
}

func TestRetryAfterOfOneLimiter(t *testing.T) {
	denied := func(wait time.Duration) core.Result { return core.Result{RetryAfter: wait} }
	dryRun := core.Result{RetryAfter: time.Hour, DryRun: true}
	for why, row := range map[string]struct {
		d    core.Decision
		want time.Duration
	}{
		"allowed":            {core.Decision{Allowed: true, Results: []core.Result{dryRun}}, 0},
		"the longest":        {core.Decision{Results: []core.Result{denied(2), denied(3), denied(1), dryRun}}, 3},
		"never":              {core.Decision{Results: []core.Result{denied(2), denied(core.Never), denied(1)}}, core.Never},
		"allowed by a limit": {core.Decision{Results: []core.Result{denied(2), {Allowed: true, RetryAfter: 9, RefillAfter: 7}}}, 2},
	} {
		expect.Equal(t, row.d.RetryAfter(), row.want, "%s", why)
	}
	now := time.Unix(1_767_268_800, 0)
	l := core.Must(core.New([]core.Rule{{Limits: core.MustParseLimits("5/m;sliding-log")}}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	for _, want := range []time.Duration{0, 50 * time.Second} {
		d := must.Get(l.Take(t.Context(), core.Claim{Key: "k", Cost: 3}))(t)
		expect.Equal(t, d.RetryAfter(), want, "a cost of 3, though all of the capacity takes longer")
		now = now.Add(10 * time.Second)
		must.Get(l.Take(t.Context(), core.Claim{Key: "k"}))(t)
	}
}

// Each rule of the outer limiter has its own cost. Its dry runs do not prolong RetryAfter.
func TestRetryAfterFitsTheCostOfEachOuterRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		five := func(*http.Request) int { return 5 }
		outer := core.Must(core.New([]core.Rule{
			{Name: "dry", Key: keyK, Limits: []core.Limit{core.PerHour(2)}, DryRun: true},
			{Name: "a", Key: keyK, Limits: []core.Limit{core.PerMinute(10)}, Cost: five},
		}))
		inner := core.Must(core.New([]core.Rule{core.PerSecond(1).By(keyK)}))
		var d core.Decision
		for range 2 {
			r, _, _ := guard(outer, get("/"))
			_, d, _ = guard(inner, r)
		}
		wait := d.RetryAfter()
		expect.True(t, !d.Allowed && wait == 30*time.Second, "allowed: %v, again in %v, want 30s", d.Allowed, wait)
	})
}

// A Take charges two keys of one rule different costs, and an inner limiter denies: both costs fit again after RetryAfter.
func TestRetryAfterFitsTheCostOfEachOuterClaim(t *testing.T) {
	outer := core.Must(core.New([]core.Rule{perHour("r", 60)}))
	denied := must.Get(core.Must(core.New([]core.Rule{perHour("none", 0)})).UsageOf(t.Context(), "none", "k"))(t)
	d := must.Get(outer.Take(t.Context(), core.Claim{Rule: "r", Key: "a"}, core.Claim{Rule: "r", Key: "b", Cost: 40}))(t)
	denied.Results[0].RetryAfter = time.Second
	joined, _ := core.FromContext(core.NewContext(core.NewContext(t.Context(), d), denied))
	expect.Equal(t, joined.RetryAfter(), 20*time.Minute, "40 more of 60 an hour, of which 20 remain")
}

// TestRetryAfterOfAnOuterBucketIsInItsTicks checks outer limits in which a request refills in no whole number of ticks: of a
// microsecond, of a millisecond and of a second.
func TestRetryAfterOfAnOuterBucketIsInItsTicks(t *testing.T) {
	for _, limit := range []core.Limit{
		core.Every(6, time.Second), core.Every(7, 61*time.Second).WithBurst(1_000_000_000), core.Every(1_000_000, 3650*24*time.Hour),
	} {
		for missing := 1; missing <= 5; missing++ {
			now := time.Unix(1_767_268_800, 0)
			store := &core.MemoryStore{Now: func() time.Time { return now }}
			rule := limit.By(keyK)
			rule.Cost = func(*http.Request) int { return missing }
			outer := core.Must(core.New([]core.Rule{rule}, core.WithStore(store)))
			inner := core.Must(core.New([]core.Rule{core.PerSecond(0).By(keyK)}))
			must.Get(outer.Take(t.Context(), core.Claim{Key: "k", Cost: limit.Capacity() - missing}))(t)
			r, before, _ := guard(outer, get("/"))
			must.True(t, before.Allowed && before.Results[0].Remaining == 0, "%v, cost %d: %+v", limit, missing, before)
			_, d, _ := guard(inner, r)
			d.Results = d.Results[:1] // without the inner limit, which never admits the request
			now = before.At.Add(d.RetryAfter())
			again, err := outer.Peek(get("/"))
			expect.True(t, err == nil && again.Allowed, "%v, cost %d: denied after %v: %+v, %v", limit, missing, d.RetryAfter(), again, err)
		}
	}
}

// TestRetryAfterOfAnOuterLimiterWithGrants checks a cost of which a part fits into a grant, or all of it, and an inner limiter that denies.
func TestRetryAfterOfAnOuterLimiterWithGrants(t *testing.T) {
	for limit, waits := range map[string]map[int]time.Duration{
		"5/m;sliding-log": {3: 0, 4: time.Minute, 5: time.Minute, 6: core.Never}, "5/m;sliding-window": {3: 0, 5: 66 * time.Second, 6: core.Never},
		"5/m;fixed-window": {3: 0, 5: time.Minute, 6: core.Never},
	} {
		for cost, want := range waits {
			now := time.Unix(1_767_268_800, 0)
			rule := core.Rule{Key: keyK, Limits: core.MustParseLimits(limit), Cost: func(*http.Request) int { return cost }}
			outer := core.Must(core.New([]core.Rule{rule}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
			must.Do(t, outer.Grant(t.Context(), "", "k", 2))
			r, _, _ := guard(outer, get("/"))
			_, d, _ := guard(core.Must(core.New([]core.Rule{core.PerSecond(0).By(keyK)})), r)
			d.Results = d.Results[:1] // without the inner limit, which never admits the request
			expect.Equal(t, d.RetryAfter(), want, "%s: a cost of %d after the same", limit, cost)
			now = now.Add(min(want, time.Hour))
			again := must.Get(outer.Peek(get("/")))(t)
			expect.True(t, again.Allowed == (want != core.Never), "%s: a cost of %d after %v: %+v", limit, cost, want, again.Results)
		}
	}
}

// TestJoinCountsFromTheLimitThatTakesLongest checks a request that two outer limiters charge and an inner limiter denies. The
// stores have different clocks. RetryAfter counts from the clock of the limit that takes longest to admit the request again.
func TestJoinCountsFromTheLimitThatTakesLongest(t *testing.T) {
	begun := time.Unix(1_767_268_800, 0)
	after := func(passed time.Duration, limit core.Limit) *core.Limiter {
		store := &core.MemoryStore{Now: func() time.Time { return begun.Add(passed) }}
		return core.Must(core.New([]core.Rule{limit.By(keyK)}, core.WithStore(store)))
	}
	for _, row := range []struct {
		outer      [2]core.Limit
		step       time.Duration // between the clocks of the two
		at, repeat time.Duration
	}{
		{[2]core.Limit{core.Every(1, 3*time.Hour), core.Every(1, 2*time.Hour)}, time.Second, time.Second, 3 * time.Hour},
		{[2]core.Limit{core.Every(1, 2*time.Hour), core.Every(1, 3*time.Hour)}, time.Second, 2 * time.Second, 3 * time.Hour},
		{[2]core.Limit{core.PerSecond(1), core.PerSecond(1)}, time.Second, 3 * time.Second, time.Hour},
		{[2]core.Limit{core.PerHour(9), core.PerHour(9)}, 5 * time.Hour, 3 * time.Second, time.Hour}, // no wait: their clocks do not count
	} {
		inner := after(3*time.Second, core.PerHour(1))
		inner.Check(get("/"))
		r := get("/")
		for i, limit := range row.outer {
			r, _, _ = guard(after(time.Duration(i+1)*row.step, limit), r)
		}
		_, d, err := guard(inner, r)
		expect.True(t, err == nil && !d.Allowed && d.At.Equal(begun.Add(row.at)) && d.RetryAfter() == row.repeat,
			"behind %v: waits %v from %v on, %v; want %v from %v", row.outer, d.RetryAfter(), d.At.Sub(begun), err, row.repeat, row.at)
	}
}

// TestRetryAfterOfAnOuterLimiterThatHolds checks an outer rule that holds the cost of a request until the inner limiter's denial has
// ended it. Then it is charged, and the wait must say so.
func TestRetryAfterOfAnOuterLimiterThatHolds(t *testing.T) {
	failed := func(_ *http.Request, o core.Outcome) int { return o.Cost }
	for _, limit := range []core.Limit{
		core.Every(5, time.Minute), core.Every(7, time.Minute).WithBurst(5), core.Every(5, time.Minute).Using(core.FixedWindow),
		core.Every(5, time.Minute).Using(core.SlidingWindow), core.Every(5, time.Minute).Using(core.SlidingLog), core.PerDay(5).In("UTC"),
		{Rate: 5, Period: time.Minute, Ban: time.Hour},
	} {
		for cost := 1; cost <= 5; cost++ {
			for used := 0; used <= 5-cost; used++ {
				for _, after := range []func(*http.Request, core.Outcome) int{nil, failed} {
					now := time.Unix(1_767_268_830, 0)
					store := &core.MemoryStore{Now: func() time.Time { return now }}
					rule := core.Rule{Key: keyK, Cost: func(*http.Request) int { return cost }, CostAfter: after, Limits: []core.Limit{limit}}
					if after == nil {
						rule.Limits = append(rule.Limits, core.AtOnce(2))
					}
					outer := core.Must(core.New([]core.Rule{rule}, core.WithStore(store)))
					inner := core.Must(core.New([]core.Rule{core.PerHour(1).By(keyK)}))
					must.Get(inner.Check(get("/")))(t)
					must.Get(outer.Take(t.Context(), core.Claim{Key: "k", Limits: []core.Limit{limit}, Cost: max(used, 1), Peek: used == 0}))(t)
					g := must.Get(outer.Guard(t.Context(), get("/"), nil))(t)
					_, d, _ := guard(inner, g.Request())
					d.Results = d.Results[:len(d.Results)-1] // without the inner limiter, which has another clock
					wait := d.RetryAfter()
					g.Settle(core.Outcome{Status: http.StatusTooManyRequests})
					g.End()
					expect.True(t, (wait == 0) == (used+2*cost <= 5), "%v, cost %d after %d: waits %v", limit, cost, used, wait)
					ended := now
					for _, early := range []time.Duration{time.Microsecond, 0} {
						now = ended.Add(max(wait-early, 0))
						again, err := outer.Peek(get("/"))
						mayAdmit := early == 0 || wait == 0 || limit.Algorithm == core.SlidingWindow // whose wait may be too long
						expect.True(t, err == nil && (again.Allowed || early > 0) && (!again.Allowed || mayAdmit),
							"%v, cost %d after %d: %t %v before %v: %+v, %v", limit, cost, used, again.Allowed, early, wait, again.Results, err)
					}
				}
			}
		}
	}
}
