package core

import (
	"cmp"
	"context"
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
	waiting   waiters
}

// New returns a limiter with a copy of these rules. Its error joins all mistakes in rules and opts; each of them wraps
// ErrInvalid.
func New(rules []Rule, opts ...Option) (*Limiter, error) {
	c := config{timeout: 50 * time.Millisecond, maxWaiting: 10_000}
	errs := c.apply(opts)
	l := &Limiter{skips: c.skips, observers: c.observers, reporter: &reporter{logger: c.logger, lines: make(map[failureKind]failureLine)}}
	l.waiting.most, l.waiting.taken, l.waiting.asking = int64(c.maxWaiting), make(map[Pair]int64), make(map[Pair]int64)
	l.store = newStoreClient(cmp.Or[Store](c.store, new(MemoryStore)), c.timeout, l.reporter)
	l.fallback = newStoreClient(cmp.Or[Store](c.fallback, new(MemoryStore)), c.timeout, l.reporter)
	l.fallback.outages.fallback = true
	set, mistakes := newRuleset(rules)
	l.rules.Store(set)
	errs = sharers.add(l, append(errs, mistakes...), c.store, c.fallback)
	if err := allOf(errs...); err != nil {
		return nil, prefix(err)
	}
	return l, nil
}

// Must returns l, or panics if err is not nil. Use it around New if the rules are constants of your program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Store returns the store of l: the argument of WithStore or, without it, the limiter's own MemoryStore.
func (l *Limiter) Store() Store {
	if _, err := l.current(); err != nil {
		return nil
	}
	return l.store.store
}

// current returns the active rules. A Limiter that New did not make has none.
func (l *Limiter) current() (*ruleset, error) {
	if l == nil {
		return nil, invalid("the limiter is nil")
	}
	if s := l.rules.Load(); s != nil {
		return s, nil
	}
	return nil, invalid("the limiter was not made by New")
}

// MayWait is for adapters. It reports whether a rule of l has a MaxWait.
func (l *Limiter) MayWait() bool {
	rules, err := l.current()
	return err == nil && rules.mayWait
}

// Rules returns a copy of the active rules.
func (l *Limiter) Rules() []Rule {
	s, err := l.current()
	if err != nil {
		return nil
	}
	rules := make([]Rule, len(s.rules))
	for i := range s.rules {
		rules[i] = s.rules[i].Rule
	}
	return cloneRules(rules)
}

// SetRules replaces all rules of l at once, while requests are being decided. Its error joins all mistakes in rules; if
// it is not nil, l keeps its old rules. If a new rule has the name of an old one, and a new limit has the algorithm and
// period of an old one, what a key has used stays used. SetRules copies rules.
func (l *Limiter) SetRules(rules []Rule) error {
	if _, err := l.current(); err != nil {
		return prefix(err)
	}
	s, mistakes := newRuleset(rules)
	if err := allOf(mistakes...); err != nil {
		return prefix(err)
	}
	l.rules.Store(s)
	return nil
}

func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
