package selling

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A saved is what one customer had used of one limit. Keep it in your database.
type saved struct {
	Customer string
	Limit    string    // as core.ParseLimits reads it
	Missing  int       // requests that were left beyond the limit, or -n if n were used
	Until    time.Time // when the window ends
}

// backUp returns what a customer has used.
func backUp(ctx context.Context, limiter *core.Limiter, customer string, limits []core.Limit) (all []saved, err error) {
	d, err := limiter.UsageOf(ctx, "plan", "user:"+customer, limits...)
	if err = errors.Join(err, d.Degraded); err != nil {
		return nil, err
	}
	for _, r := range d.Results {
		if missing := r.Remaining - r.Limit.Capacity(); missing != 0 {
			all = append(all, saved{customer, r.Limit.String(), missing, windowEnd(r)})
		}
	}
	return all, nil
}

// windowEnd returns when what was used or granted is over. ResetAfter is not enough: it is 0 if nothing is used.
func windowEnd(r core.Result) time.Time {
	if _, end := r.Limit.Calendar.Window(r.At); !end.IsZero() {
		return end
	}
	if r.Limit.Algorithm == core.FixedWindow {
		return r.At.Add(r.Limit.Period - time.Duration(r.At.UnixNano())%r.Limit.Period)
	}
	return r.At.Add(cmp.Or(r.ResetAfter, r.Limit.Period))
}

// restore takes away what a customer had used. Call it once for each saved, and only if Redis has lost its data.
func restore(ctx context.Context, limiter *core.Limiter, s saved) error {
	limits, err := core.ParseLimits(s.Limit)
	if err != nil || !time.Now().Before(s.Until) { // a new window has begun
		return err
	}
	return limiter.Grant(ctx, "plan", "user:"+s.Customer, s.Missing, limits...)
}
