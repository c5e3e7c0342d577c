package core

import (
	"testing"
	"time"
)

func TestWhenACostFits(t *testing.T) {
	minute := func(remaining int, reset time.Duration) Result {
		return Result{Limit: PerMinute(60), Remaining: remaining, RefillAfter: 300 * time.Millisecond, ResetAfter: reset}
	}
	window, never, places := minute(2, 57*time.Second), minute(0, 57*time.Second), minute(0, time.Second)
	window.Limit = window.Limit.Using(FixedWindow)
	never.Limit.Rate = 0
	places.Limit = AtOnce(5)
	for why, row := range map[string]struct {
		result Result
		cost   int
		want   time.Duration
	}{
		"at once":              {minute(2, 58*time.Second), 2, 0},
		"the next":             {minute(2, 58*time.Second), 3, 300 * time.Millisecond},
		"further ones":         {minute(2, 58*time.Second), 5, 2300 * time.Millisecond},
		"nearly all":           {minute(2, 57900*time.Millisecond), 60, 57300 * time.Millisecond},
		"all":                  {minute(2, 57*time.Second), 60, 57 * time.Second},
		"more than it has":     {minute(2, 57*time.Second), 1 << 60, 57 * time.Second},
		"of a window":          {window, 5, 57 * time.Second},
		"the next of a window": {window, 3, 300 * time.Millisecond},
		"of no rate":           {never, 5, 57 * time.Second},
		"in flight":            {places, 5, 0},
	} {
		if got := row.result.availableAfter(row.cost); got != row.want {
			t.Errorf("%s: after %v, want %v", why, got, row.want)
		}
	}
}
