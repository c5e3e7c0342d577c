package core_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// several returns claims of cost 1, each of another key, each with token buckets of 3 in a day, 4 in two days, and so on.
func several(keys, periods int) (claims []core.Claim) {
	var limits []core.Limit
	for i := range periods {
		limits = append(limits, core.Every(3+i, time.Duration(i+1)*24*time.Hour))
	}
	for i := range keys {
		claims = append(claims, one("key"+strconv.Itoa(i), limits...)...)
	}
	return claims
}

func TestKnownKeysAreDecidedTogetherHoweverMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for keys := range 6 {
			for periods := range 10 {
				var m core.MemoryStore
				claims := several(keys+1, periods+1)
				for n := range 5 {
					results, err := m.Take(context.Background(), claims, nil)
					if err != nil || len(results) != len(claims)*(periods+1) {
						t.Fatalf("%d results, error %v", len(results), err)
					}
					for i, r := range results {
						period := i % (periods + 1)
						left := max(0, 3-n-1) + period
						if r.Allowed != (n < 3 || period > 0) || r.Remaining != left || r.Limit != claims[0].Limits[period] {
							t.Fatalf("%d keys, take %d, result %d: %+v, want %d remaining", keys+1, n, i, r, left)
						}
					}
				}
			}
		}
	})
}

func TestClaimsOfKnownKeysAreValidated(t *testing.T) {
	hour, day := core.PerHour(5), core.PerDay(9)
	known := append(one("a", hour, day), one("b", hour, day)...)
	for why, spoil := range map[string]func(c *core.Claim){
		"a negative cost":                   func(c *core.Claim) { c.Cost = -1 },
		"no limits":                         func(c *core.Claim) { c.Limits = nil },
		"a limit that is none":              func(c *core.Claim) { c.Limits = []core.Limit{hour, {Rate: -1}} },
		"one whose state is known":          func(c *core.Claim) { c.Limits = []core.Limit{hour, {Rate: -1, Period: day.Period}} },
		"more limits than a claim may have": func(c *core.Claim) { c.Limits = several(1, 17)[0].Limits },
		"two limits that share a state":     func(c *core.Claim) { c.Limits = []core.Limit{hour, core.PerHour(6)} },
		"the only limit is none":            func(c *core.Claim) { c.Limits = []core.Limit{{Rate: -1}} },
		"the only limit is none, and its state is known": func(c *core.Claim) {
			c.Limits = []core.Limit{{Rate: -1, Period: hour.Period}}
		},
		"the only limit, at a negative cost": func(c *core.Claim) {
			c.Limits, c.Cost = []core.Limit{hour}, -1
		},
		"the only limit, with a lease that is too short": func(c *core.Claim) {
			c.Limits, c.Lease = []core.Limit{hour}, 1
		},
	} {
		t.Run(why, func(t *testing.T) {
			var m core.MemoryStore
			admits(&m, known)
			for i := range known {
				claims := append([]core.Claim(nil), known...)
				spoil(&claims[i])
				for _, some := range [][]core.Claim{claims, claims[i : i+1]} {
					if results, err := m.Take(context.Background(), some, nil); !errors.Is(err, core.ErrInvalid) || len(results) > 0 {
						t.Errorf("claim %d of %d: %d results, error %v, want ErrInvalid", i, len(some), len(results), err)
					}
				}
			}
		})
	}
}

func TestLeaseIsNoMatterInMemory(t *testing.T) {
	var m core.MemoryStore
	claims := several(2, 2)
	claims[0].Lease = time.Second
	for _, some := range [][]core.Claim{claims, claims[:1]} {
		if results, err := m.Take(context.Background(), some, nil); err != nil || !results[1].Allowed {
			t.Errorf("%d claims: %+v, error %v", len(some), results, err)
		}
	}
}

func TestCostOnAKnownKeyIsHeld(t *testing.T) {
	for _, limits := range [][]core.Limit{{core.PerHour(5)}, {core.PerHour(5), core.PerDay(5)}} {
		var m core.MemoryStore
		claims := one("key", limits...)
		admits(&m, claims)
		claims[0].Hold, claims[0].Cost = true, 4
		results, err := m.Take(context.Background(), claims, nil)
		if err != nil || !results[0].Allowed || results[0].Remaining != 0 {
			t.Fatalf("%+v, error %v; want 4 more held", results, err)
		}
		if err := m.Settle(context.Background(), oracle.Settled(claims, results)); err != nil { // at 0
			t.Fatal(err)
		}
		claims[0].Hold = false
		if !admits(&m, claims) {
			t.Errorf("%d limits: what was held and is settled at 0 still counts", len(limits))
		}
	}
}

func TestManyAtOnceOnAFewKnownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m core.MemoryStore
		var keys []core.Claim
		for i := range 4 {
			keys = append(keys, one("key"+strconv.Itoa(i), core.PerDay(100), core.PerHour(1000))...)
		}
		n := countTrue(func() bool {
			some := append([]core.Claim(nil), keys...)
			rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			return admits(&m, some[:2+rand.IntN(3)])
		})
		if n < 100 || n > 100*4/2 {
			t.Errorf("%d admitted that take 2 to 4 of 4 keys, 100 of each", n)
		}
	})
}
