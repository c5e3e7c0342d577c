package core_test

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

// A visit is a request of one key with one limit.
type visit struct {
	step   oracle.Step // says how long to wait before the request
	cost   int
	refund int // the number of an earlier visit to give back before this one; 0 is none
}

// visits returns a limit and requests, made of the timeline of a seed.
func visits(seed uint64) (l core.Limit, vs []visit) {
	for i, s := range oracle.Random(seed, oracle.Options{}) {
		v := visit{step: s, cost: 1}
		if s.Verb == "settle" {
			v.refund = s.Of + 1
		}
		for _, c := range s.Claims {
			if l == (core.Limit{}) && c.Limits[0].Algorithm != core.InFlight { // nothing is held here
				l = c.Limits[0]
			}
			v.cost = max(1, c.Cost)
		}
		vs = append(vs, v)
		vs[i].refund = min(vs[i].refund, i)
	}
	return l, vs
}

// property plays visits in bubbles, where each may fail with an error.
func property(t *testing.T, begin func(core.Limit) func(visit) error) {
	t.Helper()
	for seed := range uint64(testpass.Rounds(150)) {
		l, vs := visits(seed)
		if l == (core.Limit{}) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			each := begin(l)
			for i, v := range vs {
				if err := each(v); err != nil {
					t.Fatalf("seed %d, %v, visit %d of %+v: %v", seed, l, i+1, vs, err)
				}
			}
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

func (d *fixture) sleep(s oracle.Step) {
	if wait := s.Wait(d.last); wait < longest-time.Since(d.begun) {
		time.Sleep(wait)
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
			d.sleep(v.step)
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
			d.sleep(v.step)
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
			d.sleep(v.step)
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
			d.sleep(v.step)
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

// After a refund, at most as much remains as if the request had never been made. The ticks of a bucket may have started with the
// refunded request, so requests may be available up to one tick earlier than in the model, whose ticks started later.
func TestRefundAdmitsNoMoreThanWithoutTheCharge(t *testing.T) {
	testpass.Thorough(t)
	property(t, func(l core.Limit) func(visit) error {
		d := newFixture(l)
		all := make([]admitted, 1)
		return func(v visit) error {
			d.sleep(v.step)
			if a := &all[v.refund]; a.cost > 0 && !a.refunded {
				a.refunded = true
				refund := oracle.Settlement(d.claims("k", a.cost)[0], time.UnixMicro(a.at))
				d.store.Settle(context.Background(), []core.Settlement{refund})
			}
			r := d.take("k", v.cost)
			now := admitted{at: time.Now().UnixMicro()}
			if r.Allowed {
				now.cost = v.cost
			}
			all = append(all, now)
			if most := d.without(all); r.Remaining > most {
				return fmt.Errorf("%d remain; without what was refunded, %d", r.Remaining, most)
			}
			return nil
		}
	})
}

// without returns what would remain before two ticks from now are over, if what was refunded had never been charged.
func (d *fixture) without(all []admitted) int {
	var m oracle.Model
	for _, a := range all {
		if a.cost > 0 && !a.refunded {
			m.Take(a.at, d.claims("k", a.cost))
		}
	}
	peek := d.claims("k", 1)
	peek[0].Peek = true
	return m.Take(all[len(all)-1].at+2*(tickOf(d.limit)-1), peek)[0].Remaining
}

// tickOf returns in how many microseconds the time of l counts.
func tickOf(l core.Limit) int64 {
	full := float64(l.Capacity()) * float64(l.Period.Microseconds())
	switch {
	case l.Algorithm != core.TokenBucket || full <= 1<<53:
		return 1
	case full <= 1<<53*1e3:
		return 1e3
	default:
		return 1e6
	}
}
