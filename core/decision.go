package core

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// A Decision says whether a request is admitted, and why. It refers to the request, so a Decision that you keep also keeps
// the request in memory: copy the fields that you need.
type Decision struct {
	Allowed  bool
	At       time.Time     // the store's clock when it decided; zero if no rule applied
	Results  []Result      // one per claim and limit, in rule order; do not change them: Settle, headers and handlers share them
	Wait     time.Duration // allowed: the request may go on this long after At; Take, Check and Peek return at once, Wait and Guard sleep
	Degraded error         // why the store did not decide: a failure that was tolerated, or an overload; nil if it did

	receipt *receipt // nil if no limiter made the decision
}

// Tightest returns the enforced result that constrains the client most. Headers show it. A limit that denied comes
// before all others; of several, the one with the longest RetryAfter wins. Never is the longest, and a limit that the cost
// exceeds wins over one that a further grant could lift. If none denied, the limit with the smallest share of its capacity
// remaining wins. If two shares are equal, the limit that takes longer to recover wins: to recover means that one more
// request fits, if nothing remains, or else that the whole capacity is available. If the limits are still equal, the first
// one wins. A limit of requests in flight counts only if it denies. Tightest reports false if no result counts.
func (d Decision) Tightest() (Result, bool) {
	if i := d.tightest(); i >= 0 {
		return d.Results[i], true
	}
	return Result{}, false
}

// RetryAfter returns the time to wait, from At, until all limiters that made d admit the same request: 0 if d is
// allowed, Never if waiting does not help. It is the longest RetryAfter of the results that deny. If an inner limiter
// denies, the outer limiters have already charged the request, so RetryAfter also covers the time until they admit the
// same cost once more. It does not foresee that a grant ends while another limit makes the request wait.
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

// repeats yields, for each limit that receipts have charged, the instant of its result and how long after that instant
// the same cost fits once more.
func repeats(receipts []*receipt) iter.Seq2[time.Time, time.Duration] {
	return func(yield func(time.Time, time.Duration) bool) {
		for _, c := range receipts {
			if !c.allowed { // saves an allocation: nothing was charged
				continue
			}
			for i, own := range c.each {
				a := &c.claims()[i]
				for j := range own {
					r := &own[j]
					after := r.availableAfter
					if a.hold { // it is charged when the denied request has ended
						after = r.availableAfterCharge
					}
					if a.charged && !r.DryRun && !yield(r.At, after(c.askedOf(i))) {
						return
					}
				}
			}
		}
	}
}

// Key returns the request's key under a rule, as the rule's key func returned it, whether the request was allowed or
// denied. An empty rule is "default". Key reports false if the rule made no claim, or if no limiter made d, as for a
// Decision literal in a test.
//
// If several limiters have a rule of this name, Key returns the key of the limiter that denied the request or, if none
// did, of the outermost limiter. If a Take had several claims of the rule, it returns one of their keys. A key can be
// personal data, such as an address: it belongs in logs, not in responses.
func (d Decision) Key(rule string) (key string, ok bool) {
	rule = ruleName(rule)
	for _, c := range d.receipts() {
		if !ok || !c.allowed {
			if one, has := c.keyOf(rule); has {
				key, ok = one, true
			}
		}
	}
	return key, ok
}

// IsTooLarge is for adapters. It reports whether the cost that Results[i] was decided for exceeds the capacity of its
// limit and what is granted on top. If no limiter made d, IsTooLarge reports whether the cost never fits.
func (d Decision) IsTooLarge(i int) bool {
	r, first := &d.Results[i], 0
	if r.RetryAfter != Never || r.Granted <= 0 {
		return r.RetryAfter == Never
	}
	for _, c := range d.receipts() { // the cost may fit into what is granted, but for longer than that lasts
		for j, own := range c.each {
			if first += len(own); i < first {
				return c.askedOf(j) > r.Limit.Capacity()+r.Granted
			}
		}
	}
	return true
}

// OuterRulesOfSameName is for header writers, which must not give two limits the same name. It returns how many of the
// limiters outside the one that made Results[i] have a rule of that result's name, whether or not the rule applied.
func (d Decision) OuterRulesOfSameName(i int) int {
	if d.receipt == nil || d.receipt.limiter != nil {
		return 0 // no limiter made d, or only one
	}
	receipts, end := d.receipts(), 0
	at := slices.IndexFunc(receipts, func(c *receipt) bool {
		end += len(c.results())
		return i < end
	})
	if at < 0 {
		return 0
	}
	var further []*Limiter
	for _, c := range receipts[:at] {
		if c.limiter == receipts[at].limiter {
			break // what it decided first names its rules
		}
		if c.limiter.rules.Load().byName[d.Results[i].Rule] != nil && !slices.Contains(further, c.limiter) {
			further = append(further, c.limiter)
		}
	}
	return len(further)
}

func decisionOf(receipts []*receipt) (d Decision) {
	d = receipts[0].view(new([1]Result))
	for _, c := range receipts[1:] {
		d = join(d, c.view(new([1]Result)))
	}
	return d
}

// join returns the joint decision of two limiters; the limiter of a is outside the limiter of b.
func join(a, b Decision) Decision {
	d := Decision{Allowed: a.Allowed && b.Allowed, At: a.At, Degraded: cmp.Or(a.Degraded, b.Degraded)}
	d.Results = append(append(d.Results, a.Results...), b.Results...)
	switch made := slices.Concat(a.receipts(), b.receipts()); len(made) {
	case 0:
	case 1:
		d.receipt = made[0]
	default:
		d.receipt = &receipt{extra: &extra{joined: made}}
	}
	t, enforced := b.Tightest()
	if u, ok := a.Tightest(); a.At.IsZero() || enforced && (!ok || tighter(&t, &u)) {
		d.At = b.At
	}
	for _, one := range [...]*Decision{&a, &b} {
		if d.Allowed && one.Wait > 0 {
			d.Wait = max(d.Wait, one.At.Add(one.Wait).Sub(d.At))
		}
	}
	if !d.Allowed { // RetryAfter counts from the instant of the limit that makes the client wait longest
		last := d.At.Add(b.RetryAfter())
		for at, wait := range repeats(a.receipts()) {
			if wait <= 0 || wait == Never { // the clock of another store says nothing
				continue
			}
			if fits := at.Add(wait); !fits.Before(last) {
				last, d.At = fits, at
			}
		}
	}
	return d
}

// receipts returns the receipts of all limiters that made d.
func (d *Decision) receipts() []*receipt {
	switch {
	case d.receipt == nil:
		return nil
	case d.receipt.limiter == nil:
		return d.receipt.extra.joined
	}
	return []*receipt{d.receipt}
}
