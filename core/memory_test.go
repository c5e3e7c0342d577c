package core_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestMemoryStoreKeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{New: func(*testing.T) core.Store { return new(core.MemoryStore) }})
}

// algorithms are 100 requests a day by each algorithm, all states of one key.
var algorithms = core.MustParseLimits("100/d, 100/d;fixed-window, 100/d;sliding-window, 100/d;sliding-log")

func one(key string, limits ...core.Limit) []core.Claim {
	return []core.Claim{{Rule: "rule", Key: key, Limits: limits}}
}

// admits reports whether m admits claims, which are valid.
func admits(m *core.MemoryStore, claims []core.Claim) bool {
	var buf [8]core.Result
	results, _ := m.Take(context.Background(), claims, buf[:0])
	for i := range results {
		if !results[i].Allowed {
			return false
		}
	}
	return len(results) > 0
}

func TestResetForgetsAndMakesRoom(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		m := &core.MemoryStore{MaxKeys: 1}
		for i := range 1000 {
			key := strconv.Itoa(i)
			for range 2 { // a shared state would stay as it is
				for range 100 {
					must.True(t, admits(m, one(key, algorithms...)), "key %d was not forgotten", i)
				}
				must.True(t, !admits(m, one(key, algorithms...)), "key %d: 101 admitted", i)
				must.Do(t, m.Reset(context.Background(), []core.Pair{{Rule: "rule", Key: key}}))
			}
		}
	})
}

func TestMemoryStoreIgnoresLeases(t *testing.T) {
	var m core.MemoryStore
	limits := core.MustParseLimits("3/d, 4/2d")
	claims := append(one("a", limits...), one("b", limits...)...)
	claims[0].Lease = time.Second
	for _, some := range [][]core.Claim{claims, claims[:1]} {
		results := must.Get(m.Take(context.Background(), some, nil))(t)
		expect.True(t, results[1].Allowed, "%d claims: %+v", len(some), results)
	}
}

// TestPairsShareNothing takes, holds and settles many pairs concurrently: the race detector would report shared data.
func TestPairsShareNothing(t *testing.T) {
	for _, limits := range []string{"9/h", "9/h;fixed-window", "9/h;sliding-window", "9/h;sliding-log", "9/month", "2 at once, 9/h"} {
		m := new(core.MemoryStore)
		var callers sync.WaitGroup
		for key := range 16 {
			callers.Go(func() {
				c := core.Claim{Rule: "r", Key: strconv.Itoa(key), Limits: core.MustParseLimits(limits), Cost: 1, Hold: true}
				s := core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Cost: 1, Held: true}
				for i := range 20 {
					c.Peek = i%3 == 0
					results, err := m.Take(t.Context(), []core.Claim{c}, nil)
					if err != nil || !results[0].Allowed {
						t.Errorf("%s: %+v, %v", limits, results, err)
						return
					}
					if s.At = results[0].At; !c.Peek {
						err = m.Settle(t.Context(), []core.Settlement{s})
					}
					expect.NoError(t, err, "%s", limits)
				}
			})
		}
		callers.Wait()
	}
}

// A settlement that changes nothing writes nothing: the race detector would report it.
func TestSettlementThatChangesNothingDoesNotRace(t *testing.T) {
	m, limits := new(core.MemoryStore), core.MustParseLimits("5/m, 6/h, 7/d")
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 500 {
			var claims []core.Claim
			for n := range 1 + i%12 {
				claims = append(claims, core.Claim{Rule: "r", Key: strconv.Itoa(20*i + n), Limits: limits})
			}
			expect.NoError(t, expect.ErrorOf(m.Take(t.Context(), claims, nil)), "Take")
		}
	})
	wg.Go(func() {
		for i := range 500 {
			err := m.Settle(t.Context(), []core.Settlement{{Rule: "r", Key: strconv.Itoa(i), Limits: limits, Cost: 1, Final: 1}})
			expect.NoError(t, err, "Take")
		}
	})
	wg.Wait()
}

// longest bounds a timeline, so that the clock of the bubble, in nanoseconds, does not run out.
const longest = 250 * 365 * 24 * time.Hour

// newReplaySubject returns a store whose clock the test sets.
func newReplaySubject() oracle.Subject {
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	return oracle.Subject{
		Store: &core.MemoryStore{Now: func() time.Time { return now }}, Now: func() time.Time { return now },
		Advance: func(d time.Duration) { now = now.Add(d) },
	}
}

func TestRandomTimelines(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRandom(t, newReplaySubject, oracle.Options{Back: true}, testpass.Rounds(1500))
}

func TestRareTimelines(t *testing.T) {
	testpass.Thorough(t)
	oracle.CompareRare(t, newReplaySubject)
}

// A bubble panics at its end if a goroutine is left in it.
func TestLimiterInMemoryStartsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := []core.Rule{
			core.PerHour(100).By(keyK),
			{Name: "held", Key: keyK, Limits: core.MustParseLimits("9/m, 2 at once"), CostAfter: core.Failures},
			{Name: "waiting", Key: keyK, Limits: []core.Limit{core.PerSecond(1)}, MaxWait: time.Minute},
		}
		l := core.Must(core.New(rules, core.WithObserver(func(context.Context, *core.Observation) {})))
		for range 3 {
			serve(t, l, func(_ *http.Request, g *core.Guard) {
				time.Sleep(time.Minute) // the hold is renewed meanwhile
				g.Settle(core.Outcome{Status: 401})
			})
		}
		must.Do(t, l.SetRules(rules[:1]))
		must.Do(t, l.Reset(t.Context(), "default", "k"))
	})
}

func TestMaxKeysIsAMillionByDefault(t *testing.T) {
	testpass.Sequential(t)
	testpass.Thorough(t)
	m := new(core.MemoryStore)
	flood(m, 1_000_000)
	s := m.Stats()
	expect.True(t, s.Keys == 1_000_000 && s.Shared == 0, "a million keys: got %+v, want each with a state of its own", s)
	admits(m, one("another", core.PerHour(1)))
	expect.NotEqual(t, m.Stats().Shared, 0, "a million keys and one: %+v (one that shares)", m.Stats())
}
