package core

import "time"

// A Pure is the state of one limit on a clock of the test's choosing, which may go back. It goes through the same
// functions as the states of a MemoryStore, whose clock cannot. Its limits share algorithm and period.
type Pure struct{ shard *shard }

func (p *Pure) meter(l *Limit, cost int) *meter {
	const id = 1 << 60
	t := &meter{pair: pair{id: id}, limit: scaleOf(l), shard: p.shard, cost: int64(cost), asked: int64(cost)}
	if p.shard.find(id, t.limit.kind) == nil {
		p.shard.insert(id, t.limit.kind)
	}
	return t
}

// NewPure returns the state of a key never seen.
func NewPure() *Pure { return &Pure{shard: new(shard)} }

// Take decides cost at now, in microseconds.
func (p *Pure) Take(now int64, l Limit, cost int) Result {
	t := p.meter(&l, cost)
	t.open(now)
	if t.decide(now); t.retry == 0 {
		t.charge(now)
	}
	u := t.report(now)
	return Result{
		Rule: "default", Limit: l, Allowed: t.retry == 0, Remaining: int(u.remaining), RetryAfter: t.retry,
		RefillAfter: time.Duration(u.refill) * time.Microsecond, ResetAfter: time.Duration(u.reset) * time.Microsecond,
	}
}

// Refund gives back at now what a Take at an earlier call charged.
func (p *Pure) Refund(now, at int64, l Limit, cost int) { p.meter(&l, cost).refund(now, at) }
