package core

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/memory"
)

const defaultMaxKeys = 1_000_000

// A MemoryStore is a Store in this process's memory. The zero value is ready; it has no goroutines and needs no Close.
// It must not be copied after first use.
//
// Time passes by the monotonic clock. The wall clock says when a FixedWindow turns, and what Result.At is. When it is set, or
// the machine was suspended, windows turn by the new time from then on: that admits nothing anew, and denies no request for
// longer than one window.
//
// A key is known by a 64-bit hash with a seed of the store: among a million keys, two share their state with a probability of
// one in 37 million.
type MemoryStore struct {
	// MaxKeys bounds the pairs of rule and key that have state of their own; 0 means 1,000,000. A pair whose state
	// equals that of one never seen is dropped to make room for another or, in a store with room to spare, after ten
	// seconds or later. When no pair can be dropped, further ones share a fixed set of states, where they count for each
	// other: a flood of keys makes the store stricter, never laxer.
	//
	// Each limit of a pair takes 40 to 52 bytes. A sliding limit takes 64 more, and 16 to 32 for each sub-bucket or instant in
	// use. What a pair holds takes some 100 bytes, and up to 450 if it was begun over a whole minute. A pair keeps the states
	// of 32 limits, those of all its tiers together; it shares those of more.
	MaxKeys int

	// Now replaces the clock, for replays: it may return any time, also an earlier one than before. Nil means the clock of
	// the machine.
	Now func() time.Time

	once  sync.Once
	store *memory.Store
}

func (m *MemoryStore) init() {
	keys := m.MaxKeys
	if keys == 0 {
		keys = defaultMaxKeys
	}
	m.store = memory.New(keys, m.Now)
}

// Validate returns an error that wraps ErrInvalid if m cannot work as it is set up. New calls it.
func (m *MemoryStore) Validate() error {
	if m.MaxKeys < 0 {
		return prefix(invalid("MemoryStore: MaxKeys must not be negative, got %d", m.MaxKeys))
	}
	return nil
}

// MemoryStats say what a MemoryStore holds.
type MemoryStats struct {
	Keys   int // pairs of rule and key that have state of their own
	Shared int // states that pairs share because there was no room for their own
	Held   int // claims that hold their cost and are neither settled nor ended
}

// Stats returns what m holds now. A pair that has used nothing may be among its keys.
func (m *MemoryStore) Stats() MemoryStats {
	m.once.Do(m.init)
	keys, shared, held := m.store.Stats()
	return MemoryStats{Keys: keys, Shared: shared, Held: held}
}

// Take implements Store. Its error wraps ErrInvalid.
func (m *MemoryStore) Take(_ context.Context, claims []Claim, dst []Result) ([]Result, error) {
	if n := len(dst); len(claims) == 1 && len(claims[0].Limits) == 1 {
		dst = slices.Grow(dst, 1)
		if m.takeOne(&claims[0], &dst[:n+1][n]) {
			return dst[:n+1], nil
		}
	}
	return m.takeAsks(claims, dst)
}

// takeOne is Take for a claim that has one limit. It sets r. It reports false if it cannot decide c: then nothing has happened.
func (m *MemoryStore) takeOne(c *Claim, r *Result) bool {
	l := compile(&c.Limits[0])
	if l.err != nil || l.limit.Algorithm != TokenBucket || c.Hold || !c.isRegular() {
		return false
	}
	m.once.Do(m.init)
	now, retry, u, ok := m.store.TakeOne(m.pair(c.Rule, c.Key), &l.Limit, exactCost(c.Cost), c.Peek)
	if ok {
		r.answer(ruleName(c.Rule), &l.limit, c.DryRun, retry, u, m.store.Time(now))
	}
	return ok
}

// takeAsks is Take for claims that takeOne cannot decide.
func (m *MemoryStore) takeAsks(claims []Claim, dst []Result) ([]Result, error) {
	var room [8]memory.Ask
	asks, err := m.asks(claims, room[:0])
	if err != nil {
		return dst, err
	}
	at := m.store.Take(asks)
	dst = slices.Grow(dst, len(asks))
	for i := range claims {
		c := &claims[i]
		for l := range c.Limits {
			dst = dst[:len(dst)+1]
			dst[len(dst)-1].answer(ruleName(c.Rule), &c.Limits[l], c.DryRun, asks[l].Retry, asks[l].Usage, at)
		}
		asks = asks[len(c.Limits):]
	}
	return dst, nil
}

// isRegular reports whether c is certain to be valid, if its limits are.
func (c *Claim) isRegular() bool {
	return c.Cost >= 0 && c.Lease == 0
}

// pair returns the pair of rule and key in the store, which init has made.
func (m *MemoryStore) pair(rule, key string) memory.Pair { return m.store.Pair(ruleName(rule), key) }

// asks appends what claims ask for. It returns an error if a claim is invalid.
func (m *MemoryStore) asks(claims []Claim, asks []memory.Ask) ([]memory.Ask, error) {
	m.once.Do(m.init)
	for i := range claims {
		c, n := &claims[i], len(asks)
		var ok bool
		asks, ok = m.appendAsks(asks, m.pair(c.Rule, c.Key), c.Limits, i, exactCost(c.Cost))
		if !ok || !c.isRegular() {
			if err := c.Validate(); err != nil {
				return nil, err
			}
		}
		for j := n; j < len(asks); j++ {
			asks[j].Peek, asks[j].DryRun, asks[j].Hold = c.Peek, c.DryRun, c.Hold
		}
	}
	return asks, nil
}

// appendAsks appends an ask for each of limits, of claim i. It reports false if the limits may be invalid.
func (m *MemoryStore) appendAsks(asks []memory.Ask, p memory.Pair, limits []Limit, i int, cost int64) (_ []memory.Ask, ok bool) {
	n := len(asks)
	ok = 0 < len(limits) && len(limits) <= maxLimits
	asks = slices.Grow(asks, len(limits))[:n+len(limits)]
	for j := range limits {
		l, a := compile(&limits[j]), &asks[n+j]
		a.Pair, a.Limit, a.Claim, a.Claimed, a.Cost = p, &l.Limit, i, cost, cost
		if l.limit.Algorithm == InFlight {
			a.Cost = 1
		}
		ok = ok && l.err == nil && !asksFor(asks[n:n+j], &l.Limit)
	}
	return asks, ok
}

// asksFor reports whether one of asks is for the state of l.
func asksFor(asks []memory.Ask, l *algorithm.Limit) bool {
	for i := range asks {
		if asks[i].Limit.Kind == l.Kind {
			return true
		}
	}
	return false
}

// answer sets r to what the store says of the limit l of a claim.
func (r *Result) answer(rule string, l *Limit, dryRun bool, retry int64, u algorithm.Usage, at time.Time) {
	r.Rule = rule
	r.Limit = *l
	r.Allowed = retry == 0
	r.Remaining = int(u.Remaining)
	r.RetryAfter = Never
	if retry != memory.Never {
		r.RetryAfter = micros(retry)
	}
	r.RefillAfter = micros(u.Refill)
	r.ResetAfter = micros(u.Reset)
	r.DryRun = dryRun
	r.At = at
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// Settle implements Store: it settles all settlements at one instant, and nobody sees some of them settled and others not. Its
// error wraps ErrInvalid.
func (m *MemoryStore) Settle(_ context.Context, settlements []Settlement) error {
	m.once.Do(m.init)
	var room [8]memory.Ask
	asks := room[:0]
	for i := range settlements {
		s, n := &settlements[i], len(asks)
		if err := s.Validate(); err != nil {
			return err
		}
		p := m.pair(s.Rule, s.Key)
		if asks, _ = m.appendAsks(asks, p, s.Limits, i, exactCost(s.Cost)); len(s.Limits) == 0 { // a ban needs none
			asks = append(asks, memory.Ask{Pair: p, Limit: memory.NoLimit, Claim: i})
		}
		for j := n; j < len(asks); j++ {
			a := &asks[j]
			a.DryRun, a.Hold, a.Renew, a.Ban = s.DryRun, s.Held, s.Renew, s.Ban.Microseconds()
			a.At, a.Final = memory.NoInstant, min(int64(s.Final), algorithm.MaxExact)
			if !s.At.IsZero() {
				a.At = m.store.Instant(s.At)
			}
		}
	}
	m.store.Settle(asks)
	for i := range asks {
		if a := &asks[i]; a.Renewed {
			settlements[a.Claim].At = m.store.Time(a.At)
		}
	}
	return nil
}

// exactCost returns the cost of a Claim, where 0 means 1, in the numbers that a store counts in.
func exactCost(cost int) int64 { return min(int64(max(cost, 1)), algorithm.MaxExact) }

// Reset implements Store. A pair that shares its state with others, because the store is full, stays as it is: to forget
// it would admit the others anew.
func (m *MemoryStore) Reset(_ context.Context, pairs []Pair) error {
	m.once.Do(m.init)
	for _, p := range pairs {
		m.store.Reset(m.pair(p.Rule, p.Key))
	}
	return nil
}
