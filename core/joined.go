package core

import (
	"iter"
	"slices"
	"time"
)

// SameName returns how many of the limiters further out than the one that made Results[i] have a rule of the same name,
// whether or not that rule applied. Writers of headers use it to give two limits two names.
func (d Decision) SameName(i int) int {
	if i < 0 || i >= len(d.Results) {
		return 0
	}
	receipts, end := d.receipts(), 0
	at := slices.IndexFunc(receipts, func(c *receipt) bool {
		end += len(c.results())
		return i < end
	})
	if at < 0 {
		return 0 // made without a limiter
	}
	var further []*Limiter
	for _, c := range receipts[:at+1] {
		if c.limiter == receipts[at].limiter {
			break // what it decided first names its rules
		}
		if c.limiter.rules.Load().named(d.Results[i].Rule) != nil && !slices.Contains(further, c.limiter) {
			further = append(further, c.limiter)
		}
	}
	return len(further)
}

// RetryAfter returns the time to wait, from At, until all limiters that made d admit the same request: 0 if d is allowed,
// Never if waiting does not help. It is the longest RetryAfter of the results that deny and, if an inner limiter denies,
// no shorter than the limiters further out need for another request of the same cost, because they stay charged.
func (d Decision) RetryAfter() time.Duration {
	if d.Allowed {
		return 0
	}
	wait := time.Duration(0)
	for i := range d.Results {
		if r := &d.Results[i]; !r.DryRun && !r.Allowed {
			wait = max(wait, r.RetryAfter)
		}
	}
	for _, repeat := range repeats(d.receipts()) {
		wait = max(wait, repeat)
	}
	return wait
}

// repeats yields, for each limit that receipts have charged, the instant of its result and how long it takes from then until the
// same cost fits once more.
func repeats(receipts []*receipt) iter.Seq2[time.Time, time.Duration] {
	return func(yield func(time.Time, time.Duration) bool) {
		for _, c := range receipts {
			results := c.results()
			for i := range results {
				r := &results[i]
				if c.allowed && !r.DryRun && !yield(r.At, r.availableAfter(c.costOf(r.Rule))) {
					return
				}
			}
		}
	}
}

// costOf returns what the claim of a rule was charged, or 0.
func (c *receipt) costOf(rule string) int {
	if c.extra == nil {
		return int(c.cost)
	}
	for i := range c.extra.charged {
		if one := &c.extra.charged[i]; one.Rule == rule {
			return max(one.Cost, 1)
		}
	}
	return 0
}

// availableAfter returns a time after which at least cost is available. It is the exact time, but for a cost above
// Remaining+1 of other algorithms than TokenBucket.
func (r *Result) availableAfter(cost int) time.Duration {
	switch missing := time.Duration(cost - r.Remaining); {
	case missing <= 0, r.Limit.Algorithm == InFlight: // what is in flight ends with the request
		return 0
	case missing == 1:
		return r.RefillAfter
	case r.Limit.Algorithm == TokenBucket && r.Limit.Rate > 0:
		rate := time.Duration(r.Limit.Rate)
		perRequest := (r.Limit.Period + rate - 1) / rate
		if missing-1 <= r.ResetAfter/perRequest {
			return min(r.ResetAfter, r.RefillAfter+(missing-1)*perRequest)
		}
	}
	return r.ResetAfter
}
