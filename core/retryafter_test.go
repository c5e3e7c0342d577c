package core_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
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
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := serve(); !d.Allowed || d.RetryAfter() != 0 {
		t.Fatalf("the first request: %+v", d)
	}
	time.Sleep(time.Second)
	d := serve()
	if d.Allowed || len(d.Results) != 2 {
		t.Fatalf("the second request: %+v, want a denial by the inner limiter", d)
	}
	wait := d.RetryAfter()
	if wait < d.Results[1].RetryAfter {
		t.Errorf("wait %v, want at least %v", wait, d.Results[1].RetryAfter)
	}
	time.Sleep(wait - time.Microsecond)
	early := func(l *core.Limiter) bool { d, _ := l.Peek(get("/")); return d.Allowed }
	if cost == 1 && early(o) && early(i) {
		t.Errorf("both admit it before %v", wait)
	}
	time.Sleep(time.Microsecond)
	if !early(o) || !early(i) {
		t.Errorf("waiting %v was not enough: %+v", wait, d)
	}
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
		"allowed by a limit": {core.Decision{Results: []core.Result{denied(2), {Allowed: true, RefillAfter: 7}}}, 2},
	} {
		if got := row.d.RetryAfter(); got != row.want {
			t.Errorf("%s: got %v, want %v", why, got, row.want)
		}
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
		if wait := d.RetryAfter(); d.Allowed || wait != 30*time.Second {
			t.Errorf("allowed: %v, again in %v, want 30s", d.Allowed, wait)
		}
	})
}

// TestRetryInstantOfNestedLimiters checks a request that uses up the outer limit and that the inner limiter denies some time
// later. Both limiters admit the request again at At plus RetryAfter, and not before.
func TestRetryInstantOfNestedLimiters(t *testing.T) {
	window := func(n int, period time.Duration) core.Limit { return core.Every(n, period).Using(core.FixedWindow) }
	for why, tt := range map[string]struct {
		outer, inner core.Limit
		between      time.Duration // the decisions
		outerAt      bool          // At is the instant of the outer decision
	}{
		"the outer window ends later":              {window(2, 5*time.Minute), window(1, time.Minute), 37 * time.Microsecond, true},
		"the inner window ends later":              {window(2, time.Minute), window(1, 5*time.Minute), 37 * time.Microsecond, false},
		"the outer bucket refills later":           {core.PerHour(1).WithBurst(2), core.PerMinute(1), 37 * time.Microsecond, true},
		"windows that end together":                {window(2, time.Minute), window(1, time.Minute), 37 * time.Microsecond, true},
		"the outer wait is longer, but ends first": {core.Every(1, 4*time.Second).WithBurst(2), core.Every(1, 3500*time.Millisecond), time.Second, false},
		"the outer limit has room":                 {window(9, 5*time.Minute), window(1, time.Minute), 37 * time.Microsecond, false},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outer := core.Must(core.New([]core.Rule{{Key: keyK, Limits: []core.Limit{tt.outer}}}))
				inner := core.Must(core.New([]core.Rule{{Key: keyK, Limits: []core.Limit{tt.inner}}}))
				var d core.Decision
				var outerAt, innerAt time.Time
				for range 2 {
					outerAt = time.Now()
					r, _, _ := guard(outer, get("/"))
					time.Sleep(tt.between)
					innerAt = time.Now()
					_, d, _ = guard(inner, r)
				}
				want := innerAt
				if tt.outerAt {
					want = outerAt
				}
				if d.Allowed || !d.At.Equal(want) {
					t.Fatalf("allowed: %v, decided at %v, want %v (outer %v, inner %v)", d.Allowed, d.At, want, outerAt, innerAt)
				}
				both := func() bool {
					o, _ := outer.Peek(get("/"))
					i, _ := inner.Peek(get("/"))
					return o.Allowed && i.Allowed
				}
				time.Sleep(time.Until(d.At.Add(d.RetryAfter())) - time.Microsecond)
				if both() != (why == "the outer wait is longer, but ends first") {
					t.Errorf("both admit the request before %v", d.At.Add(d.RetryAfter()))
				}
				if time.Sleep(time.Microsecond); !both() {
					t.Errorf("at %v, they do not admit the request", time.Now())
				}
			})
		})
	}
}

// TestDecisionIgnoresAClockThatIsAhead uses an outer limiter that has requests left, and whose store has a clock that is ahead.
func TestDecisionIgnoresAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := &core.MemoryStore{Now: func() time.Time { return time.Now().Add(time.Minute) }}
		outer := core.Must(core.New([]core.Rule{core.PerHour(9).By(keyK)}, core.WithStore(ahead)))
		inner := core.Must(core.New([]core.Rule{core.PerSecond(1).By(keyK)}))
		var d core.Decision
		for range 2 {
			r, _, _ := guard(outer, get("/"))
			_, d, _ = guard(inner, r)
		}
		if d.Allowed || !d.At.Equal(time.Now()) || d.RetryAfter() != time.Second {
			t.Errorf("got %+v, again after %v; want the instant of the inner decision and a second", d, d.RetryAfter())
		}
	})
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
		outer  [2]core.Limit
		step   time.Duration // between the clocks of the two
		at     time.Duration
		repeat time.Duration
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
		if err != nil || d.Allowed || !d.At.Equal(begun.Add(row.at)) || d.RetryAfter() != row.repeat {
			t.Errorf("behind %v: waits %v from %v on, %v; want %v from %v", row.outer, d.RetryAfter(), d.At.Sub(begun), err, row.repeat, row.at)
		}
	}
}
