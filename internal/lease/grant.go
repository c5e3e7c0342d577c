package lease

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/deadline"
)

// grantTimeout is the timeout of a grant until a Take has had a deadline.
const grantTimeout = time.Second

// A grant is a call that charges requests ahead for one key. There is one at a time for each key.
type grant struct {
	ends time.Time // when waiting for the grant is no longer useful
	done chan struct{}
}

// wait waits for g until ctx is done or g is late.
func (g *grant) wait(ctx context.Context) {
	late := time.NewTimer(time.Until(g.ends))
	defer late.Stop()
	select {
	case <-g.done:
	case <-late.C:
	case <-ctx.Done():
	}
}

// waitForAll waits for grants, even for late ones, until ctx is done.
func waitForAll(ctx context.Context, grants []*grant) {
	for _, g := range grants {
		select {
		case <-g.done:
		case <-ctx.Done():
		}
	}
}

// fetch asks for a grant for e, unless one is in flight or the last one granted nothing. waiting is the cost of the
// request that waits for it. The caller has locked the shard of e, and advanced e.
func (t *Table) fetch(hash uint64, e *entry, waiting int64) {
	if e.grantInFlight() != nil || e.pause > 0 {
		return
	}
	timeout := time.Duration(t.timeout.Load())
	if timeout <= 0 {
		timeout = grantTimeout
	}
	g := &grant{time.Now().Add(timeout), make(chan struct{})}
	e.ensureRare().grant = g
	loans := []Loan{e.terms.unused(e.pair, e.takeUnused())}
	loans[0].Want = e.want(waiting)
	go func() {
		defer close(g.done)
		t.grant(hash, e, loans, timeout)
	}()
}

// grant calls the store to charge the only one of loans ahead, and adds the result to e. The timeout begins when the
// goroutine runs, because otherwise waiting for a CPU would count as a failure of the store.
func (t *Table) grant(hash uint64, e *entry, loans []Loan, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	sent, l := t.now(), &loans[0]
	_, _, err := t.store.Lend(deadline.Context{Context: ctx}, nil, loans, nil)

	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := e.rare.answer
	e.rare.grant, e.rare.answer = nil, nil
	e.dropRare()
	if l.Return == Returned {
		t.returned.Add(uint64(l.Unused.Count()))
	}
	switch {
	case err != nil:
		if l.Return == NotReturned {
			t.returnWithNext(e, l.terms, l.Unused)
		}
		e.pause = pauseSpans
	case e.terms != l.terms:
		t.returnWithNext(e, l.terms, Portions{{l.At, l.Granted}})
	default:
		now := t.now()
		e.advance(now, l.terms.length)
		e.credit(now, l.At, sent+l.terms.length, l.Granted)
		for i, u := range l.Left {
			e.setAfter(i, len(l.Left), u, now)
		}
		if answer != nil {
			e.hear(answer, now)
		}
	}
}

// returnWithNext leaves it to the next call for e to return what e was granted on some terms, or to the next sweep if e
// has other terms by now. The caller has locked the shard.
func (t *Table) returnWithNext(e *entry, by *terms, unused Portions) {
	if e.terms != by {
		t.returnLater(e.pair, by, unused)
		return
	}
	for _, p := range unused {
		e.addUnused(p.At, p.Count)
	}
}

// hear records the store's answer to a request, unless e already has an answer of a later instant. Calls can overtake
// each other: the store may have decided a grant in flight before this request.
func (e *entry) hear(results []core.Result, now int64) {
	if e.grantInFlight() != nil {
		if a := e.rare.answer; a == nil || isNewer(results, a[0].At.UnixMicro(), a[0].Remaining) {
			e.rare.answer = slices.Clone(results)
		}
	}
	if e.ends[0] == 0 || !isNewer(results, e.at[e.newest()], int(e.stored)) {
		return
	}
	for i := range results {
		r := &results[i]
		u := algorithm.Usage{Remaining: int64(r.Remaining), Granted: int64(r.Granted), Refill: r.RefillAfter.Microseconds(), Reset: r.ResetAfter.Microseconds()}
		e.setAfter(i, len(results), u, now)
	}
}

// isNewer reports whether results are newer than an answer of the instant at. Of two answers of the same instant, the
// one with fewer remaining is newer.
func isNewer(results []core.Result, at int64, remaining int) bool {
	of := results[0].At.UnixMicro()
	return of > at || of == at && results[0].Remaining < remaining
}

// setAfter stores what the store reported for one limit of n.
func (e *entry) setAfter(limit, n int, u algorithm.Usage, now int64) {
	a := after{uint32(min(u.Remaining, math.MaxUint32)), int32(u.Granted), later(now, u.Refill), later(now, u.Reset)}
	if limit == 0 {
		e.stored, e.granted, e.refill, e.reset = a.stored, a.granted, a.refill, a.reset
		return
	}
	if e.ensureRare().others == nil {
		e.rare.others = make([]after, n-1)
	}
	e.rare.others[limit-1] = a
}

// later returns the instant that is wait microseconds after now. It cuts waits beyond a hundred years, so that the sum
// does not overflow.
func later(now, wait int64) int64 { return now + 1000*min(wait, math.MaxInt64/3000) }

// after returns what the store last reported for a limit of e.
func (e *entry) after(limit int) after {
	if limit == 0 {
		return after{e.stored, e.granted, e.refill, e.reset}
	}
	return e.rare.others[limit-1]
}

// appendResults appends the results of c, which e has admitted. There must be a portion. mark is the instant at which
// the request's portion was charged.
func (e *entry) appendResults(dst []core.Result, c *core.Claim, now, mark int64) []core.Result {
	at := time.UnixMicro(e.instant(now, e.terms.length)).Add(markOf(mark))
	left := e.available()
	for i, l := range c.Limits {
		a := e.after(i)
		r := core.Result{Rule: e.pair.Rule, Limit: l, Allowed: true, At: at, Granted: int(a.granted)}
		r.Remaining = int(min(int64(a.stored)+left, int64(r.Quota())))
		if r.Remaining < r.Quota() {
			r.RefillAfter, r.ResetAfter = until(a.refill, now), until(a.reset, now)
		}
		dst = append(dst, r)
	}
	return dst
}

// until returns how long after now an instant is, in whole microseconds and at least one.
func until(at, now int64) time.Duration {
	return max(time.Microsecond, (time.Duration(at-now) + time.Microsecond - 1).Truncate(time.Microsecond))
}

// markOf returns a number of nanoseconds, 1 to 999, that is added to the instant of a request decided from a lease, to
// identify the portion by the instant at which it was charged. The instants of a server are whole microseconds.
func markOf(at int64) time.Duration { return 1 + time.Duration(at%999) }

// markIn returns the mark in an instant, or 0 if the instant is a server's.
func markIn(at time.Time) time.Duration { return time.Duration(at.Nanosecond() % 1000) }
