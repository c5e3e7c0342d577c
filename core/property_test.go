package core_test

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

// A visit is a request of one key with one limit, after a wait.
type visit struct {
	wait wait
	cost int
	// refund is the number of an earlier visit to give back before this one; 0 is none.
	refund int
}

// visits draws a limit, which is not of requests in flight, since nothing is held here, and requests.
func visits(t *rapid.T) (core.Limit, []visit) {
	charged := family(1).Filter(func(l []core.Limit) bool { return l[0].Algorithm != core.InFlight })
	l := charged.Draw(t, "limit")[0]
	vs := make([]visit, rapid.IntRange(1, 30).Draw(t, "visits"))
	for i := range vs {
		vs[i] = visit{wait: waits(l.Period).Draw(t, "wait"), cost: max(1, costs(l.Capacity()).Draw(t, "cost"))}
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "refund") == 3 {
			vs[i].refund = rapid.IntRange(1, i).Draw(t, "of visit")
		}
	}
	return l, vs
}

// property plays random visits in a bubble, where each may fail with an error.
func property(t *testing.T, begin func(core.Limit) func(visit) error) {
	for range testpass.Rounds(1) {
		rapid.Check(t, func(r *rapid.T) {
			l, vs := visits(r)
			inBubble(t, r, func() error {
				each := begin(l)
				for i, v := range vs {
					if err := each(v); err != nil {
						return fmt.Errorf("%v, visit %d of %+v: %w", l, i+1, vs, err)
					}
				}
				return nil
			})
		})
	}
}

// A fixture is a store with one limit, for a few keys.
type fixture struct {
	store core.MemoryStore
	limit core.Limit
	begun time.Time
	last  []core.Result
}

func newFixture(l core.Limit) *fixture { return &fixture{limit: l, begun: time.Now()} }

func (d *fixture) sleep(w wait) {
	if w := w.length(d.last); w < longest-time.Since(d.begun) {
		time.Sleep(w)
	}
}

func (d *fixture) claims(key string, cost int) []core.Claim {
	return []core.Claim{{Key: key, Limits: []core.Limit{d.limit}, Cost: cost}}
}

// take is without an error, since the claims are valid.
func (d *fixture) take(key string, cost int) core.Result {
	d.last, _ = d.store.Take(context.Background(), d.claims(key, cost), nil)
	return d.last[0]
}

func (d *fixture) peek(key string, cost int) core.Result {
	claims := d.claims(key, cost)
	claims[0].Peek = true
	results, _ := d.store.Take(context.Background(), claims, nil)
	return results[0]
}

// admitted is a cost and when it was charged.
type admitted struct {
	at       int64
	cost     int
	refunded bool
}

func TestNoSpanAdmitsMoreThanItsBound(t *testing.T) {
	property(t, func(l core.Limit) func(visit) error {
		d := newFixture(l)
		var all []admitted
		return func(v visit) error {
			d.sleep(v.wait)
			if !d.take("k", v.cost).Allowed {
				return nil
			}
			now := time.Now().UnixMicro()
			all = append(all, admitted{at: now, cost: v.cost})
			sum := int64(0)
			for i := len(all) - 1; i >= 0; i-- {
				if sum += int64(all[i].cost); !within(l, all[i].at, now, sum) {
					return fmt.Errorf("%d admitted from %d to %d", sum, all[i].at, now)
				}
			}
			return nil
		}
	})
}

// within reports whether l may admit sum in the span from a to b, both included.
func within(l core.Limit, a, b, sum int64) bool {
	period := l.Period.Microseconds()
	switch l.Algorithm {
	case core.TokenBucket:
		over := new(big.Int).Mul(big.NewInt(sum-int64(l.Capacity())), big.NewInt(period))
		return over.Cmp(new(big.Int).Mul(big.NewInt(int64(l.Rate)), big.NewInt(b-a))) <= 0
	case core.FixedWindow:
		return a/period != b/period || sum <= int64(l.Rate)
	default:
		return b-a >= period || sum <= int64(l.Rate)
	}
}

func TestWaitsAreExact(t *testing.T) {
	property(t, func(l core.Limit) func(visit) error {
		d := newFixture(l)
		return func(v visit) error {
			d.sleep(v.wait)
			r := d.take("k", v.cost)
			if r.Allowed || r.RetryAfter == core.Never || r.RetryAfter > longest-time.Since(d.begun) {
				return nil
			}
			time.Sleep(r.RetryAfter - time.Microsecond)
			if d.take("k", v.cost).Allowed {
				return fmt.Errorf("allowed 1µs before %v", r.RetryAfter)
			}
			time.Sleep(time.Microsecond)
			if !d.take("k", v.cost).Allowed {
				return fmt.Errorf("denied after %v", r.RetryAfter)
			}
			return nil
		}
	})
}

func TestDeniedAndPeekedRequestsChangeNothing(t *testing.T) {
	property(t, func(l core.Limit) func(visit) error {
		d := newFixture(l)
		return func(v visit) error {
			d.sleep(v.wait)
			d.peek("denied", v.cost)
			if d.take("denied", d.peek("denied", 1).Remaining+1).Allowed {
				return fmt.Errorf("more than what remains was admitted")
			}
			denied := d.take("denied", v.cost)
			if other := d.take("not denied", v.cost); denied != other {
				return fmt.Errorf("\n    denied %+v\nnot denied %+v", denied, other)
			}
			return nil
		}
	})
}

func TestCostEqualsThatManyRequests(t *testing.T) {
	property(t, func(l core.Limit) func(visit) error {
		d := newFixture(l)
		return func(v visit) error {
			d.sleep(v.wait)
			once := d.take("once", min(v.cost, 50))
			if !once.Allowed {
				return nil
			}
			for range min(v.cost, 50) - 1 {
				d.take("one by one", 1)
			}
			if again := d.take("one by one", 1); again != once {
				return fmt.Errorf("\n      once %+v\none by one %+v", once, again)
			}
			return nil
		}
	})
}
