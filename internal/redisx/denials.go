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
	layout *layout
	seed   maphash.Seed
	slots  []denySlot
	swept  atomic.Uint64 // the slot that is looked at next for a denial that has ended
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

func newDenyCache(size int, l *layout) *denyCache {
	return &denyCache{layout: l, seed: maphash.MakeSeed(), slots: make([]denySlot, size)}
}

// remember adds a request that was sent at an instant, if it was denied, and no pair of it was forgotten since resets.
func (c *denyCache) remember(claims []core.Claim, results []core.Result, sent time.Time, resets uint64) {
	i := denier(claims, results)
	if i < 0 {
		return
	}
	d := &denial{keys: c.layout.pairKeys(claims), sent: sent, received: time.Now(), results: slices.Clone(results)}
	for i := range d.results {
		d.results[i].Rule = strings.Clone(d.results[i].Rule)
	}
	d.lasts = d.firstChange()
	for i := range claims {
		of := &claims[i]
		d.asked = append(d.asked, asked{cost: of.Cost, hold: of.Hold, wait: of.MaxWait, limits: slices.Clone(of.Limits)})
		if of.Lease > 0 { // other processes may return what they have not used
			d.lasts = min(d.lasts, of.Lease)
		}
	}
	c.add(d, d.keys[i], resets)
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

// find returns the denial of claims, if it still is one, or nil.
func (c *denyCache) find(claims []core.Claim, now time.Time) *denial {
	var buf [256]byte
	for i := range claims {
		key := c.layout.appendKey(buf[:0], claims[i].Rule, claims[i].Key)
		d := c.slot(key).denial.Load()
		if d != nil && now.Sub(d.sent) < d.lasts && d.isOf(c.layout, claims) {
			return d
		}
	}
	return nil
}

// resets returns a number that changes when any pair of claims is forgotten.
func (c *denyCache) resets(claims []core.Claim) (sum uint64) {
	var buf [256]byte
	for i := range claims {
		sum += c.slot(c.layout.appendKey(buf[:0], claims[i].Rule, claims[i].Key)).resets.Load()
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
func (c *denyCache) forget(pairs []core.Pair) {
	if c == nil {
		return
	}
	var buf [256]byte
	for _, p := range pairs {
		slot := c.slot(c.layout.appendKey(buf[:0], p.Rule, p.Key))
		slot.mu.Lock()
		slot.resets.Add(1)
		slot.denial.Store(nil)
		slot.mu.Unlock()
	}
}

const (
	// recent is how long a pair counts as recently denied.
	recent = 10 * time.Second

	// settled is how long ago the first denial of a pair must have been for another denial to count as lasting, because
	// a pair may be denied for a cost that is about to be refunded to another request.
	settled = 100 * time.Millisecond
)

// deniedPairs records which pairs were denied recently. It sometimes confuses two pairs, which costs a round trip. Only
// stores whose requests need several jobs use it. The zero value is empty.
type deniedPairs struct {
	begun atomic.Pointer[deniedTable]
}

type deniedTable struct {
	seed  maphash.Seed
	begun time.Time
	cells [8192]atomic.Uint64 // half of the hash of a key, then its first recent denial in milliseconds since begun
}

// add records that the pair with key was denied.
func (p *deniedPairs) add(key string, now time.Time) {
	t := p.begun.Load()
	if t == nil {
		p.begun.CompareAndSwap(nil, &deniedTable{seed: maphash.MakeSeed(), begun: now.Add(-time.Millisecond)})
		t = p.begun.Load()
	}
	mark, cell := t.find(key)
	if age, ok := t.age(mark, cell, now); !ok || age > recent/2 {
		cell.Store(mark | uint64(uint32(now.Sub(t.begun).Milliseconds())))
	}
}

// find returns half of the hash of a key, and its cell.
func (t *deniedTable) find(key string) (mark uint64, cell *atomic.Uint64) {
	h := maphash.String(t.seed, key)
	return h &^ (1<<32 - 1), &t.cells[h%uint64(len(t.cells))]
}

// age returns how long ago the pair with a mark was first denied, and whether that was recently.
func (t *deniedTable) age(mark uint64, cell *atomic.Uint64, now time.Time) (time.Duration, bool) {
	v := cell.Load()
	age := time.Duration(uint32(now.Sub(t.begun).Milliseconds())-uint32(v)) * time.Millisecond
	return age, v != 0 && v&^(1<<32-1) == mark && age < recent
}

// anyOf reports whether a pair with one of keys was denied recently, but at least ago before now.
func (p *deniedPairs) anyOf(keys []string, now time.Time, ago time.Duration) bool {
	t := p.begun.Load()
	if t == nil {
		return false
	}
	for _, key := range keys {
		mark, cell := t.find(key)
		if age, ok := t.age(mark, cell, now); ok && age >= ago {
			return true
		}
	}
	return false
}
