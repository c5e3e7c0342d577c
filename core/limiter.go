package core

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// A Limiter holds the rules that guard some requests. It is safe for concurrent use.
type Limiter struct {
	rules     atomic.Pointer[ruleset]
	store     *storeClient
	fallback  *storeClient
	skips     []func(*http.Request) bool
	observers []Observer
	reporter  *reporter
}

// New returns a limiter with these rules. Its error joins all mistakes in rules and opts; each wraps ErrInvalid.
// The rules are copied.
func New(rules []Rule, opts ...Option) (*Limiter, error) {
	c := config{timeout: defaultTimeout}
	errs := c.apply(opts)
	l := &Limiter{skips: c.skips, observers: c.observers, reporter: &reporter{logger: c.logger}}
	l.store = newStoreClient(given(c.store), c.timeout, l.reporter)
	l.fallback = newStoreClient(given(c.fallback), c.timeout, l.reporter)
	set, mistakes := newRuleset(rules)
	l.rules.Store(set)
	errs = append(append(errs, mistakes...), limitersByStore.add(l, c.store, c.fallback)...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l, nil
}

// given returns s or, if it is nil, a MemoryStore.
func given(s Store) Store {
	if s == nil {
		return new(MemoryStore)
	}
	return s
}

// Must returns l, or panics if err is not nil. It wraps New for limiters whose rules are constants of the program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Check charges r for every rule that applies to it and says whether it is admitted. It writes no response. A request
// whose context already carries a decision of l gets that one and is not charged again.
//
// An error means that r must not be served: it wraps ErrNoKey if r has no key, ErrUnavailable if the store is down and a
// rule fails closed, ErrInvalid if a cost, a tier or a key is at fault, or it is what a callback of a rule came up with.
func (l *Limiter) Check(r *http.Request) (Decision, error) {
	if own := carriedBy(r.Context()).find(l); own != nil {
		d, _ := own.own()
		return d, nil
	}
	return l.checkAlone(r, false)
}

// Peek returns what Check would say of r, but charges nothing and tells no observer.
func (l *Limiter) Peek(r *http.Request) (Decision, error) {
	return l.checkAlone(r, true)
}

// Take charges claims without a request, for jobs, logins or tokens. Claims of a rule of l may leave out their limits
// and fail like that rule; claims of other names need limits and fail like the zero FailureMode.
// Its errors are those of Check.
func (l *Limiter) Take(ctx context.Context, claims ...Claim) (Decision, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	set, err := l.current()
	if err != nil {
		return Decision{}, err
	}
	if len(claims) == 0 {
		return Decision{}, invalid("Take needs at least one claim")
	}
	var room [2]Claim
	asked := append(room[:0], claims...)
	c := l.newCharge()
	var last *Rule
	for i := range asked {
		rule, err := set.complete(&asked[i])
		if err != nil {
			err = within(fmt.Sprintf("claim %d: rule %q", i+1, asked[i].Rule), err)
			l.observe(ctx, nil, c, asked, 0, err)
			return Decision{}, err
		}
		last = rule
	}
	c.usual(last, asked)
	took, err := l.decide(ctx, c, asked)
	l.observe(ctx, nil, c, asked, took, err)
	return c.outcome(err)
}

// complete fills in what the rule of c says, and checks c. It returns the rule, if there is one.
func (s *ruleset) complete(c *Claim) (*Rule, error) {
	c.Rule = ruleName(c.Rule)
	rule := s.byName[c.Rule]
	if rule != nil {
		c.DryRun = c.DryRun || rule.DryRun
		if len(c.Limits) == 0 {
			c.Limits = rule.Limits
		}
	}
	switch {
	case !printableASCII(c.Rule):
		return nil, invalid("name must be printable ASCII")
	case len(c.Limits) == 0:
		return nil, invalid("there is no rule of this name, and the claim has no limits")
	case c.Key == "":
		return nil, ErrNoKey
	case c.Cost < 0:
		return nil, invalid("cost must not be negative, got %d", c.Cost)
	}
	return rule, validateLimits(c.Limits)
}

// Settle replaces what d was charged by l for a rule by what it costs after all; an empty rule is all rules of d. If it
// costs less, the difference is available again as far as it still counts; if it costs more, the difference is charged
// now, even if it does not fit. Each rule of a decision is settled once; a rule that was charged nothing is not settled.
// Its error wraps ErrInvalid if the cost is negative or neither d nor l knows the rule, or ErrUnavailable if the store is
// down; what was charged stays then.
func (l *Limiter) Settle(ctx context.Context, d Decision, rule string, cost int) error {
	if ctx == nil {
		ctx = context.Background()
	}
	if cost < 0 {
		return within("settle", invalid("cost must not be negative, got %d", cost))
	}
	rules, err := l.current()
	if err != nil {
		return err
	}
	if rule != "" && rules.byName[rule] == nil && !d.has(rule) {
		return within(fmt.Sprintf("settle rule %q", rule), invalid("there is no rule of this name"))
	}
	var errs []error
	for _, c := range d.charges() {
		if c.limiter == l {
			errs = append(errs, unavailable(c.settleAt(ctx, rule, cost)))
		}
	}
	return errors.Join(errs...)
}

// Refund gives back exactly what d was charged by l, once: what of it still counts is available again. A denied decision
// was charged nothing. It is Settle of all rules at 0.
func (l *Limiter) Refund(ctx context.Context, d Decision) error { return l.Settle(ctx, d, "", 0) }

// Reset forgets a key of a rule of l: all its limits, those of its tiers included. It resets the store and the fallback.
// Its error wraps ErrInvalid if l has no such rule, ErrNoKey if the key is empty, or ErrUnavailable if either store is
// down. For claims of Take that name no rule of l there is Store.Reset.
func (l *Limiter) Reset(ctx context.Context, rule, key string) error {
	if ctx == nil {
		ctx = context.Background()
	}
	rules, err := l.current()
	if err != nil {
		return err
	}
	rule = ruleName(rule)
	switch {
	case rules.byName[rule] == nil:
		err = invalid("there is no rule of this name")
	case key == "":
		err = ErrNoKey
	default:
		return l.reset(ctx, Claim{Rule: rule, Key: key})
	}
	return within(fmt.Sprintf("reset of rule %q", rule), err)
}

// StoreHealth describes the store of l. A MemoryStore never fails.
func (l *Limiter) StoreHealth() Health {
	if _, err := l.current(); err != nil {
		return Health{}
	}
	return l.store.breaker.health(time.Now())
}

// outcome returns the decision or, if there is none, the error.
func (c *charge) outcome(err error) (d Decision, _ error) {
	if err == nil {
		c.view(&d)
	}
	return d, err
}
