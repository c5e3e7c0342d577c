package redisx

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxDenial bounds how long a denial is remembered: what another process resets or gives back counts after that.
const maxDenial = time.Second

// A denyCache remembers denied requests, by a pair that denied them, until the first moment at which anything in their
// results changes. A request that asks for anything else, or of other limits, is not the same. A pair has one slot,
// which it shares with others: there the latest denial is. Nobody waits to read one.
type denyCache struct {
	seed  maphash.Seed
	slots []denySlot
}

type denySlot struct {
	denial atomic.Pointer[denial]
	mu     sync.Mutex    // of who changes it
	turn   atomic.Uint64 // how often a pair was forgotten
}

type denial struct {
	claims   []core.Claim
	sent     time.Time     // the server may have decided as early,
	received time.Time     // or as late
	lasts    time.Duration // after sent
	results  []core.Result
}

func newDenyCache(size int) *denyCache {
	return &denyCache{seed: maphash.MakeSeed(), slots: make([]denySlot, size)}
}

// takeUnlessDenied is take for a store with a deny cache. Peeks and dry runs are not remembered.
func (s *Store) takeUnlessDenied(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	c, sent := s.denied, time.Now()
	if d := c.find(claims, sent); d != nil {
		return d.appendTo(dst, sent), nil
	}
	turn := c.turn(claims)
	results, err := s.take(ctx, claims, dst)
	if i := denier(claims, results[len(dst):]); err == nil && i >= 0 {
		d := denial{claims: cloned(claims), sent: sent, received: time.Now(), results: slices.Clone(results[len(dst):])}
		d.lasts = d.firstChange()
		c.add(&d, i, turn)
	}
	return results, err
}

// denier returns the place of the first claim that is denied, or -1 if there is none, or if some claim is a peek or a dry
// run.
func denier(claims []core.Claim, results []core.Result) int {
	first := -1
	for i := range claims {
		if claims[i].Peek || claims[i].DryRun {
			return -1
		}
		for range claims[i].Limits {
			if len(results) > 0 && !results[0].Allowed && first < 0 {
				first = i
			}
			results = results[min(1, len(results)):]
		}
	}
	return first
}

// cloned returns a copy that shares nothing with claims.
func cloned(claims []core.Claim) []core.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].Limits = slices.Clone(claims[i].Limits)
	}
	return claims
}

// firstChange returns how long nothing in the results changes.
func (d *denial) firstChange() time.Duration {
	lasts := maxDenial
	for i := range d.results {
		for _, wait := range [...]time.Duration{d.results[i].RetryAfter, d.results[i].RefillAfter} {
			if wait > 0 {
				lasts = min(lasts, wait)
			}
		}
	}
	return lasts
}

// appendTo appends the results, as they are at now. No wait is stated too short.
func (d *denial) appendTo(dst []core.Result, now time.Time) []core.Result {
	past := now.Sub(d.received).Truncate(time.Microsecond)
	for i := range d.results {
		dst = append(dst, d.results[i])
		r := &dst[len(dst)-1]
		r.At = r.At.Add(past)
		for _, wait := range [...]*time.Duration{&r.RetryAfter, &r.RefillAfter, &r.ResetAfter} {
			if *wait > 0 {
				*wait -= past
			}
		}
	}
	return dst
}

// isOf reports whether d denied the same claims.
func (d *denial) isOf(claims []core.Claim) bool {
	if len(d.claims) != len(claims) {
		return false
	}
	for i := range claims {
		a, b := &d.claims[i], &claims[i]
		if a.Key != b.Key || a.Rule != b.Rule || a.Cost != b.Cost || a.Peek != b.Peek || a.DryRun != b.DryRun ||
			!slices.Equal(a.Limits, b.Limits) {
			return false
		}
	}
	return true
}

func (c *denyCache) slot(claim *core.Claim) *denySlot {
	h := maphash.String(c.seed, claim.Key) ^ maphash.String(c.seed, ruleName(claim.Rule))<<1
	return &c.slots[h%uint64(len(c.slots))]
}

// find returns the denial of claims, if it still is one, or nil.
func (c *denyCache) find(claims []core.Claim, now time.Time) *denial {
	for i := range claims {
		if d := c.slot(&claims[i]).denial.Load(); d != nil && now.Sub(d.sent) < d.lasts && d.isOf(claims) {
			return d
		}
	}
	return nil
}

// turn returns a number that changes when any pair of claims is forgotten.
func (c *denyCache) turn(claims []core.Claim) (sum uint64) {
	for i := range claims {
		sum += c.slot(&claims[i]).turn.Load()
	}
	return sum
}

// add remembers d, which its i-th claim denied, unless a pair was forgotten since turn.
func (c *denyCache) add(d *denial, i int, turn uint64) {
	s := c.slot(&d.claims[i])
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.turn(d.claims) == turn {
		s.denial.Store(d)
	}
}

// forget drops what is known of the pairs of claims.
func (s *Store) forget(claims []core.Claim) {
	c := s.denied
	if c == nil {
		return
	}
	for i := range claims {
		slot := c.slot(&claims[i])
		slot.mu.Lock()
		slot.turn.Add(1)
		slot.denial.Store(nil)
		slot.mu.Unlock()
	}
}
