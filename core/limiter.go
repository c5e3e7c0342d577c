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
	rules     []Rule
	byName    map[string]*Rule
	store     *link
	fallback  *link
	skip      func(*http.Request) bool
	observers []Observer
}

// New returns a limiter with these rules. Its error joins all mistakes in rules and opts; each wraps ErrInvalid.
// The rules are copied.
func New(rules []Rule, opts ...Option) (*Limiter, error) {
	c := config{timeout: defaultTimeout, store: new(MemoryStore), fallback: new(MemoryStore)}
	errs := c.apply(opts)
	l := &Limiter{skip: c.skip, observers: c.observers}
	l.store, l.fallback = newLink(c.store, c.timeout), newLink(c.fallback, c.timeout)
	errs = append(errs, l.addRules(rules)...)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l, nil
}

// Must returns l, or panics if err is not nil. It wraps New for limiters whose rules are constants of the program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

func (l *Limiter) addRules(rules []Rule) (errs []error) {
	if len(rules) == 0 {
		return []error{invalid("a limiter needs at least one rule")}
	}
	l.rules = make([]Rule, len(rules))
	l.byName = make(map[string]*Rule, len(rules))
	for i, r := range rules {
		r.Name = ruleName(r.Name)
		r.Limits = append([]Limit(nil), r.Limits...)
		if l.byName[r.Name] != nil {
			errs = append(errs, within(r.place(), invalid("name is not unique")))
		}
		errs = append(errs, within(r.place(), r.validate()))
		l.rules[i] = r
		l.byName[r.Name] = &l.rules[i]
	}
	return errs
}

func ruleName(name string) string {
	if name == "" {
		return "default"
	}
	return name
}

// place says which rule an error is about. If r is nil, it is about skipping.
func (r *Rule) place() string {
	if r == nil {
		return "skip"
	}
	return fmt.Sprintf("rule %q", r.Name)
}

func (r *Rule) validate() error {
	err := validateLimits(r.Limits)
	if !printableASCII(r.Name) {
		err = errors.Join(invalid("name must be printable ASCII"), err)
	}
	if r.Key == nil {
		err = errors.Join(err, invalid("key func is missing"))
	}
	if len(r.Limits) == 0 {
		err = errors.Join(err, invalid("a rule needs at least one limit"))
	}
	if r.OnFailure > FailClosed {
		err = errors.Join(err, invalid("there is no failure mode %d", r.OnFailure))
	}
	return err
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// A charge is what a limiter asked of a store for one decision. It holds the first claim and results of the decision
// itself, so that a usual decision costs one allocation. A carried with its charge stays below 512 bytes: above, the
// runtime allocates memory with pointers in a slower way.
type charge struct {
	limiter  *Limiter
	link     *link     // to the store that decided
	claims   []Claim   // asked for and then, once decided, those that were charged
	at       time.Time // when it decided
	peek     bool
	refunded atomic.Bool

	self    [1]*charge
	claim   [1]Claim
	results [2]Result
}

// begin makes c, which is zero, a charge of l.
func (c *charge) begin(l *Limiter) *charge {
	c.limiter = l
	c.self[0] = c
	c.claims = c.claim[:0]
	return c
}

func (l *Limiter) newCharge() *charge { return new(charge).begin(l) }

// keepCharged drops the claims that d did not charge.
func (c *charge) keepCharged(d Decision) {
	asked := c.claims
	c.claims = c.claims[:0]
	results := d.Results
	for _, claim := range asked {
		fits := true
		for range claim.Limits {
			fits = fits && results[0].Allowed
			results = results[1:]
		}
		if d.Allowed && fits && !claim.Peek {
			c.claims = append(c.claims, claim)
		}
	}
}

// Check charges r for every rule that applies to it and says whether it is admitted. It writes no response. A request
// whose context already carries a decision of l gets that one and is not charged again.
//
// An error means that r must not be served: it wraps ErrNoKey if r has no key, ErrUnavailable if the store is down and a
// rule fails closed, ErrInvalid if a cost, a tier or a key is at fault, or it is what a callback of a rule came up with.
func (l *Limiter) Check(r *http.Request) (Decision, error) {
	if d, ok := carriedBy(r.Context()).find(l); ok {
		return d, nil
	}
	return l.check(r, l.newCharge())
}

// Peek returns what Check would say of r, but charges nothing and tells no observer.
func (l *Limiter) Peek(r *http.Request) (Decision, error) {
	c := l.newCharge()
	c.peek = true
	return l.check(r, c)
}

// Take charges claims without a request, for jobs, logins or tokens. Claims of a rule of l may leave out their limits
// and fail like that rule; claims of other names need limits and fail like the zero FailureMode.
// Its errors are those of Check.
func (l *Limiter) Take(ctx context.Context, claims ...Claim) (Decision, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	c := l.newCharge()
	for i, claim := range claims {
		if err := l.complete(&claim); err != nil {
			return Decision{}, within(fmt.Sprintf("claim %d: rule %q", i+1, claim.Rule), err)
		}
		c.claims = append(c.claims, claim)
	}
	return l.decide(ctx, c)
}

// complete fills in what the rule of c says, and checks c.
func (l *Limiter) complete(c *Claim) error {
	c.Rule = ruleName(c.Rule)
	if rule := l.byName[c.Rule]; rule != nil {
		c.DryRun = c.DryRun || rule.DryRun
		if len(c.Limits) == 0 {
			c.Limits = rule.Limits
		}
	}
	switch {
	case !printableASCII(c.Rule):
		return invalid("name must be printable ASCII")
	case len(c.Limits) == 0:
		return invalid("there is no rule of this name, and the claim has no limits")
	case c.Key == "":
		return ErrNoKey
	case c.Cost < 0:
		return invalid("cost must not be negative, got %d", c.Cost)
	}
	return validateLimits(c.Limits)
}

// Refund gives back exactly what d was charged by l, once: what of it still counts is available again. A denied decision
// was charged nothing.
func (l *Limiter) Refund(ctx context.Context, d Decision) error {
	if ctx == nil {
		ctx = context.Background()
	}
	for _, c := range d.charges {
		if c.limiter != l || len(c.claims) == 0 || !c.refunded.CompareAndSwap(false, true) {
			continue
		}
		if err := l.refund(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Reset forgets a key of a rule: all its limits, those of its tiers included. The rule may be one that only claims of
// Take have named. It resets the store and the fallback, and its error wraps ErrUnavailable if either is down.
func (l *Limiter) Reset(ctx context.Context, rule, key string) error {
	if ctx == nil {
		ctx = context.Background()
	}
	if key == "" {
		return within(fmt.Sprintf("reset of rule %q", rule), ErrNoKey)
	}
	return l.reset(ctx, Claim{Rule: ruleName(rule), Key: key})
}

// StoreHealth says how l gets on with its store. A MemoryStore is always well.
func (l *Limiter) StoreHealth() Health { return l.store.breaker.snapshot() }

// observe tells the observers of a decision, or of a failure to make one.
func (l *Limiter) observe(ctx context.Context, d Decision, err error) {
	if err != nil {
		d = Decision{Degraded: err}
	}
	for _, o := range l.observers {
		o(ctx, d)
	}
}
