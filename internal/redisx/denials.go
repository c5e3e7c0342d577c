package redisx

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxDenial bounds how long a denial is remembered, and so how late a reset or a refund by another process takes
// effect.
const maxDenial = time.Second

// A denyCache remembers denied requests, by a pair that denied them, until the first moment at which anything in their
// results changes: a wait ends, or this process charges, settles or resets a pair. Only a request with the same costs and
// limits is the same request; it may have a smaller MaxWait. Each pair has one slot, which it shares with other pairs and
// which holds the latest denial.
type denyCache struct {
	layout *layout
	seed   maphash.Seed
	slots  []denySlot
	swept  atomic.Uint64 // the slot that is looked at next for a denial that has ended
}

type denySlot struct {
	denial  atomic.Pointer[denial]
	changes atomic.Uint64 // how often this process has changed a pair
	gifts   atomic.Uint64 // how often it has changed a pair otherwise than by a charge, so that more may fit
}

// A denial keeps the stored keys instead of the keys that clients send, which may be long.
type denial struct {
	keys     []string
	changes  uint64 // of the pairs, before the request was sent
	asked    []asked
	sent     time.Time     // the server may have decided as early,
	received time.Time     // or as late
	lasts    time.Duration // after sent
	known    time.Duration // after sent; it says something about other costs for as long
	results  []core.Result
}

// asked is what a claim asks of its pair.
type asked struct {
	cost   int
	hold   bool
	wait   time.Duration
	limits []core.Limit
	gifts  uint64 // to the pair, before the request was sent
}

func newDenyCache(size int, l *layout) *denyCache {
	return &denyCache{layout: l, seed: maphash.MakeSeed(), slots: make([]denySlot, size)}
}

// remember adds a request that was sent at an instant, when its pairs had changed so often, if it was denied.
func (c *denyCache) remember(claims []core.Claim, results []core.Result, sent time.Time, changes uint64) {
	i := denier(claims, results)
	if i < 0 {
		return
	}
	d := &denial{keys: c.layout.pairKeys(claims), changes: changes, sent: sent, received: time.Now(), results: slices.Clone(results)}
	for i := range d.results {
		d.results[i].Rule = strings.Clone(d.results[i].Rule)
	}
	d.lasts = d.firstChange()
	for i := range claims {
		of := &claims[i]
		gifts := c.slot([]byte(d.keys[i])).gifts.Load()
		d.asked = append(d.asked, asked{cost: of.Cost, hold: of.Hold, wait: of.MaxWait, limits: slices.Clone(of.Limits), gifts: gifts})
		if of.Lease > 0 { // other processes may return what they have not used
			d.lasts = min(d.lasts, of.Lease)
		}
	}
	for i := range d.results {
		if c.changes(claims) == changes { // otherwise a gift may be newer than the denial
			d.known = max(d.known, deniesFor(&d.results[i], true, false))
		}
	}
	c.slot([]byte(d.keys[i])).denial.Store(d)
	for range 2 { // so that a cache with few denials takes little memory
		c.sweep(d.received)
	}
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

// appendTo appends the results of claims, which d is of, at now. It never makes a wait too short.
func (d *denial) appendTo(dst []core.Result, claims []core.Claim, now time.Time) []core.Result {
	past := now.Sub(d.received).Truncate(time.Microsecond)
	left := d.results
	for i := range claims {
		for range claims[i].Limits {
			r := left[0]
			left = left[1:]
			r.At = r.At.Add(past)
			for _, wait := range [...]*time.Duration{&r.RetryAfter, &r.RefillAfter, &r.ResetAfter, &r.Wait} {
				if *wait > 0 && *wait != core.Never {
					*wait -= past
				}
			}
			dst = append(dst, withMaxWait(r, d.asked[i].wait, claims[i].MaxWait))
		}
	}
	return dst
}

// withMaxWait returns the result of a claim that may wait for less time than the claim that r is of.
func withMaxWait(r core.Result, before, maxWait time.Duration) core.Result {
	switch {
	case r.Wait > maxWait:
		r.Allowed, r.RetryAfter, r.Wait = false, r.Wait-maxWait, 0
	case !r.Allowed && r.RetryAfter != core.Never:
		r.RetryAfter += before - maxWait
	}
	return r
}

// denies reports whether d denies claims: they ask the same of the same pairs, which have not changed since.
func (c *denyCache) denies(d *denial, claims []core.Claim) bool {
	if len(d.keys) != len(claims) {
		return false
	}
	var buf [256]byte
	changes := uint64(0)
	for i := range claims {
		key := c.layout.appendKey(buf[:0], claims[i].Rule, claims[i].Key)
		if string(key) != d.keys[i] {
			return false
		}
		a, of := &d.asked[i], &claims[i]
		if of.Peek || of.DryRun || a.cost != of.Cost || a.hold != of.Hold || a.wait < of.MaxWait || !slices.Equal(a.limits, of.Limits) {
			return false
		}
		changes += c.slot(key).changes.Load()
	}
	return changes == d.changes
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
		if d != nil && now.Sub(d.sent) < d.lasts && c.denies(d, claims) {
			return d
		}
	}
	return nil
}

// changes returns a number that grows when this process changes a pair of claims.
func (c *denyCache) changes(claims []core.Claim) (sum uint64) {
	var buf [256]byte
	for i := range claims {
		sum += c.slot(c.layout.appendKey(buf[:0], claims[i].Rule, claims[i].Key)).changes.Load()
	}
	return sum
}

// noteChange ends the denials of requests for a pair, which this process has changed.
func (c *denyCache) noteChange(rule, identity string) {
	var buf [256]byte
	c.slot(c.layout.appendKey(buf[:0], rule, identity)).changes.Add(1)
}

// noteTake ends the denials that claims have changed by being charged: if they were, or may have been.
func (c *denyCache) noteTake(claims []core.Claim, results []core.Result, err error) {
	isDenied := func(r core.Result) bool { return !r.Allowed && !r.DryRun }
	if c == nil || err == nil && slices.ContainsFunc(results, isDenied) {
		return
	}
	for i := range claims {
		if !claims[i].Peek {
			c.noteChange(claims[i].Rule, claims[i].Key)
		}
	}
}

// sweep looks at one slot, and drops its denial if that has ended.
func (c *denyCache) sweep(now time.Time) {
	s := &c.slots[c.swept.Add(1)%uint64(len(c.slots))]
	if d := s.denial.Load(); d != nil && now.Sub(d.sent) >= max(d.lasts, d.known) {
		s.denial.CompareAndSwap(d, nil)
	}
}

// forget ends the denials of requests for pairs, also for the time when the server cannot be asked.
func (c *denyCache) forget(pairs []core.Pair) {
	if c == nil {
		return
	}
	var buf [256]byte
	for _, p := range pairs {
		c.slot(c.layout.appendKey(buf[:0], p.Rule, p.Key)).gifts.Add(1)
		c.noteChange(p.Rule, p.Key)
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
