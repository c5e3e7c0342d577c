package redisx

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// In an outage, a denial says something about requests of other costs, for as long as a cost of 1 does not fit.
func TestKnownDenial(t *testing.T) {
	hour := core.MustParseLimits("10/h")
	two := core.MustParseLimits("10/h, 5/m")
	usedUp := core.Result{Limit: hour[0], RetryAfter: 30 * time.Minute, RefillAfter: 6 * time.Minute, ResetAfter: time.Hour}
	some := core.Result{Limit: hour[0], Remaining: 3, RetryAfter: 30 * time.Minute, RefillAfter: 6 * time.Minute, ResetAfter: time.Hour}
	admits := core.Result{Limit: two[1], Allowed: true, Remaining: 5}
	never := core.Result{Limit: hour[0], RetryAfter: core.Never}
	claim := func(cost int, limits []core.Limit) core.Claim {
		return core.Claim{Rule: "r", Key: "k", Cost: cost, Limits: limits}
	}
	waits, other := claim(1, hour), claim(1, hour)
	waits.MaxWait, other.Key = time.Second, "other"
	for _, row := range []struct {
		why     string
		asked   core.Claim
		results []core.Result
		later   time.Duration
		claim   core.Claim
		denied  bool
		retry   time.Duration
	}{
		{"the same cost", claim(5, hour), []core.Result{usedUp}, 5 * time.Minute, claim(5, hour), true, 25 * time.Minute},
		{"the same cost, when less would fit", claim(5, hour), []core.Result{usedUp}, 20 * time.Minute, claim(5, hour), true, 10 * time.Minute},
		{"a lower cost", claim(5, hour), []core.Result{usedUp}, 5 * time.Minute, claim(1, hour), true, 55 * time.Minute},
		{"a lower cost, when it may fit", claim(5, hour), []core.Result{usedUp}, 6 * time.Minute, claim(1, hour), false, 0},
		{"a lower cost, and some remain", claim(5, hour), []core.Result{some}, 0, claim(1, hour), false, 0},
		{"a higher cost, and some remain", claim(5, hour), []core.Result{some}, 0, claim(6, hour), true, time.Hour},
		{"a cost above the capacity", claim(5, hour), []core.Result{usedUp}, 0, claim(11, hour), true, core.Never},
		{"what never fits", claim(11, hour), []core.Result{never}, 24 * time.Hour, claim(12, hour), true, core.Never},
		{"when it fits again", claim(5, hour), []core.Result{usedUp}, 30 * time.Minute, claim(5, hour), false, 0},
		{"one of two limits", claim(5, two), []core.Result{usedUp, admits}, time.Minute, claim(2, two), true, 59 * time.Minute},
		{"other limits", claim(5, two), []core.Result{usedUp, admits}, time.Minute, claim(2, hour), false, 0},
		{"another key", claim(5, hour), []core.Result{usedUp}, 0, other, false, 0},
		{"a request that may wait", claim(5, hour), []core.Result{usedUp}, 0, waits, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(nil, Options{DenyCache: 100})
			s.denials.remember([]core.Claim{row.asked}, row.results, time.Now(), 0)
			time.Sleep(row.later)
			results, denied := s.Denied(&row.claim, nil)
			if denied != row.denied {
				t.Fatalf("%s: denied %v, want %v", row.why, denied, row.denied)
			}
			if denied && (len(results) != len(row.claim.Limits) || results[0].Allowed || results[0].RetryAfter != row.retry) {
				t.Errorf("%s: %+v, want to retry after %v", row.why, results, row.retry)
			}
			s.denials.forget([]core.Pair{{Rule: "r", Key: "k"}})
			if _, denied := s.Denied(&row.claim, nil); denied {
				t.Errorf("%s: denied after a reset", row.why)
			}
		})
	}
	if _, denied := New(nil, Options{}).Denied(&waits, nil); denied {
		t.Error("a store without a deny cache remembers a denial")
	}
}
