package lease

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/spillgate/spillgate/core"
)

// refillTimeout is the timeout of a refill until a Take has had a deadline.
const refillTimeout = time.Second

// A refill is a call that charges requests ahead for one key. There is one at a time for each key.
type refill struct {
	ends  time.Time // when waiting for the refill is no longer useful
	done  chan struct{}
	err   error // of the call, once it is done
	heard bool  // the store has answered a request meanwhile
	ended bool  // the loans of the key have been ended meanwhile
}

// grace is how long after its end a refill may take to say how its call ended.
const grace = 10 * time.Millisecond

// wait waits for r until ctx is done or r is late, and returns the error of r's call. The deadline of a request that began r is
// about the end of r. It waits for the error even then: nothing else says whether the store has failed.
func (r *refill) wait(ctx context.Context) error {
	for late, ended := time.After(time.Until(r.ends)+grace), ctx.Done(); ; ended = nil {
		select {
		case <-r.done:
			return r.err
		case <-late:
			return nil
		case <-ended:
			if time.Until(r.ends) > grace {
				return nil
			}
		}
	}
}

// fetch asks for a refill of e, unless one is in flight, the last one has not begun to be used, or e pauses. waiting is the cost of
// the request that waits for it. The caller has locked the shard of e, and advanced e.
func (t *Table) fetch(hash uint64, e *entry, waiting int64) {
	if e.refill != nil || e.next != nil || e.pause > 0 {
		return
	}
	timeout := cmp.Or(time.Duration(t.timeout.Load()), refillTimeout)
	r := &refill{ends: time.Now().Add(timeout), done: make(chan struct{})}
	e.refill = r
	t.refills.Add(1)
	unused, want := t.refunds(e), e.want(t.now(), e.terms.length, waiting)
	go func() {
		defer close(r.done)
		t.fill(hash, e, want, unused, timeout)
	}()
}

// fill calls the store to charge so many requests ahead, and adds the result to e. The timeout begins when the goroutine
// runs, because otherwise waiting for a CPU would count as a failure of the store.
func (t *Table) fill(hash uint64, e *entry, want int64, unused []core.Settlement, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sent, length := t.now(), e.terms.length
	loan := core.Claim{Rule: e.terms.rule, Key: e.key, Limits: e.terms.limits, Cost: int(want)}
	charged, left, err := t.store.Lend(ctx, loan, unused)

	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer t.refills.Add(-1)
	r := e.refill
	e.refill, r.err = nil, err
	if errors.As(err, new(NotRefunded)) { // the next call for the key refunds it
		for i := range unused {
			e.add(unused[i].At.UnixMicro(), int64(unused[i].Cost))
		}
	} else {
		t.returned(unused, err)
	}
	now := t.now()
	e.advance(now, length)
	if err == nil && (!r.heard || e.isNews(left)) {
		e.report(left, now)
	}
	switch {
	case err != nil:
		e.pause = pauseSpans
	case r.ended:
		e.add(left[0].At.UnixMicro(), charged)
	default:
		e.credit(now, length, left[0].At.UnixMicro(), sent+length, charged)
	}
}

// isNews reports whether an answer of the store is later than the last one that e has heard: calls can overtake each other. Of two
// answers of the same instant, the one with fewer remaining is later.
func (e *entry) isNews(results []core.Result) bool {
	at := results[0].At.UnixMicro()
	return at > e.heard || at == e.heard && results[0].Remaining < int(e.first.stored)
}

// report records what the store has reported about the limits of e.
func (e *entry) report(results []core.Result, now int64) {
	e.heard = results[0].At.UnixMicro()
	if e.refill != nil { // the store may have decided it before
		e.refill.heard = true
	}
	for i, u := 0, &e.first; ; u = u.next {
		r := &results[i]
		u.stored, u.granted = uint32(min(int64(r.Remaining), math.MaxUint32)), int32(r.Granted)
		u.refill, u.reset = later(now, r.RefillAfter), later(now, r.ResetAfter)
		if i++; i == len(results) {
			return
		}
		if u.next == nil {
			u.next = new(usage)
		}
	}
}

// later returns the instant that is wait after now. It cuts waits beyond a hundred years, so that the sum does not overflow.
func later(now int64, wait time.Duration) int64 { return now + min(int64(wait), math.MaxInt64/3) }

// appendResults appends the results of c, which e has admitted. There must be a loan.
func (e *entry) appendResults(dst []core.Result, c *core.Claim, now int64) []core.Result {
	at, left, u := time.UnixMicro(e.instant(now, e.terms.length)), e.available(), &e.first
	for _, l := range c.Limits {
		r := core.Result{Rule: e.terms.rule, Limit: l, Allowed: true, At: at, Granted: int(u.granted)}
		r.Remaining = int(min(int64(u.stored)+left, int64(r.Quota())))
		if r.Remaining < r.Quota() {
			r.RefillAfter, r.ResetAfter = until(u.refill, now), until(u.reset, now)
		}
		dst, u = append(dst, r), u.next
	}
	return dst
}

// until returns how long after now an instant is, in whole microseconds and at least one.
func until(at, now int64) time.Duration {
	return max(time.Microsecond, (time.Duration(at-now) + time.Microsecond - 1).Truncate(time.Microsecond))
}
