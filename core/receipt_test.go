package core_test

import (
	"context"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// A recordingStore admits everything, in results that it allocates itself, and records the claims.
type recordingStore struct {
	at      time.Time
	taken   []core.Claim
	settled []core.Settlement
}

// Take implements core.Store. It does not append to dst.
func (g *recordingStore) Take(_ context.Context, claims []core.Claim, _ []core.Result) ([]core.Result, error) {
	g.taken = append(g.taken, claims...)
	var results []core.Result
	for _, c := range claims {
		for _, l := range c.Limits {
			results = append(results, core.Result{Rule: c.Rule, Limit: l, Allowed: true, DryRun: c.DryRun, At: g.at})
		}
	}
	return results, nil
}

// Settle implements core.Store.
func (g *recordingStore) Settle(_ context.Context, settlements []core.Settlement) error {
	g.settled = append(g.settled, settlements...)
	return nil
}

// Reset implements core.Store.
func (*recordingStore) Reset(context.Context, []core.Pair) error { return nil }

// refundNamesTheClaimsThatWereChargedCases are the cases of TestRefundNamesTheClaimsThatWereCharged.
var refundNamesTheClaimsThatWereChargedCases = map[string][]core.Claim{
	"the limit of a rule":       {{Rule: "r", Key: "k"}},
	"a cost":                    {{Rule: "r", Key: "k", Cost: 255}},
	"a cost above a byte":       {{Rule: "r", Key: "k", Cost: 256}},
	"a dry run by the rule":     {{Rule: "trial", Key: "k"}},
	"a dry run by the claim":    {{Rule: "r", Key: "k", DryRun: true}},
	"two limits":                {{Rule: "day", Key: "k"}},
	"limits of its own":         {{Rule: "r", Key: "k", Limits: []core.Limit{core.PerHour(7)}}},
	"no rule":                   {{Rule: "jobs", Key: "k", Limits: []core.Limit{core.PerHour(7)}}},
	"two claims":                {{Rule: "r", Key: "k"}, {Rule: "r", Key: "other", Cost: 3}},
	"three, of which one peeks": {{Rule: "r", Key: "k"}, {Rule: "day", Key: "k", Peek: true}, {Rule: "trial", Key: "k"}},
}

// A decision keeps little of its claims; Settle must name all of what was charged.
func TestRefundNamesTheClaimsThatWereCharged(t *testing.T) {
	day, trial := perHour("day", 9), perHour("trial", 9)
	day.Limits = append(day.Limits, core.PerDay(99))
	trial.DryRun = true
	for why, claims := range refundNamesTheClaimsThatWereChargedCases {
		t.Run(why, func(t *testing.T) {
			g := &recordingStore{at: time.Unix(1767268800, 0)}
			l := core.Must(core.New([]core.Rule{perHour("r", 9), day, trial}, core.WithStore(g)))
			d, err := l.Take(t.Context(), claims...)
			if err != nil || !d.Allowed || !d.At.Equal(g.at) {
				t.Fatalf("got %+v, %v", d, err)
			}
			want, results := []core.Settlement(nil), d.Results
			for _, c := range g.taken {
				for _, limit := range c.Limits {
					if r := results[0]; r.Rule != c.Rule || r.Limit != limit || r.DryRun != c.DryRun {
						t.Errorf("got %+v of %+v", r, c)
					}
					results = results[1:]
				}
				if !c.Peek {
					want = append(want, oracle.Settlement(c, g.at))
				}
			}
			if err := l.Refund(t.Context(), d); err != nil || len(results) > 0 || !reflect.DeepEqual(exported(g.settled), want) {
				t.Errorf("settled %+v, %v, and %d results too many; want %+v", g.settled, err, len(results), want)
			}
		})
	}
}

// exported returns settlements without what a limiter adds for the stores of this module.
func exported(settlements []core.Settlement) (plain []core.Settlement) {
	for _, s := range settlements {
		plain = append(plain, core.Settlement{
			Rule: s.Rule, Key: s.Key, Limits: s.Limits, At: s.At, Cost: s.Cost, DryRun: s.DryRun, Held: s.Held, Lease: s.Lease,
			MaxWait: s.MaxWait, Wait: s.Wait, Final: s.Final, Renew: s.Renew, Ban: s.Ban,
		})
	}
	return plain
}

// TestAllocations bounds what a decision costs, the request to pass on and its context included.
func TestAllocations(t *testing.T) {
	key := core.Claim{Rule: "r", Key: "k"}
	l, r := core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: []core.Limit{core.PerSecond(1_000_000)}}})), get("/")
	for name, row := range map[string]struct {
		decide func()
		most   float64
	}{
		"Take":  {func() { l.Take(t.Context(), key) }, 1},
		"Check": {func() { l.Check(r) }, 1},
		"Peek":  {func() { l.Peek(r) }, 1},
		"Guard": {func() { l.Guard(r.Context(), r, nil) }, 2},
	} {
		row.decide()
		if n := testing.AllocsPerRun(1000, row.decide); n > row.most {
			t.Errorf("%s: %v allocations, want %v", name, n, row.most)
		}
	}
}

// A held request may take three allocations more: its receipt has more fields, and its renewal a timer and a func.
func TestAllocationsOfAHeldRequest(t *testing.T) {
	allocations := func(f func(*http.Request, core.Outcome) int) float64 {
		l, r := inMemory("1000000000/s", f), get("/")
		decide := func() {
			g, _ := l.Guard(t.Context(), r, nil)
			if g.Watches() {
				g.Settle(core.Outcome{Status: 200})
			}
			g.End()
		}
		least := testing.AllocsPerRun(1, decide)
		for range 100 { // the race detector drops objects from pools at random
			least = min(least, testing.AllocsPerRun(1, decide))
		}
		return least
	}
	if plain, held := allocations(nil), allocations(core.Failures); held > plain+3 {
		t.Errorf("%v allocations, want at most 3 more than %v", held, plain)
	}
}
