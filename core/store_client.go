package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
)

// A storeClient calls a store for a Limiter: within a deadline and through a breaker, or directly if the store is a
// MemoryStore.
type storeClient struct {
	store    Store
	memory   *MemoryStore // store, if it is one
	local    LocalTaker   // store, if it is one
	timeout  time.Duration
	deadline atomic.Pointer[sharedDeadline]
	breaker  breaker.Breaker
	outages  outageLog
	overload overload
}

func newStoreClient(s Store, timeout time.Duration, log *reporter) *storeClient {
	m, _ := s.(*MemoryStore)
	local, _ := s.(LocalTaker)
	k := &storeClient{store: s, memory: m, local: local, timeout: timeout}
	k.outages.log, k.outages.breaker = log, &k.breaker
	return k
}

// decideOnce asks the store to decide the claims of c, within the deadline. No request waits longer than most for its turn.
// If the store fails or the breaker is open, the failure modes of the rules decide. An error about the claims themselves is
// not a failure of the store. decideOnce returns how long the store took.
func (l *Limiter) decideOnce(ctx context.Context, c *receipt, most time.Duration) (took time.Duration, err error) {
	if n := len(c.claims()); n > maxClaims {
		return 0, tooMany(n)
	}
	took, err = l.store.take(ctx, c, byStore, most)
	switch {
	case err == nil:
		c.record()
	case !errors.Is(err, ErrInvalid):
		err = l.decideWithoutStore(ctx, c, most, unavailable(err))
	}
	return took, err
}

// decideWithoutStore decides the claims of c, which the store did not decide because of cause. A denial that the store
// remembers stands. Otherwise, if the store is down, the failure modes of the rules decide: a FailClosed claim that is not
// a dry run fails the request, the fallback decides the FailLocal claims together, and FailOpen claims get no results. As
// long as the breaker has not opened, the fallback decides FailOpen claims too: one lost reply does not lift a limit. If
// too many calls are in flight, the fallback decides all claims, whatever their modes: otherwise a client that floods the
// store would open the FailOpen rules to itself and close the FailClosed rules to everybody.
func (l *Limiter) decideWithoutStore(ctx context.Context, c *receipt, most time.Duration, cause error) error {
	overloaded := errors.Is(cause, breaker.ErrTooMany)
	if overloaded {
		l.store.overload.note(ctx, l.reporter.log(), cause)
	}
	if l.store.keepKnownDenials(c, most) {
		c.more().degraded = prefix(cause)
		c.record()
		return nil
	}
	down, _ := l.store.breaker.Down()
	local, claims := false, c.claims()
	for i := range claims {
		a := &claims[i]
		switch mode := a.rule.OnFailure; {
		case a.by == byNobody:
		case overloaded, mode == FailLocal, mode == FailOpen && !down:
			a.by, local = byFallback, true
		case mode == FailClosed && !a.dryRun:
			return cause
		default:
			a.by = byNobody
		}
	}
	c.more().degraded = prefix(cause)
	if local {
		if _, err := l.fallback.take(ctx, c, byFallback, most); err != nil {
			return fmt.Errorf("%w; fallback: %w", cause, err)
		}
	}
	c.record()
	return nil
}

// take asks the store to decide those claims of c that by decides; no request waits longer than most for its turn. It
// returns how long the store took, or 0 if that is a MemoryStore. The limiter has validated the claims.
func (k *storeClient) take(ctx context.Context, c *receipt, by decider, most time.Duration) (took time.Duration, err error) {
	if k.memory != nil {
		k.memory.take(c, by, most)
		return 0, nil
	}
	q := questions.Get().(*question)
	defer questions.Put(q)
	q.ask(c, by, most)
	var results []Result
	local := false
	if k.local != nil {
		results, local, err = k.takeLocal(q)
	}
	if !local {
		took, err = k.call(ctx, k.breaker.Enter, func(ctx context.Context) (err error) {
			results, err = k.store.Take(ctx, q.claims, q.results)
			if err == nil {
				err = q.check(results)
			}
			return err
		})
	}
	if err == nil {
		c.keep(results)
	}
	return took, err
}

// A denialKeeper is a store that remembers for how long a pair is used up. Denied appends the results of a claim that
// cannot fit for that reason, whatever it costs, or reports false.
type denialKeeper interface {
	Denied(c *Claim, dst []Result) (results []Result, denied bool)
}

// keepKnownDenials keeps the results of those claims of c that the store knows to be denied, and reports whether there
// are any. The others then get no results, and nothing is charged.
func (k *storeClient) keepKnownDenials(c *receipt, most time.Duration) (denied bool) {
	keeper, ok := k.store.(denialKeeper)
	if !ok {
		return false
	}
	claims := c.claims()
	known := make([]bool, len(claims))
	var results []Result
	for i := range claims {
		if a := &claims[i]; a.by == byStore && !a.dryRun {
			var own Claim
			a.makeClaim(&own)
			own.MaxWait = a.maxWait(most)
			results, known[i] = keeper.Denied(&own, results)
			denied = denied || known[i]
		}
	}
	for i := range claims {
		if denied && !known[i] {
			claims[i].by = byNobody
		}
	}
	if denied {
		c.keep(results)
	}
	return denied
}

// settle settles what settlements say; the store sets At of those that it renews. It returns how long the store took,
// or 0 if that is a MemoryStore. The call is made however many others are in flight, and even while the breaker is open:
// without it, a failed login would stay free until its hold ends. The admitted requests bound the settlements.
func (k *storeClient) settle(ctx context.Context, settlements []Settlement) (took time.Duration, err error) {
	if k.memory != nil {
		return 0, k.memory.settle(settlements)
	}
	own := slices.Clone(settlements)
	took, err = k.call(ctx, k.breaker.EnterOwed, func(ctx context.Context) error { return k.store.Settle(ctx, own) })
	if err == nil {
		copy(settlements, own)
	}
	return took, err
}

func (k *storeClient) reset(ctx context.Context, pairs []Pair) error {
	if k.memory != nil {
		return k.memory.Reset(ctx, pairs)
	}
	_, err := k.call(ctx, k.breaker.EnterOwed, func(ctx context.Context) error { return k.store.Reset(ctx, pairs) })
	return err
}
