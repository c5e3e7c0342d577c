package telemetry

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A request that holds its cost counts once as a request, and once as settled.
func TestSettledRequests(t *testing.T) {
	b := new(logRecorder)
	tel := New(Options{Log: slog.New(b)})
	broken := errors.New("final failed")
	final := func(r *http.Request, o core.Outcome) int { return o.Status / 500 }
	rule := core.Rule{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(100)}, CostAfter: final}
	l := limited(t, tel, []core.Rule{rule})
	_, err := l.Take(t.Context(), core.Claim{Rule: "charged", Key: "user:ann", Limits: []core.Limit{core.PerHour(100)}})
	expect.True(t, err == nil && tel.Snapshot().Held == 0, "a charge counts as held, or failed: %v", err)
	for _, status := range []int{200, 200, 500} {
		d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "user:ann", Hold: true})
		must.True(t, err == nil && d.Allowed, "%v, %v", d, err)
		expect.Equal(t, tel.Snapshot().Held, 1, "held")
		must.Do(t, l.Settle(t.Context(), d, "", status/500))
		expect.Equal(t, tel.Snapshot().Held, 0, "settled: held")
	}
	if got := tel.Snapshot().Store; got.Duration != 0 || slices.Max(got.Calls) != 0 {
		t.Errorf("got %+v: the store is in this process, so there is no call to be measured", got)
	}
	for _, err := range []error{broken, errors.Join(broken, core.ErrUnavailable)} {
		tel.Observe(t.Context(), &core.Observation{Claims: []core.Claim{{Rule: "r", Key: "user:ann", Hold: true}}, Outcome: &core.Outcome{}, Err: err})
	}
	s := tel.Snapshot()
	got := make(map[string]uint64)
	for _, c := range s.Settled {
		got[c.Result] = c.Count
	}
	expect.True(t, got["free"] == 2 && got["charged"] == 1 && got["failed"] == 2, "got %v", got)
	got = counted(s)
	expect.True(t, got["allowed"] == 4 && got["r 100/1h allowed"] == 3, "got %v", got)
	for _, w := range []warning{settlementFailed, finalFailed} {
		expect.Equal(t, b.sum(t, string(w)), 1, "the lines %q account for settlements", w)
	}
}

// A request that was decided without the store may be settled without an error.
func TestSettlementOfADegradedDecisionIsNoFailure(t *testing.T) {
	tel := New(Options{})
	o := &core.Observation{Outcome: &core.Outcome{}, Store: time.Millisecond}
	o.Degraded = core.ErrUnavailable
	tel.Observe(t.Context(), o)
	expect.Equal(t, tel.Snapshot().Store.Failures, 0, "failures")
}

// A denied request, or a dry run that does not fit, holds nothing, in contrast to the last request.
func TestDeniedClaimsAreNotHeld(t *testing.T) {
	tel := New(Options{})
	limit := core.PerHour(1)
	for _, c := range []struct{ allowed, fits, dryRun bool }{{false, false, false}, {false, true, false}, {true, false, true}, {true, true, false}} {
		o := &core.Observation{Claims: []core.Claim{{Rule: "r", Key: "k", Hold: true, DryRun: c.dryRun, Limits: []core.Limit{limit}}}}
		o.Decision = core.Decision{Allowed: c.allowed, Results: []core.Result{{Rule: "r", Limit: limit, Allowed: c.fits, DryRun: c.dryRun}}}
		tel.Observe(t.Context(), o)
	}
	expect.Equal(t, tel.Snapshot().Held, 1, "held")
}

func TestKeysOfMemoryStores(t *testing.T) {
	tel := New(Options{})
	l := limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(100)}}})
	ask(l, "ann")
	ask(l, "bob")
	expect.Equal(t, tel.Snapshot().Keys, Keys{Own: 2}, "2 of their own")
}

// A store shared by two limiters counts once. For a store that does not report its holds, the observed claims count.
func TestHeldComesFromTheStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := New(Options{})
		store := core.WithStore(new(core.MemoryStore))
		rules := func(name string) []core.Rule {
			return []core.Rule{{Name: name, Key: byHeader, Limits: core.MustParseLimits("9 at once")}}
		}
		one, other := limited(t, tel, rules("one"), store), limited(t, tel, rules("other"), store)
		for l, rule := range map[*core.Limiter]string{one: "one", other: "other"} {
			must.Get(l.Take(t.Context(), core.Claim{Rule: rule, Key: "user:ann", Hold: true}))(t)
		}
		s := tel.Snapshot()
		expect.True(t, s.Held == 2 && s.Keys.Own == 2, "got %d held and %+v, want 2 and 2", s.Held, s.Keys)
		time.Sleep(67 * time.Second) // as after a crash of the process that had held them
		expect.Equal(t, tel.Snapshot().Held, 0, "held when all have expired")
		limited(t, tel, rules("third"), core.WithStore(struct{ core.Store }{new(core.MemoryStore)}))
		expect.Equal(t, tel.Snapshot().Held, 2, "the 2 that were observed")
	})
}

// A leasing is a store that leases.
type leasing struct {
	core.Store
	stats core.LeaseStats
}

func (l *leasing) LeaseStats() core.LeaseStats { return l.stats }

func TestLeases(t *testing.T) {
	tel := New(Options{})
	rules := []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(100)}}}
	shared := &leasing{new(core.MemoryStore), core.LeaseStats{Keys: 1, Decisions: 20, Returned: 300}}
	other := &leasing{new(core.MemoryStore), core.LeaseStats{Keys: 4, Decisions: 50, Returned: 600}}
	incomparable := struct {
		core.Store
		hook func()
	}{Store: new(core.MemoryStore)}
	for _, s := range []core.Store{shared, shared, other, new(core.MemoryStore), incomparable, incomparable} {
		limited(t, tel, rules, core.WithStore(s))
	}
	expect.Equal(t, tel.Snapshot().Leases, (Leases{Keys: 5, Decisions: 70, Returned: 900}), "tel.Snapshot().Leases")
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := New(Options{})
		l := limited(t, tel, []core.Rule{
			{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerDay(4)}},
			{Name: "trial", Key: byHeader, Limits: []core.Limit{core.PerDay(1)}, DryRun: true},
		})
		for _, n := range []int{1, 0, 2, 3} {
			for range n {
				ask(l, "ann")
			}
			time.Sleep(time.Second)
		}
		want := []Second{{Allowed: 1}, {}, {Allowed: 2}, {Allowed: 1, Denied: 2}, {}}
		checkHistory(t, tel, "r", want)
		checkHistory(t, tel, "trial", []Second{{Allowed: 1}, {}, {WouldDeny: 2}, {WouldDeny: 1}, {}})       // r denied the others
		checkHistory(t, tel, "", []Second{{Allowed: 1}, {}, {WouldDeny: 2}, {WouldDeny: 1, Denied: 2}, {}}) // each request counts once
		ask(l, "ann")
		want[4].Denied = 1 // the current second
		checkHistory(t, tel, "r", want)
		got := tel.Recent("r", 2)
		expect.True(t, len(got) == 2 && got[0] == want[3] && got[1] == want[4], "got %v, want %v", got, want[3:])
	})
}

func checkHistory(t *testing.T, tel *Telemetry, rule string, want []Second) {
	t.Helper()
	got := tel.History(rule)
	must.Equal(t, len(got), len(want), "seconds (%v)", got)
	now := time.Now().Truncate(time.Second)
	for i := range want {
		want[i].Time = now.Add(time.Duration(i-len(want)+1) * time.Second)
		expect.Equal(t, got[i], want[i], "%s: second %d", rule, i)
	}
}

// A process may start in the middle of a second. Its seconds still follow the wall clock.
func TestHistoryFollowsTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(600 * time.Millisecond)
		tel := New(Options{})
		l := limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerDay(1000)}}})
		for range 20 { // from 0.6 s to 2.6 s
			ask(l, "ann")
			time.Sleep(100 * time.Millisecond)
		}
		checkHistory(t, tel, "r", []Second{{Allowed: 4}, {Allowed: 10}, {Allowed: 6}})
		time.Sleep(300 * time.Millisecond)
		checkHistory(t, tel, "r", []Second{{Allowed: 4}, {Allowed: 10}, {Allowed: 6}})
	})
}

// After an hour, older seconds are gone, and the ring has no stale seconds.
func TestHistoryIsOneHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := New(Options{})
		l := limited(t, tel, []core.Rule{{Name: "r", Key: byHeader, Limits: []core.Limit{core.PerHour(100_000)}}})
		sum := func() (n, seconds int) {
			for _, s := range tel.History("r") {
				n += s.Allowed
			}
			return n, len(tel.History("r"))
		}
		for range 2 * historySeconds {
			ask(l, "ann")
			time.Sleep(time.Second)
		}
		if n, seconds := sum(); n != historySeconds-1 || seconds != historySeconds {
			t.Errorf("got %d requests in %d seconds, want %d in %d", n, seconds, historySeconds-1, historySeconds)
		}
		time.Sleep(30 * time.Minute)
		n, _ := sum()
		expect.Equal(t, n, historySeconds/2-1, "after half an hour: requests")
		time.Sleep(time.Hour)
		n, _ = sum()
		expect.Equal(t, n, 0, "after an hour: requests")
	})
}

func TestHistoryOfUnknownRules(t *testing.T) {
	expect.True(t, New(Options{}).History("none") == nil, "a history of no rule")
}

// The store's clock may be wrong, and stores may have different clocks.
func TestHistoryDoesNotDependOnTheClockOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, o := observed(true)
		for range 3 {
			for _, skew := range []time.Duration{0, -time.Hour, 1000 * time.Hour} {
				o.At = time.Now().Add(skew)
				tel.Observe(t.Context(), o)
			}
			time.Sleep(time.Second)
		}
		checkHistory(t, tel, "api", []Second{{Allowed: 3}, {Allowed: 3}, {Allowed: 3}, {}})
	})
}
