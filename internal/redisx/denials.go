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
	slots  []denySlot
	swept  atomic.Uint64 // the slot that is looked at next for a denial that has ended
}

type denySlot struct {
	denial  atomic.Pointer[denial]
	changes atomic.Uint64 // grows by 1 when this process charges a pair, and by gift when it settles or resets one
}

const gift = 1 << 32 // more may fit after it

type denial struct {
	changes  uint64       // of the pairs, before the request was sent
	claims   []core.Claim // with stored keys, because the key that a client sends may be long
	results  []core.Result
	denier   int           // the first claim that is denied
	own      []core.Result // its results
	gifts    uint64        // to its pair
	sent     time.Time     // the server may have decided as early,
	received time.Time     // or as late
	lasts    time.Duration // after sent
	known    time.Duration // after sent; it says something about other costs for as long
}

// slotsOf appends the slots of the pairs of claims to dst, or nothing if c is nil. It also returns a number that grows when this process
// changes one of these pairs.
func (c *denyCache) slotsOf(claims []core.Claim, dst []*denySlot) (slots []*denySlot, changes uint64) {
	for i := 0; c != nil && i < len(claims); i++ {
		s := c.slotOf(claims[i].Rule, claims[i].Key)
		dst, changes = append(dst, s), changes+s.changes.Load()
	}
	return dst, changes
}

func (c *denyCache) slotOf(rule, identity string) *denySlot {
	hash := maphash.String(seed, identity) + 31*maphash.String(seed, ruleName(rule))
	return &c.slots[hash%uint64(len(c.slots))]
}

// note records a request with pairs in slots, which had changed so often before. If it was charged, or may have been, the denials of its
// pairs end. If it was denied, and sent is not zero, the cache remembers the denial: the request was sent at that instant.
func (c *denyCache) note(claims []core.Claim, slots []*denySlot, results []core.Result, err error, sent time.Time, changes uint64) {
	if err == nil && slices.ContainsFunc(results, func(r core.Result) bool { return !r.Allowed && !r.DryRun }) {
		if !sent.IsZero() && len(slots) > 0 {
			c.remember(claims, slots, results, sent, changes)
		}
		return
	}
	for i, s := range slots {
		if !claims[i].Peek {
			s.changes.Add(1)
		}
	}
}

// remember adds a denied request, unless any of its claims is a peek or a dry run.
func (c *denyCache) remember(claims []core.Claim, slots []*denySlot, results []core.Result, sent time.Time, changes uint64) {
	if slices.ContainsFunc(claims, func(c core.Claim) bool { return c.Peek || c.DryRun }) {
		return
	}
	d := &denial{changes: changes, sent: sent, received: time.Now(), results: slices.Clone(results), denier: -1, lasts: maxDenial}
	rest := d.results
	for i := range claims {
		of := &claims[i]
		d.claims = append(d.claims, core.Claim{
			Key: c.layout.key(of.Rule, of.Key), Cost: of.Cost, Hold: of.Hold, MaxWait: of.MaxWait, Limits: slices.Clone(of.Limits),
		})
		if of.Lease > 0 { // other processes may return what they have not used
			d.lasts = min(d.lasts, of.Lease)
		}
		own := rest[:len(of.Limits)]
		rest = rest[len(own):]
		if d.denier < 0 && slices.ContainsFunc(own, func(r core.Result) bool { return !r.Allowed }) {
			d.denier, d.own = i, own
		}
	}
	slot := slots[d.denier]
	d.gifts = slot.changes.Load() / gift
	_, now := c.slotsOf(claims, nil)
	for i := range d.results {
		r := &d.results[i]
		if r.Rule = strings.Clone(r.Rule); now == changes { // otherwise a gift may be newer than the denial
			longest := withMaxWait(*r, claims[d.denier].MaxWait, 0)
			d.known = max(d.known, deniesFor(&longest, true, false))
		}
		for _, wait := range [...]time.Duration{r.RetryAfter, r.RefillAfter, r.Wait} { // until anything in the results changes
			if wait > 0 {
				d.lasts = min(d.lasts, wait)
			}
		}
	}
	slot.denial.Store(d)
	for range 2 { // so that a cache with few denials takes little memory
		c.sweep(d.received)
	}
}

// appendTo appends the results of claims, which d is of, at now. It never makes a wait too short.
func (d *denial) appendTo(dst []core.Result, claims []core.Claim, now time.Time) []core.Result {
	past := now.Sub(d.received)
	left := d.results
	for i := range claims {
		for range claims[i].Limits {
			dst = append(dst, withMaxWait(later(left[0], past), d.claims[i].MaxWait, claims[i].MaxWait))
			left = left[1:]
		}
	}
	return dst
}

// later returns r as it is some time after its decision.
func later(r core.Result, past time.Duration) core.Result {
	past = past.Truncate(time.Microsecond)
	r.At = r.At.Add(past)
	for _, wait := range [...]*time.Duration{&r.RetryAfter, &r.RefillAfter, &r.ResetAfter, &r.Wait} {
		if *wait != core.Never {
			*wait = max(*wait-past, 0)
		}
	}
	return r
}

// withMaxWait returns the result of a claim that may wait for maxWait, not for before like the claim that r is of.
func withMaxWait(r core.Result, before, maxWait time.Duration) core.Result {
	switch {
	case r.Wait > maxWait:
		r.Allowed, r.RetryAfter, r.Wait = false, r.Wait-maxWait, 0
	case !r.Allowed && r.RetryAfter != core.Never:
		r.RetryAfter += before - maxWait
	}
	return r
}

// find returns the denial of claims, if it still is one, or nil. It also returns the current time.
func (c *denyCache) find(claims []core.Claim) (d *denial, now time.Time) {
	var room [4]*denySlot
	slots, changes := c.slotsOf(claims, room[:0])
	for _, s := range slots {
		if d = s.denial.Load(); d == nil || d.changes != changes {
			continue
		}
		if now = time.Now(); now.Sub(d.sent) < d.lasts && c.denies(d, claims) {
			return d, now
		}
	}
	return nil, now
}

// denies reports whether d denies claims if their pairs have not changed since: they ask the same of the same pairs.
func (c *denyCache) denies(d *denial, claims []core.Claim) bool {
	if len(d.claims) != len(claims) {
		return false
	}
	var buf [256]byte
	for i := range claims {
		a, of := &d.claims[i], &claims[i]
		key := c.layout.appendKey(buf[:0], of.Rule, of.Key)
		if string(key) != a.Key || of.Peek || of.DryRun || a.Cost != of.Cost || a.Hold != of.Hold || a.MaxWait < of.MaxWait || !slices.Equal(a.Limits, of.Limits) {
			return false
		}
	}
	return true
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
	for i := 0; c != nil && i < len(pairs); i++ {
		c.slotOf(pairs[i].Rule, pairs[i].Key).changes.Add(gift)
	}
}

// Denied reports whether a remembered denial says that claim cannot fit, whatever it costs, and appends the results. It is for
// the time when the server cannot be asked, so it does not end after maxDenial.
func (s *Store) Denied(claim *core.Claim, dst []core.Result) (results []core.Result, denied bool) {
	c := s.denials
	if c == nil {
		return dst, false
	}
	slot := c.slotOf(claim.Rule, claim.Key)
	d := slot.denial.Load()
	if d == nil || d.gifts != slot.changes.Load()/gift {
		return dst, false
	}
	a, past := &d.claims[d.denier], time.Since(d.sent)
	if a.Key != c.layout.key(claim.Rule, claim.Key) || !slices.Equal(a.Limits, claim.Limits) || past >= d.known {
		return dst, false
	}
	results = dst
	for _, r := range d.own {
		r = withMaxWait(r, a.MaxWait, claim.MaxWait)
		denied = denied || past < deniesFor(&r, claim.Cost >= a.Cost, claim.MaxWait > 0)
		switch {
		case r.Allowed:
		case claim.Cost > r.Limit.Capacity():
			r.RetryAfter = core.Never
		case claim.Cost != a.Cost:
			r.RetryAfter = max(r.RetryAfter, r.ResetAfter) // any cost up to the capacity fits then
		}
		results = append(results, later(r, time.Since(d.received))) // no wait may become too short
	}
	if !denied {
		return dst, false
	}
	return results, true
}

// deniesFor returns for how long after its decision r denies a request that costs as much or, if not costsMore, any
// request. A request that may wait can fit although nothing remains.
func deniesFor(r *core.Result, costsMore, waits bool) time.Duration {
	switch {
	case r.Allowed:
		return 0
	case costsMore:
		return r.RetryAfter
	case r.Remaining > 0, waits:
		return 0
	case r.RefillAfter > 0:
		return min(r.RetryAfter, r.RefillAfter)
	}
	return r.RetryAfter
}
