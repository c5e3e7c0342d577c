package storetest

import (
	"time"

	"github.com/spillgate/spillgate/core"
)

// checkAll checks what must hold for the results of any claims: one per limit of each, in order, that do not contradict
// themselves.
func (s *suite) checkAll(claims []core.Claim, results []core.Result) {
	s.Helper()
	i := 0
	for _, c := range claims {
		for _, l := range c.Limits {
			if i == len(results) {
				s.Fatalf("only %d results for %v", len(results), claims)
			}
			r := results[i]
			if rule := ruleName(c); r.Rule != rule || r.Limit != l || r.DryRun != c.DryRun {
				s.Errorf("result %d is of rule %q, limit %v, dry run %t; want %q, %v, %t", i, r.Rule, r.Limit, r.DryRun, rule, l, c.DryRun)
			}
			s.check(r)
			if r.Wait < 0 || r.Wait > c.MaxWait || r.Wait > 0 && !r.Allowed || r.Wait%time.Microsecond != 0 {
				s.Errorf("the wait is not one of an admitted request, up to %v: %+v", c.MaxWait, r)
			}
			i++
		}
	}
	if i < len(results) {
		s.Errorf("%d results for %d limits", len(results), i)
	}
}

func ruleName(c core.Claim) string {
	if c.Rule == "" {
		return "default"
	}
	return c.Rule
}

// check checks that the fields of r agree with each other.
func (s *suite) check(r core.Result) {
	s.Helper()
	capacity := r.Limit.Capacity()
	missing := r.Remaining < r.Quota() || r.Remaining == 0 && capacity > 0
	switch {
	case r.Allowed != (r.RetryAfter == 0):
		s.Errorf("allowed exactly if there is nothing to wait for: %+v", r)
	case r.RetryAfter < 0:
		s.Errorf("a wait is negative: %+v", r)
	case r.Over < 0 || r.Quota() < 0 || r.Over > 0 && r.Remaining > 0:
		s.Errorf("over is not what was used beyond the capacity and what is granted: %+v", r)
	case r.Remaining < 0 || r.Remaining > r.Quota():
		s.Errorf("remaining is not between 0 and the capacity with what is granted: %+v", r)
	case (r.RefillAfter > 0) != missing || (r.ResetAfter > 0) != missing:
		s.Errorf("there is a refill and a reset exactly if something is missing: %+v", r)
	case r.RefillAfter > r.ResetAfter || r.RetryAfter > r.ResetAfter && r.RetryAfter != core.Never && r.Granted == 0:
		s.Errorf("after the reset everything is there: %+v", r)
	}
	for _, wait := range []time.Duration{r.RetryAfter, r.RefillAfter, r.ResetAfter} {
		if wait%time.Microsecond != 0 && wait != core.Never {
			s.Errorf("waits are whole microseconds: %+v", r)
		}
	}
}
