package core

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// A Limiter decides requests by its rules. It is safe for concurrent use.
type Limiter struct {
	rules     atomic.Pointer[ruleset]
	store     *storeClient
	fallback  *storeClient
	skips     []func(*http.Request) bool
	observers []Observer
	reporter  *reporter
	proxied   atomic.Bool // noteProxy has logged
	grants    grants

	waiting    atomic.Int64 // requests that sleep until their turn
	maxWaiting int64
}

// New returns a limiter with a copy of these rules. Its error joins all mistakes in rules and opts; each of them wraps
// ErrInvalid.
func New(rules []Rule, opts ...Option) (*Limiter, error) {
	c := config{timeout: defaultTimeout, maxWaiting: defaultMaxWaiting}
	errs := c.apply(opts)
	l := &Limiter{skips: c.skips, observers: c.observers, reporter: &reporter{logger: c.logger}, maxWaiting: int64(c.maxWaiting)}
	l.store = newStoreClient(orMemory(c.store), c.timeout, l.reporter)
	l.fallback = newStoreClient(orMemory(c.fallback), c.timeout, l.reporter)
	set, mistakes := newRuleset(rules)
	l.rules.Store(set)
	errs = append(append(errs, mistakes...), limitersByStore.add(l, c.store, c.fallback)...)
	if err := allOf(errs...); err != nil {
		return nil, prefix(err)
	}
	return l, nil
}

// orMemory returns s or, if it is nil, a MemoryStore.
func orMemory(s Store) Store {
	if s == nil {
		return new(MemoryStore)
	}
	return s
}

// Must returns l, or panics if err is not nil. Use it around New if the rules are constants of your program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Take charges claims without a request, for jobs, logins or tokens. A claim without Limits uses the limits of its
// rule. A claim needs Limits if l has no rule of its name, or if that rule has a Tier: without a request, Take cannot
// know which tier applies. While the store is down, a claim follows the FailureMode of its rule, or FailLocal if l has
// no rule of its name. Take returns the same errors as Check.
func (l *Limiter) Take(ctx context.Context, claims ...Claim) (d Decision, err error) {
	c := &receipt{limiter: l}
	if err = l.take(orBackground(ctx), c, claims); err == nil {
		c.view(&d)
	}
	return d, err
}

// take is Take, with the decision in c.
func (l *Limiter) take(ctx context.Context, c *receipt, claims []Claim) error {
	rules, err := l.current()
	if err == nil && len(claims) == 0 {
		err = invalid("Take needs at least one claim")
	}
	if err != nil {
		return prefix(err)
	}
	var room [2]Claim
	own := append(room[:0], claims...)
	var took time.Duration
	if err = rules.complete(own); err == nil {
		took, err = l.decide(ctx, c, own)
	}
	err = prefix(err)
	l.observe(ctx, nil, c, own, took, err)
	return err
}

// decide decides claims and records them in c. It returns how long the store took.
func (l *Limiter) decide(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	switch {
	case len(claims) == 0:
		c.allowed = true
		return 0, nil
	case c.sleeps && mayWait(claims):
		return l.decideToWait(ctx, c, claims)
	}
	return l.decideOnce(ctx, c, claims)
}

// decideOnce asks the store to decide claims, within the deadline. If the store fails or the breaker is open,
// the failure modes of the rules decide. An error about the claims themselves is not a failure of the store. decideOnce
// returns how long the store took.
func (l *Limiter) decideOnce(ctx context.Context, c *receipt, claims []Claim) (took time.Duration, err error) {
	results, took, err := l.store.take(ctx, claims, c.roomFor(claims))
	switch {
	case err == nil:
		c.record(claims, results)
	case !errors.Is(err, ErrInvalid):
		err = l.decideWithoutStore(ctx, c, claims, unavailable(err))
	}
	return took, err
}

// Store returns the store of l: the argument of WithStore or, without it, the limiter's own MemoryStore.
func (l *Limiter) Store() Store {
	if _, err := l.current(); err != nil {
		return nil
	}
	return l.store.store
}
