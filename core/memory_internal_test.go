package core

import (
	"slices"
	"time"
)

// A Pure is the state of one limit on a clock of the test's choosing, which may go back. It goes through the same
// functions as the states of a MemoryStore, whose clock cannot. Its limits share algorithm and period.
type Pure struct{ shard *shard }

func (p *Pure) open(now int64, l *Limit, cost int) *meter {
	const pair = 1 << 60
	t := &meter{limit: scaleOf(l), shard: p.shard, id: pair, cost: int64(cost), asked: int64(cost)}
	if p.shard.find(pair, t.limit.kind) == nil {
		p.shard.insert(pair, t.limit.kind)
	}
	t.open(now)
	return t
}

// NewPure returns the state of a key never seen.
func NewPure() *Pure { return &Pure{shard: new(shard)} }

// Take decides cost at now, in microseconds. A denial leaves no trace, but for one: a state from later than now is kept as
// it was decided on, or else denials would last until the clock is back where it was.
func (p *Pure) Take(now int64, l Limit, cost int) Result {
	before := p.shard.copy()
	t := p.open(now, &l, cost)
	if t.decide(now); t.retry == 0 {
		t.charge(now)
	} else if !t.keep(now) {
		defer func() { p.shard = before }()
	}
	u := t.report(now)
	return Result{
		Rule: "default", Limit: l, Allowed: t.retry == 0, Remaining: int(u.remaining), RetryAfter: t.retry,
		RefillAfter: time.Duration(u.refill) * time.Microsecond, ResetAfter: time.Duration(u.reset) * time.Microsecond,
	}
}

// Refund gives back at now what a Take at an earlier call charged.
func (p *Pure) Refund(now, at int64, l Limit, cost int) { p.open(now, &l, cost).refund(now, at) }

// keep stores what open made of a state from later than now, and reports whether it was one.
func (t *meter) keep(now int64) bool {
	latest := now // that a state can be from
	switch t.limit.limit.Algorithm {
	case TokenBucket:
		if t.record.at > latest && t.limit.rate > 0 {
			t.record.setBucket(t.bucket, t.limit)
			return true
		}
	case FixedWindow:
		if t.record.at > latest {
			t.record.setWindow(t.window)
			return true
		}
	case SlidingWindow:
		latest += ceilDiv(t.limit.micros, minBuckets)
		fallthrough
	default:
		if t.queue.last > latest {
			t.record.setQueue(t.queue.clamp(&t.shard.entries, t.limit.stamp(now)))
			return true
		}
	}
	return false
}

func (s *shard) copy() *shard {
	return &shard{
		index: slices.Clone(s.index), records: s.records.copy(), entries: s.entries.copy(),
		count: s.count, common: s.common, hand: s.hand,
	}
}

func (s *slab[T]) copy() slab[T] {
	c := slab[T]{unused: slices.Clone(s.unused), used: s.used}
	for _, chunk := range s.chunks {
		c.chunks = append(c.chunks, slices.Clone(chunk))
	}
	return c
}
