package lease

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/deadline"
)

// maxUnused is the largest number of keys in one call that returns unused requests: thousands of leases may end at the
// same time.
const maxUnused = 64

// returnTimeout bounds how long a sweep waits for a call.
const returnTimeout = time.Second

// unused returns a loan for returning p to the store. p was granted for a key on terms by.
func (by *terms) unused(pair core.Pair, p Portions) Loan {
	return Loan{Pair: pair, Limits: by.limits, Compiled: by.compiled, Unused: p, terms: by}
}

// returnLater leaves it to the next sweep to return p.
func (t *Table) returnLater(pair core.Pair, by *terms, p Portions) {
	if p.Count() == 0 {
		return
	}
	t.mu.Lock()
	t.unused = append(t.unused, by.unused(pair, p))
	t.mu.Unlock()
	t.arm(time.Duration(by.length))
}

// arm starts the timer of a sweep, so that the next one begins within d.
func (t *Table) arm(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.armed && t.every <= d:
		return
	case t.timer == nil:
		t.timer = time.AfterFunc(d, t.sweep)
	default:
		t.timer.Reset(d)
	}
	t.armed, t.every = true, d
}

// sweep returns what is left of leases that have ended, and removes idle leases. The timer runs as long as there are
// leases. Sweeps do not overlap, even if the server takes longer than a lease.
func (t *Table) sweep() {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	begun := time.Now()
	t.mu.Lock()
	t.armed = false
	t.mu.Unlock()
	shortest := time.Duration(math.MaxInt64)
	var all []Loan
	for i := range t.shards {
		all = t.shards[i].sweep(t, all, &shortest)
	}
	t.mu.Lock()
	all, t.unused = append(all, t.unused...), nil
	t.mu.Unlock()
	if shortest < math.MaxInt64 {
		t.arm(max(shortest, 50*time.Since(begun))) // so that sweeps take little of a CPU
	}
	for some := range slices.Chunk(all, maxUnused) {
		ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
		t.returnNow(deadline.Context{Context: ctx}, some)
		cancel()
	}
}

// sweep ends what has ended in s and removes idle entries. It appends what is unused, and lowers shortest to the
// shortest Lease of an entry that stays.
func (s *shard) sweep(t *Table, all []Loan, shortest *time.Duration) []Loan {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := t.now()
	for hash, e := range s.entries {
		e.advance(now, e.terms.length)
		if e.hasUnused() && e.used[0] == 0 { // otherwise the next grant is likely to return it
			all = append(all, e.terms.unused(e.pair, e.takeUnused()))
		}
		if e.isIdle() && e.grantInFlight() == nil {
			t.remove(s, hash, e)
			continue
		}
		*shortest = min(*shortest, time.Duration(e.terms.length))
	}
	return all
}

// returnNow returns the unused requests in loans to the store. It leaves to the next sweep what was certainly not
// returned.
func (t *Table) returnNow(ctx context.Context, loans []Loan) {
	loans = slices.DeleteFunc(loans, func(l Loan) bool { return l.Unused.Count() == 0 })
	if len(loans) == 0 {
		return
	}
	_, _, _ = t.store.Lend(ctx, nil, loans, nil) // the loans have the outcome
	for i := range loans {
		switch l := &loans[i]; l.Return {
		case Returned:
			t.returned.Add(uint64(l.Unused.Count()))
		case NotReturned:
			t.returnLater(l.Pair, l.terms, l.Unused)
		}
	}
}

// Refund refunds what it can into leases, and returns what is left for the store to settle. A request goes back into
// the portion that it was taken from. If that portion has ended, the store refunds the request as if it had been
// charged one Lease before it was used: no portion is charged earlier, and a refund for an earlier instant never
// returns more.
func (t *Table) Refund(settlements []core.Settlement) []core.Settlement {
	own := settlements
	for i := range settlements {
		st := &settlements[i]
		more := int64(st.Final) - int64(max(st.Cost, 1))
		if more >= 0 || st.Lease <= 0 || st.Held || st.Renew || st.Ban > 0 || markIn(st.At) == 0 {
			continue
		}
		if &own[0] == &settlements[0] {
			own = slices.Clone(settlements)
		}
		own[i].Final += int(t.refund(st, -more))
		own[i].At = st.At.Add(-st.Lease)
	}
	return own
}

// refund puts up to n requests of st back into the portion that they were taken from, and returns how many.
func (t *Table) refund(st *core.Settlement, n int64) int64 {
	pair := named(st.Rule, st.Key)
	hash := t.hash(pair)
	shard := t.shard(hash)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.find(hash, pair)
	if e == nil || !e.terms.fit(&core.Claim{Limits: st.Limits, Lease: st.Lease}) {
		return 0
	}
	e.advance(t.now(), e.terms.length)
	return e.refund(func(at int64) bool { return markOf(at) == markIn(st.At) && at <= st.At.UnixMicro() }, n)
}

// End ends the leases of pairs.
func (t *Table) End(pairs []core.Pair) {
	for _, p := range pairs {
		t.end(named(p.Rule, p.Key))
	}
}

// end ends the lease of a key and removes it from the table. The next sweep returns what is left. The store ignores
// requests that were charged before a reset.
func (t *Table) end(pair core.Pair) {
	hash := t.hash(pair)
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(hash, pair); e != nil {
		t.returnLater(e.pair, e.terms, e.finish())
		t.remove(s, hash, e)
	}
}
