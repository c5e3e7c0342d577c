package redisx

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// unused are requests charged ahead for a key that are to be given back.
type unused struct {
	key   string
	terms *terms
	backs backs
}

// maxUnused bounds for how many keys one call gives back: thousands of leases may end at once.
const maxUnused = 64

// giveBack has the next sweep give back b.
func (t *leaseTable) giveBack(key string, by *terms, b backs) {
	if b.sum() == 0 {
		return
	}
	t.mu.Lock()
	t.unused = append(t.unused, unused{key, by, b})
	t.mu.Unlock()
	t.arm(time.Duration(by.length))
}

// arm has a sweep begin within d, unless one begins before.
func (t *leaseTable) arm(d time.Duration) {
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

// sweep gives back what is left of leases that have ended, and drops those that are idle. The timer runs as long as there are
// leases. Sweeps do not overlap, even if the server takes longer than a lease.
func (t *leaseTable) sweep() {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	begun := time.Now()
	t.mu.Lock()
	t.armed = false
	t.mu.Unlock()
	shortest := time.Duration(math.MaxInt64)
	var all []unused
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
		ctx, cancel := context.WithTimeout(context.Background(), giveBackTimeout)
		t.settle(ctx, some)
		cancel()
	}
}

// sweep ends what has ended in s and removes idle entries. It appends what is to be given back, and lowers shortest to the shortest
// Lease of an entry that stays.
func (s *leaseShard) sweep(t *leaseTable, all []unused, shortest *time.Duration) []unused {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := t.now()
	for hash, e := range s.entries {
		e.advance(now, e.terms.length)
		if e.hasUnused() && e.used[0] == 0 { // else the next grant is likely to give it back
			all = append(all, unused{e.key, e.terms, e.takeUnused()})
		}
		if e.isIdle() && e.grantInFlight() == nil {
			t.remove(s, hash, e)
			continue
		}
		*shortest = min(*shortest, time.Duration(e.terms.length))
	}
	return all
}

// settle gives back what is left of some leases. What the store does not do is left to the next sweep. If it may have done it, what was
// charged stays until it drains.
func (t *leaseTable) settle(ctx context.Context, some []unused) {
	r := new(request)
	var sent []unused // by settlement
	for _, u := range some {
		for _, b := range u.backs {
			if b.n > 0 {
				sent = append(sent, unused{u.key, u.terms, backs{b}})
				r.settlements = append(r.settlements, settlement{at: b.at, cost: b.n})
				r.addSettled(u.key, &core.Claim{Limits: u.terms.limits}, len(sent)-1)
			}
		}
	}
	if len(sent) == 0 {
		return
	}
	jobs, err := t.store.settle(ctx, r)
	if err != nil && ctx.Err() != nil { // jobs may be in flight
		return
	}
	for i := range jobs {
		for _, claim := range jobs[i].claims {
			switch u := sent[claim]; {
			case jobs[i].err == nil:
				t.returned.Add(uint64(u.backs.sum()))
			case jobs[i].unsent, isReply(jobs[i].err):
				t.giveBack(u.key, u.terms, u.backs)
			}
		}
	}
}
