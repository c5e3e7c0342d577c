package core

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/memory"
)

// A MemoryStore is a Store in this process's memory. The zero value is ready to use. It has no goroutines and needs no
// Close. It must not be copied after first use.
//
// The store measures time by the monotonic clock. It uses the wall clock only for the boundaries of a FixedWindow and
// for Result.At. If the wall clock is set, or the machine was suspended, windows follow the new time from then on. That
// admits nothing extra, and denies no request beyond the end of the next window.
//
// The store identifies a key by a 64-bit hash with a random seed. Among a million keys, the probability that any two
// share their state is one in 37 million.
type MemoryStore struct {
	// MaxKeys bounds the pairs of rule and key that have their own state; 0 means 1,000,000. To make room, the store
	// drops a pair whose state equals the state of a new key; if there is room, it drops such a pair after ten seconds
	// or more. If no pair can be dropped, new pairs share a fixed set of counters: requests, holds and bans of one pair count
	// against the others, and Reset and Grant change nothing. If such a pair gets its own state while it holds something, the
	// others are free of that only when the hold would have ended: after 60 to 66 seconds, even if it has been settled. So a
	// flood of keys makes the store stricter, never laxer.
	//
	// Each limit of a pair takes 40 to 52 bytes. A sliding limit takes 40 to 80 more, and 8 for each of its sub-buckets, or 8
	// to 16 for each request in its log. Holds take some 150 bytes per pair, and up to 1,300 if they began over a whole
	// minute. A pair has room for the states of 32 limits, including all its tiers, and for up to 8 rates of each of
	// their periods; further limits share a state.
	MaxKeys int

	// Now replaces the clock, for tests and replays. It may return any time, even an earlier one than before. If nil, the
	// store uses the machine's clock. A store in Redis may be stricter after its clock went back: a denial there stores
	// nothing, so what had expired before may count again.
	Now func() time.Time

	once  sync.Once
	store *memory.Store
}

func (m *MemoryStore) init() { m.store = memory.New(cmp.Or(m.MaxKeys, 1_000_000), m.Now) }

// Validate returns an error that wraps ErrInvalid if a field of m is invalid. New calls it.
func (m *MemoryStore) Validate() error {
	if m.MaxKeys < 0 {
		return prefix(invalid("MemoryStore: MaxKeys must not be negative, got %d", m.MaxKeys))
	}
	return nil
}

// MemoryStats describes what a MemoryStore holds.
type MemoryStats struct {
	Keys   int // pairs of rule and key that have state of their own
	Shared int // states that pairs share because there was no room for their own
	Held   int // claims whose cost is held; too many for up to 66 seconds after pairs that shared states got their own
}

// Stats describes what m holds now. Keys may include pairs that have used nothing.
func (m *MemoryStore) Stats() MemoryStats {
	m.once.Do(m.init)
	keys, shared, held := m.store.Stats()
	return MemoryStats{Keys: keys, Shared: shared, Held: held}
}

// Take implements Store. Its error wraps ErrInvalid.
func (m *MemoryStore) Take(_ context.Context, claims []Claim, dst []Result) ([]Result, error) {
	if len(claims) > maxClaims {
		return dst, prefix(tooMany(len(claims)))
	}
	m.once.Do(m.init)
	var opRoom [2]memory.Op
	ops, limits := slices.Grow(opRoom[:0], len(claims))[:len(claims)], 0
	for i := range claims {
		c, o := &claims[i], &ops[i]
		compiled, err := c.compile()
		if err != nil {
			return dst, err
		}
		o.Pair, o.Limits, o.Cost = memory.RuleOf(ruleName(c.Rule)).Pair(c.Key), compiled, int64(c.Cost)
		o.Kind, o.DryRun, o.MaxWait = kindOf(c.Peek, c.Hold), c.DryRun, c.MaxWait.Microseconds()
		limits += len(compiled)
	}
	answers := roomFor(limits)
	at, _ := m.store.Do(ops, answers) // only grants fail
	now := m.store.Time(at)
	for i := range claims {
		c := &claims[i]
		for j := range c.Limits {
			dst = append(dst, Result{})
			dst[len(dst)-1].set(ruleName(c.Rule), &c.Limits[j], c.DryRun, &answers[0], now)
			answers = answers[1:]
		}
	}
	return dst, nil
}

// roomFor is inlined, so that the room is on the caller's stack.
func roomFor(limits int) []memory.Answer {
	if limits == 1 { // a larger room takes time to clear
		return new([1]memory.Answer)[:]
	}
	return slices.Grow(new([8]memory.Answer)[:0], limits)[:limits]
}

func kindOf(peek, hold bool) memory.Kind {
	switch {
	case peek:
		return memory.Peek
	case hold:
		return memory.Hold
	}
	return memory.Take
}

// take is Take for those claims of c that by decides. They are valid.
func (m *MemoryStore) take(c *receipt, by decider, most time.Duration) {
	m.once.Do(m.init)
	var oneOp [1]memory.Op
	ops, claims := oneOp[:], c.claims()
	if len(claims) != 1 { // a larger room takes time to clear
		var room [2]memory.Op
		ops = slices.Grow(room[:0], len(claims))[:len(claims)]
	}
	n, limits := 0, 0
	for i := range claims {
		a := &claims[i]
		if a.by != by {
			continue
		}
		o := &ops[n]
		o.Pair, o.Limits, o.Cost = a.rule.hash.Pair(a.key), a.set.compiled, int64(a.cost)
		o.Kind, o.DryRun, o.MaxWait = kindOf(a.peek, a.hold), a.dryRun, a.maxWait(most).Microseconds()
		limits += len(o.Limits)
		n++
	}
	answers := roomFor(limits)
	instant, _ := m.store.Do(ops[:n], answers) // only grants fail
	if c.decided = c.single && limits == 1 && !m.store.ClockWasSet() && answers[0].Usage.Granted|answers[0].Usage.Over == 0; c.decided {
		c.answer.at, c.answer.wait, c.answer.left = instant, answers[0].Wait-answers[0].Retry, answers[0].Usage.Left
		return
	}
	at := m.store.Time(instant)
	results := make([]Result, limits)
	n = 0
	for i := range claims {
		a := &claims[i]
		for j := range a.set.limits {
			if a.by == by {
				results[n].set(a.rule.Name, &a.set.limits[j], a.dryRun, &answers[n], at)
				n++
			}
		}
	}
	c.more().results = results
}

// Settle implements Store. It applies all settlements at one instant: no other call sees only some of them applied. Its
// error wraps ErrInvalid.
func (m *MemoryStore) Settle(_ context.Context, settlements []Settlement) error {
	for i := range settlements {
		if err := settlements[i].Validate(); err != nil {
			return err
		}
	}
	return m.settle(settlements)
}

// settle is Settle for settlements that are valid.
func (m *MemoryStore) settle(settlements []Settlement) error {
	m.once.Do(m.init)
	var room [4]memory.Op
	ops := room[:0]
	for i := range settlements {
		s := &settlements[i]
		o := memory.Op{
			Pair: memory.RuleOf(ruleName(s.Rule)).Pair(s.Key), Limits: s.set.of(s.Limits).compiled, Cost: int64(s.Cost), DryRun: s.DryRun,
			At: memory.NoInstant, Turn: algorithm.NoTurn, Kind: memory.Adjust, N: int64(s.Final),
		}
		if !s.At.IsZero() {
			o.At = m.store.Instant(s.At)
		}
		switch {
		case s.Grant != 0:
			o.Kind, o.N = memory.Grant, int64(s.Grant)
		case s.Ban > 0:
			o.Kind, o.N = memory.Ban, s.Ban.Microseconds()
		case s.Renew:
			o.Kind = memory.Renew
		case s.Held:
			o.Kind = memory.Release
		case s.MaxWait > 0:
			o.Turn = o.At + s.Wait.Microseconds()
		}
		ops = append(ops, o)
	}
	at, err := m.store.Do(ops, nil)
	if err != nil {
		return tooMuch(settlements)
	}
	for i := range ops {
		if o := &ops[i]; o.Kind == memory.Renew && o.At == at {
			settlements[i].At = m.store.Time(at)
		}
	}
	return nil
}

// Reset implements Store. If the store is full and a pair shares its state with others, Reset and grants leave that
// state unchanged, because otherwise they would admit the other pairs again.
func (m *MemoryStore) Reset(_ context.Context, pairs []Pair) error {
	m.once.Do(m.init)
	ops := make([]memory.Op, len(pairs))
	for i, p := range pairs {
		ops[i] = memory.Op{Kind: memory.Reset, Pair: memory.RuleOf(ruleName(p.Rule)).Pair(p.Key)}
	}
	_, err := m.store.Do(ops, nil)
	return err
}
