package redisx

import (
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Denied reports whether a remembered denial says that c cannot fit, whatever it costs, and appends the results. It is for
// the time when the server cannot be asked, so it does not end after maxDenial.
func (s *Store) Denied(c *core.Claim, dst []core.Result) (results []core.Result, denied bool) {
	if s.denials == nil {
		return dst, false
	}
	return s.denials.known(c, time.Now(), dst)
}

// known appends the results of a denied c.
func (c *denyCache) known(claim *core.Claim, now time.Time, dst []core.Result) (results []core.Result, denied bool) {
	var buf [256]byte
	key := c.layout.appendKey(buf[:0], claim.Rule, claim.Key)
	d := c.slot(key).denial.Load()
	if d == nil {
		return dst, false
	}
	first := 0
	for i := range d.keys {
		a := &d.asked[i]
		if d.keys[i] == string(key) && slices.Equal(a.limits, claim.Limits) {
			if past := now.Sub(d.sent); past >= d.known || a.gifts != c.slot(key).gifts.Load() {
				return dst, false
			}
			return d.appendDenied(dst, first, a, claim, now)
		}
		first += len(a.limits)
	}
	return dst, false
}

// appendDenied appends the results of d for the limits of a, the first of which is result first, if they deny claim.
func (d *denial) appendDenied(dst []core.Result, first int, a *asked, claim *core.Claim, now time.Time) (results []core.Result, denied bool) {
	past := now.Sub(d.sent)
	for _, r := range d.results[first : first+len(a.limits)] {
		denied = denied || past < deniesFor(&r, claim.Cost >= a.cost, claim.MaxWait > 0)
	}
	if !denied {
		return dst, false
	}
	for _, r := range d.results[first : first+len(a.limits)] {
		r.At = r.At.Add(past)
		switch {
		case r.Allowed, r.RetryAfter == core.Never:
		case claim.Cost > r.Limit.Capacity():
			r.RetryAfter = core.Never
		case claim.Cost != a.cost:
			r.RetryAfter = max(r.RetryAfter, r.ResetAfter) // any cost up to the capacity fits then
		}
		for _, wait := range [...]*time.Duration{&r.RetryAfter, &r.RefillAfter, &r.ResetAfter, &r.Wait} {
			if *wait != core.Never {
				*wait = max(*wait-past, 0)
			}
		}
		dst = append(dst, r)
	}
	return dst, true
}

// deniesFor returns for how long after its decision r denies a request that costs as much or, if not costsMore, any
// request. A request that may wait can fit although nothing remains.
func deniesFor(r *core.Result, costsMore, waits bool) time.Duration {
	switch {
	case r.Allowed, r.RetryAfter <= 0:
		return 0
	case costsMore:
		return r.RetryAfter
	case r.Remaining > 0, waits:
		return 0
	case r.RefillAfter > 0:
		return min(r.RetryAfter, r.RefillAfter)
	}
	return r.RetryAfter
}
