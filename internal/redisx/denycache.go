package redisx

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxDenial bounds how long a denial is remembered, and so how late a reset or a refund by another process takes
// effect.
const maxDenial = time.Second

// A denyCache remembers denied requests, by a pair that denied them, until the first moment at which anything in their
// results changes. Only a request with the same costs and limits is the same request. Each pair has one slot, which it
// shares with other pairs and which holds the latest denial. Reading a slot takes no lock.
type denyCache struct {
	seed  maphash.Seed
	slots []denySlot
	swept atomic.Uint64 // the slot that is looked at next for a denial that has ended
}

type denySlot struct {
	denial atomic.Pointer[denial]
	mu     sync.Mutex    // held while the slot changes
	resets atomic.Uint64 // how often a pair was forgotten
}

// A denial keeps the stored keys instead of the keys that clients send, which may be long.
type denial struct {
	keys     []string
	asked    []asked
	sent     time.Time     // the server may have decided as early,
	received time.Time     // or as late
	lasts    time.Duration // after sent
	results  []core.Result
}

// asked is what a claim asks of its pair.
type asked struct {
	cost   int
	hold   bool
	wait   time.Duration
	limits []core.Limit
}

func newDenyCache(size int) *denyCache {
	return &denyCache{seed: maphash.MakeSeed(), slots: make([]denySlot, size)}
}

// remember adds a request that was sent at an instant, if it was denied, and no pair of it was forgotten since resets.
func (s *Store) remember(claims []core.Claim, results []core.Result, sent time.Time, resets uint64) {
	i := denier(claims, results)
	if i < 0 {
		return
	}
	d := &denial{keys: s.layout.pairKeys(claims), sent: sent, received: time.Now(), results: slices.Clone(results)}
	for i := range d.results {
		d.results[i].Rule = strings.Clone(d.results[i].Rule)
	}
	d.lasts = d.firstChange()
	for _, c := range claims {
		d.asked = append(d.asked, asked{cost: c.Cost, hold: c.Hold, wait: c.MaxWait, limits: slices.Clone(c.Limits)})
		if c.Lease > 0 { // other processes may give back what they hold
			d.lasts = min(d.lasts, c.Lease)
		}
	}
	s.denials.add(d, d.keys[i], resets)
}

// denier returns the index of the first denied claim, or -1 if there is none, or if any claim is a peek or a dry run.
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

// firstChange returns the time until anything in the results changes.
func (d *denial) firstChange() time.Duration {
	lasts := maxDenial
	for i := range d.results {
		for _, wait := range [...]time.Duration{d.results[i].RetryAfter, d.results[i].RefillAfter, d.results[i].Wait} {
			if wait > 0 {
				lasts = min(lasts, wait)
			}
		}
	}
	return lasts
}

// appendTo appends the results at now. It never makes a wait too short.
func (d *denial) appendTo(dst []core.Result, now time.Time) []core.Result {
	past := now.Sub(d.received).Truncate(time.Microsecond)
	for i := range d.results {
		dst = append(dst, d.results[i])
		r := &dst[len(dst)-1]
		r.At = r.At.Add(past)
		for _, wait := range [...]*time.Duration{&r.RetryAfter, &r.RefillAfter, &r.ResetAfter, &r.Wait} {
			if *wait > 0 {
				*wait -= past
			}
		}
	}
	return dst
}

// isOf reports whether d denied the same claims. l makes the keys of their pairs.
func (d *denial) isOf(l *layout, claims []core.Claim) bool {
	if len(d.keys) != len(claims) {
		return false
	}
	var buf [256]byte
	for i := range claims {
		if string(l.appendKey(buf[:0], claims[i].Rule, claims[i].Key)) != d.keys[i] {
			return false
		}
		a, c := &d.asked[i], &claims[i]
		if c.Peek || c.DryRun || a.cost != c.Cost || a.hold != c.Hold || a.wait != c.MaxWait || !slices.Equal(a.limits, c.Limits) {
			return false
		}
	}
	return true
}

func (c *denyCache) slot(key []byte) *denySlot {
	return &c.slots[maphash.Bytes(c.seed, key)%uint64(len(c.slots))]
}

// find returns the denial of claims, if it still is one, or nil. It makes the keys of their pairs with l, and keeps none.
func (c *denyCache) find(l *layout, claims []core.Claim, now time.Time) *denial {
	var buf [256]byte
	for i := range claims {
		key := l.appendKey(buf[:0], claims[i].Rule, claims[i].Key)
		d := c.slot(key).denial.Load()
		if d != nil && now.Sub(d.sent) < d.lasts && d.isOf(l, claims) {
			return d
		}
	}
	return nil
}

// resets returns a number that changes when any pair of claims is forgotten.
func (s *Store) resets(claims []core.Claim) (sum uint64) {
	if s.denials == nil {
		return 0
	}
	var buf [256]byte
	for i := range claims {
		sum += s.denials.slot(s.layout.appendKey(buf[:0], claims[i].Rule, claims[i].Key)).resets.Load()
	}
	return sum
}

// add remembers d, which the pair with key denied, unless a pair was forgotten since resets. It also drops some denials
// that have ended, so that a cache with few denials takes little memory.
func (c *denyCache) add(d *denial, key string, resets uint64) {
	s := c.slot([]byte(key))
	s.mu.Lock()
	sum := uint64(0)
	for _, key := range d.keys {
		sum += c.slot([]byte(key)).resets.Load()
	}
	if sum == resets {
		s.denial.Store(d)
	}
	s.mu.Unlock()
	for range 2 {
		c.sweep(d.received)
	}
}

// sweep looks at one slot, and drops its denial if that has ended.
func (c *denyCache) sweep(now time.Time) {
	s := &c.slots[c.swept.Add(1)%uint64(len(c.slots))]
	if d := s.denial.Load(); d != nil && now.Sub(d.sent) >= d.lasts {
		s.denial.CompareAndSwap(d, nil)
	}
}

// forget drops what is known of pairs.
func (s *Store) forget(pairs []core.Pair) {
	c := s.denials
	if c == nil {
		return
	}
	var buf [256]byte
	for _, p := range pairs {
		slot := c.slot(s.layout.appendKey(buf[:0], p.Rule, p.Key))
		slot.mu.Lock()
		slot.resets.Add(1)
		slot.denial.Store(nil)
		slot.mu.Unlock()
	}
}
