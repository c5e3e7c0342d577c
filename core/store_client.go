package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
)

// A storeClient calls a store within a deadline and through a breaker, or directly if it is a MemoryStore.
type storeClient struct {
	store    Store
	reporter *reporter
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
	return &storeClient{store: s, reporter: log, memory: m, local: local, timeout: timeout}
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
// remembers stands. Otherwise, the failure modes of the rules decide; FailOpen claims get no results once the breaker has opened.
// If too many calls are in flight, the fallback decides all claims: otherwise a client that floods the store would open the
// FailOpen rules to itself and close the FailClosed rules to everybody.
func (l *Limiter) decideWithoutStore(ctx context.Context, c *receipt, most time.Duration, cause error) error {
	overloaded := errors.Is(cause, breaker.ErrTooMany)
	if overloaded {
		l.store.overload.note(ctx, l.reporter.log(), cause)
	}
	c.more().degraded = prefix(cause)
	if l.store.keepKnownDenials(c, most) {
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
	q := newQuestion(c, by, most)
	results, local, err := k.takeLocal(q)
	if !local && err == nil {
		took, err = k.call(ctx, k.breaker.Enter, func(ctx context.Context) (err error) {
			if results, err = k.store.Take(ctx, q.claims, q.results); err == nil {
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
		}
	}
	if len(results) == 0 {
		return false
	}
	for i := range claims {
		if !known[i] {
			claims[i].by = byNobody
		}
	}
	c.keep(results)
	return true
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
	_, err := k.call(ctx, k.breaker.EnterOwed, func(ctx context.Context) error { return k.store.Reset(ctx, pairs) })
	return err
}

// A question is what a store that is not in memory is asked.
type question struct {
	claims  []Claim
	results []Result // empty, with room for all results
	limits  int
	room    struct { // for one claim of one limit
		claims  [1]Claim
		results [1]Result
	}
}

// newQuestion asks for the claims of c that by decides.
func newQuestion(c *receipt, by decider, most time.Duration) *question {
	q, claims := new(question), c.claims()
	q.claims = q.room.claims[:0]
	for i := range claims {
		if a := &claims[i]; a.by == by {
			q.claims = append(q.claims, Claim{})
			own := &q.claims[len(q.claims)-1]
			a.makeClaim(own)
			own.MaxWait = a.maxWait(most)
			if by == byFallback {
				own.Lease = 0
			}
			q.limits += len(own.Limits)
		}
	}
	q.results = slices.Grow(q.room.results[:0], q.limits)
	return q
}

// check returns an error if there is not one result per claim and limit.
func (q *question) check(results []Result) error {
	if len(results) != q.limits {
		return fmt.Errorf("the store returned %d results for %d limits", len(results), q.limits)
	}
	return nil
}

// takeLocal reports false, without an error, if the store has to be asked.
func (k *storeClient) takeLocal(q *question) (results []Result, ok bool, err error) {
	if k.local == nil {
		return nil, false, nil
	}
	defer storePanicked(&err)
	if results, ok = k.local.TakeLocal(q.claims, q.results); ok {
		err = q.check(results)
	}
	return results, ok, err
}

// storePanicked makes a panic of a store an error. Defer it.
func storePanicked(err *error) {
	if v := recover(); v != nil {
		*err = invalid("the store panicked: %v", v)
	}
}

var errNoReturn = errors.New("the store did not return")

// call runs f with a context that ends at the deadline, unless enter, a method of the breaker, denies the call. It returns how
// long f took. A panic of f becomes an error. The breaker learns the outcome even if f ends its goroutine: a probe whose outcome
// is unknown would keep it open forever.
func (k *storeClient) call(ctx context.Context, enter func(time.Time) (breaker.Call, error), f func(context.Context) error) (took time.Duration, err error) {
	begun := time.Now()
	call, err := enter(begun)
	if err != nil {
		return 0, err
	}
	err = errNoReturn
	defer func() {
		ended := time.Now()
		if !errors.Is(err, breaker.ErrTooMany) { // otherwise the call waited, but the store was not asked
			took = ended.Sub(begun)
		}
		var down bool
		if errors.Is(err, ErrInvalid) || errors.Is(err, breaker.ErrTooMany) { // they say nothing about the health of the store
			down = call.Dismiss()
		} else {
			down = call.End(ended, err)
		}
		k.noteOutage(ctx, ended, down)
	}()
	defer storePanicked(&err)
	err = f(k.within(begun, ctx))
	return 0, err
}

// A sharedDeadline is the end of calls that began within a short time of each other. They share one context and its timer.
type sharedDeadline struct {
	begun  time.Time // the first call
	ctx    context.Context
	cancel context.CancelFunc // not called: the context ends at the deadline
}

// sharing is the part of the timeout within which calls share a deadline: the later ones wait that much shorter.
const sharing = 64

// within returns a context with the values of ctx that ends at the deadline only: a client that disconnects is still charged.
func (k *storeClient) within(now time.Time, ctx context.Context) context.Context {
	d := k.deadline.Load()
	if d == nil || now.Sub(d.begun) > k.timeout/sharing {
		d = &sharedDeadline{begun: now}
		d.ctx, d.cancel = context.WithDeadline(context.Background(), now.Add(k.timeout))
		k.deadline.Store(d)
	}
	return &callContext{deadline.Context{Context: d.ctx}, ctx}
}

// A callContext ends with one context and has the values of another.
type callContext struct {
	deadline.Context
	values context.Context
}

// Value implements context.Context. The context that ends comes first: contexts derived from c find its end by a value.
func (c *callContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// An outageLog is what noteOutage has logged.
type outageLog struct {
	fallback bool        // it is about the fallback
	down     atomic.Bool // the state that was logged last; written with mu locked
	mu       sync.Mutex  // held by the goroutine that logs
	next     time.Time   // the earliest time to log the next outage
}

// noteOutage logs that the store has gone down, at most once per reportInterval, or is back, unless that was logged already or
// another goroutine is logging: that one then logs what has changed in the meantime. So nobody waits for a slog handler, which may
// be slow, or call the limiter. down is the state of the breaker after a call.
func (k *storeClient) noteOutage(ctx context.Context, now time.Time, down bool) {
	o := &k.outages
	if down == o.down.Load() || !o.mu.TryLock() {
		return
	}
	down, err := k.breaker.Down()
	tooSoon := down && now.Before(o.next)
	defer func() { // also if the handler panics
		o.mu.Unlock()
		if down, _ := k.breaker.Down(); !tooSoon {
			k.noteOutage(ctx, time.Now(), down)
		}
	}()
	if down == o.down.Load() || tooSoon {
		return
	}
	o.down.Store(down)
	away, back := "spillgate: the store is unavailable, failure modes decide", "spillgate: the store is back"
	if o.fallback {
		away, back = "spillgate: the fallback is unavailable, requests that need it are not decided", "spillgate: the fallback is back"
	}
	ctx = context.WithoutCancel(ctx)
	if down {
		o.next = now.Add(reportInterval)
		k.reporter.log().WarnContext(ctx, away, "err", err)
	} else {
		k.reporter.log().InfoContext(ctx, back)
	}
}

// An overload counts the requests that were decided from memory because too many calls of a healthy store were in flight.
type overload struct {
	requests atomic.Uint64
	last     atomic.Pointer[time.Time]
}

// note counts a request that is decided from memory because of err. It logs the first request of an overload: after
// reportInterval without one, the next begins another.
func (o *overload) note(ctx context.Context, log *slog.Logger, err error) {
	now := time.Now()
	o.requests.Add(1)
	if last := o.last.Swap(&now); last == nil || now.Sub(*last) >= reportInterval {
		log.WarnContext(ctx, "spillgate: too many requests for the store at once, local limits decide the excess", "err", err)
	}
}
