package core

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

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
	t.name(now)
	t.load(now)
	if t.decide(now); t.retry == 0 {
		t.charge(now)
	}
	u := t.report(now)
	return Result{
		Rule: "default", Limit: l, Allowed: t.retry == 0, Remaining: int(u.remaining), RetryAfter: t.retry,
		RefillAfter: time.Duration(u.refill) * time.Microsecond, ResetAfter: time.Duration(u.reset) * time.Microsecond, At: time.UnixMicro(now),
	}
}

// Refund gives back at now what a Take at an earlier call charged.
func (p *Pure) Refund(now, at int64, l Limit, cost int) { p.meter(&l, cost).refund(now, at) }

// A mistake in this package must not become a deadlock of the server.
func TestAPanicLeavesNoLockHeld(t *testing.T) {
	ctx := context.Background()
	claim := func(key string) []Claim {
		return []Claim{{Key: key, Limits: []Limit{PerSecond(1).Using(SlidingLog)}}}
	}
	for name, call := range map[string]func(m *MemoryStore, at time.Time){
		"take": func(m *MemoryStore, _ time.Time) { m.Take(ctx, claim("broken"), nil) },
		"settle": func(m *MemoryStore, at time.Time) {
			c := claim("broken")
			c[0].At = at
			m.Settle(ctx, c)
		},
		"reset": func(m *MemoryStore, _ time.Time) { m.Reset(ctx, claim("broken")) },
		"sweep": func(m *MemoryStore, _ time.Time) {
			time.Sleep(2 * time.Second)
			for i := range 200 { // some in the shard of the broken one, some in others
				m.Take(ctx, claim(strconv.Itoa(i)), nil)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &MemoryStore{MaxKeys: 1}
				results, err := m.Take(ctx, claim("broken"), nil)
				if err != nil {
					t.Fatal(err)
				}
				pairs, _ := m.find(nil, claim("broken"))
				m.shard(pairs[0].id).find(pairs[0].id, kindOf(claim("")[0].Limits[0])).extra = 1 << 30 // an entry that does not exist
				func() {
					defer func() {
						if recover() == nil {
							t.Error("there was no panic")
						}
					}()
					call(m, results[0].At)
				}()
				for i := range m.shards {
					if !m.shards[i].TryLock() {
						t.Fatalf("shard %d is still locked", i)
					}
				}
			})
		})
	}
}
