package core

import (
	"context"
	"errors"
	"math"
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
	proxied   atomic.Bool // noteProxy has logged
}

// New returns a limiter with these rules. Its error joins all mistakes in rules and opts; each wraps ErrInvalid.
// The rules are copied.
func New(rules []Rule, opts ...Option) (*Limiter, error) {
	c := config{timeout: defaultTimeout}
	errs := c.apply(opts)
	l := &Limiter{skips: c.skips, observers: c.observers, reporter: &reporter{logger: c.logger}}
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

// Must returns l, or panics if err is not nil. It wraps New for limiters whose rules are constants of the program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Take charges claims without a request, for jobs, logins or tokens. A claim without Limits uses the limits of its rule. A claim
// needs Limits if l has no rule of its name, or if that rule has a Tier: without a request, Take cannot know which tier applies. While
// the store is down, a claim follows the FailureMode of its rule; a claim of another name follows the zero FailureMode.
// Take returns the same errors as Check.
func (l *Limiter) Take(ctx context.Context, claims ...Claim) (Decision, error) {
	rules, err := l.current()
	if err == nil && len(claims) == 0 {
		err = invalid("Take needs at least one claim")
	}
	if err != nil {
		return Decision{}, prefix(err)
	}
	if len(claims) == 1 {
		if c := l.takePlain(ctx, rules, &claims[0]); c != nil {
			return c.one(), nil
		}
	}
	return l.takeAll(orBackground(ctx), rules, &receipt{limiter: l}, claims)
}

// takePlain decides claim, the only one of Take. It returns nil if it cannot: then nothing has happened.
func (l *Limiter) takePlain(ctx context.Context, rules *ruleset, claim *Claim) *receipt {
	rule := rules.named(ruleName(claim.Rule))
	if rule == nil || rule.Tier != nil || !claim.isPlain() {
		return nil
	}
	c := l.takeOne(nil, rule, claim.Key, claim.Cost, claim.Peek)
	if c != nil && !claim.Peek {
		l.observeOne(orBackground(ctx), nil, c, claim.Key, claim.Cost)
	}
	return c
}

// takeOne decides a request for one key of rule, if that has one token bucket in memory: nearly every decision. It returns c
// or, if that is nil, a receipt of its own; or nil if it cannot decide: then nothing has happened.
func (l *Limiter) takeOne(c *receipt, rule *activeRule, key string, cost int, peek bool) *receipt {
	m, limit := l.store.memory, rule.bucket
	if m == nil || limit == nil || uint(cost) > math.MaxUint8 {
		return nil
	}
	m.once.Do(m.init)
	now, retry, u, ok := m.store.TakeOne(m.store.Pair(rule.Name, key), &limit.Limit, int64(max(cost, 1)), peek)
	if !ok {
		return nil
	}
	at := m.store.Time(now)
	if c == nil {
		c = &receipt{limiter: l}
	}
	c.rule = rule
	c.result[0].answer(rule.Name, &limit.limit, rule.DryRun, retry, u, at)
	c.recordOne(key, cost, peek)
	return c
}

// takeAll is Take for claims that takeOne cannot decide.
func (l *Limiter) takeAll(ctx context.Context, rules *ruleset, c *receipt, claims []Claim) (d Decision, err error) {
	o := newObservation()
	o.Claims = append(o.Claims, claims...)
	var took time.Duration
	if err = rules.complete(c, o.Claims); err == nil {
		took, err = l.decide(ctx, rules, c, o.Claims)
	}
	err = prefix(err)
	l.observe(ctx, nil, o, c, took, err)
	if err == nil {
		c.view(&d)
	}
	return d, err
}

// decide has claims decided: by the store, within the deadline and unless the breaker withholds the call; if that fails,
// by the failure modes of their rules. An error of claims at fault is no failure. It returns how long the store took.
func (l *Limiter) decide(ctx context.Context, rules *ruleset, c *receipt, claims []Claim) (took time.Duration, err error) {
	if len(claims) == 0 {
		c.allowed = true
		return 0, nil
	}
	if m := l.store.memory; m != nil && c.rule != nil {
		if _, err = m.takeAsks(claims, c.result[:0]); err == nil {
			c.recordOne(claims[0].Key, claims[0].Cost, claims[0].Peek)
		}
		return 0, err
	}
	results, took, err := l.store.take(ctx, claims, c.room(claims))
	switch {
	case err == nil:
		c.record(rules, claims, results)
	case !errors.Is(err, ErrInvalid):
		err = l.decideWithoutStore(ctx, rules, c, claims, unavailable(err))
	}
	return took, err
}

// Store returns the store of l: that of WithStore or, without that, the MemoryStore that New has made.
func (l *Limiter) Store() Store {
	if _, err := l.current(); err != nil {
		return nil
	}
	return l.store.store
}
