package lease

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxReturns bounds the keys of one call that returns unused requests: thousands of leases may end at the same time.
const maxReturns = 64

// returnTimeout bounds how long a sweep waits for a call.
const returnTimeout = time.Second

// refunds removes what is unused from e, and returns refunds of it: none of what has drained.
func (t *Table) refunds(e *entry) (all []core.Settlement) {
	length := time.Duration(e.terms.length)
	for u := e.unused; u != nil; u = u.next {
		if e.heard >= u.At && e.first.isOver(t.now()) {
			t.refunded.Add(uint64(u.Count))
			continue
		}
		all = append(all, core.Settlement{Rule: e.terms.rule, Key: e.key, Limits: e.terms.limits, At: time.UnixMicro(u.At), Cost: int(u.Count), Lease: length})
	}
	e.unused = nil
	return all
}

// isOver reports whether nothing that the store had charged by its report counts any longer, for this limit and those that follow.
func (u *usage) isOver(now int64) bool { return u == nil || u.reset <= now && u.next.isOver(now) }

// returned counts what a call that ended with err has refunded, or leaves it to the next sweep if the call has refunded nothing.
func (t *Table) returned(unused []core.Settlement, err error) {
	switch {
	case err == nil:
		for i := range unused {
			t.refunded.Add(uint64(unused[i].Cost))
		}
	case errors.As(err, new(NotRefunded)):
		t.returnLater(unused)
	}
}

func (t *Table) returnLater(unused []core.Settlement) {
	for i := range unused {
		t.mu.Lock()
		t.unused = append(t.unused, unused[i])
		t.mu.Unlock()
		t.arm(unused[i].Lease)
	}
}

// arm starts the timer of a sweep, so that the next one begins within d.
func (t *Table) arm(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.every > 0 && t.every <= d:
		return
	case t.timer == nil:
		t.timer = time.AfterFunc(d, t.sweep)
	default:
		t.timer.Reset(d)
	}
	t.every = d
}

// sweep returns what is left of leases that have ended, and removes idle leases. The timer runs as long as there are
// leases. Sweeps do not overlap, even if the server takes longer than a lease.
func (t *Table) sweep() {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	begun, shortest := time.Now(), time.Duration(math.MaxInt64) // Lease of an entry that stays
	t.mu.Lock()
	all := t.unused
	t.unused, t.every = nil, 0
	t.mu.Unlock()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		now := t.now()
		for hash, e := range s.entries {
			e.advance(now, e.terms.length)
			if e.used[0] == 0 { // otherwise the next refill is likely to return it
				all = append(all, t.refunds(e)...)
			}
			if e.isIdle() && e.refill == nil {
				t.remove(hash, e)
				continue
			}
			shortest = min(shortest, time.Duration(e.terms.length))
		}
		s.mu.Unlock()
	}
	if shortest < math.MaxInt64 {
		t.arm(max(shortest, 50*time.Since(begun))) // so that sweeps take little of a CPU
	}
	for some := range slices.Chunk(all, maxReturns) {
		ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
		for i, err := range t.store.Refund(ctx, some) {
			t.returned(some[i:i+1], err)
		}
		cancel()
	}
}

// Refund refunds what it can into loans, and returns what is left for the store to settle. If the pair has been leased, the store
// refunds a request as if it had been charged one Lease before it was decided: no loan that it may have used was charged earlier,
// and a refund for an earlier instant never returns more.
func (t *Table) Refund(settlements []core.Settlement) []core.Settlement {
	own := settlements
	for i := range settlements {
		st := &settlements[i]
		more := int64(st.Final) - int64(max(st.Cost, 1))
		if more >= 0 || st.Lease <= 0 || st.Held || st.Renew || st.Ban > 0 || st.Grant != 0 {
			continue
		}
		hash := t.hash(st.Rule, st.Key)
		if !t.leased.has(hash) {
			continue
		}
		if &own[0] == &settlements[0] {
			own = slices.Clone(settlements)
		}
		t.visit(hash, st.Rule, st.Key, func(e *entry) {
			if e != nil && e.terms.fit(&core.Claim{Limits: st.Limits, Lease: st.Lease}) {
				now, length := t.now(), e.terms.length
				e.advance(now, length)
				own[i].Final += int(e.refund(now, length, st.At.UnixMicro(), -more))
			}
		})
		own[i].At = st.At.Add(-st.Lease)
	}
	return own
}

// End ends the loans of pairs, and what a refill in flight charges is unused. The next call for a pair, or a sweep, returns what is
// left. The store ignores requests that were charged before a reset.
func (t *Table) End(pairs []core.Pair) {
	for _, p := range pairs {
		t.visit(t.hash(p.Rule, p.Key), p.Rule, p.Key, func(e *entry) {
			if e == nil {
				return
			}
			if e.finish(t.now(), e.terms.length); e.refill != nil {
				e.refill.ended = true
			}
		})
	}
}

// These methods are for tests of stores, because leases end and are refilled in the background.

// Ended reports whether no key is leased, no unused requests wait for a sweep, and no sweep is due.
func (t *Table) Ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.keys.Load() == 0 && len(t.unused) == 0 && t.every == 0
}

// RefillsInFlight returns how many refills are in flight.
func (t *Table) RefillsInFlight() int { return int(t.refills.Load()) }

// Stop prevents further sweeps, so that the garbage collector can free a table that a test leaves behind.
func (t *Table) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}
