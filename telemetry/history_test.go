package telemetry

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

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
		if got := tel.Recent("r", 2); len(got) != 2 || got[0] != want[3] || got[1] != want[4] {
			t.Errorf("got %v, want %v", got, want[3:])
		}
	})
}

func checkHistory(t *testing.T, tel *Telemetry, rule string, want []Second) {
	t.Helper()
	got := tel.History(rule)
	if len(got) != len(want) {
		t.Fatalf("got %d seconds, want %d: %v", len(got), len(want), got)
	}
	now := time.Now().Truncate(time.Second)
	for i := range want {
		want[i].Time = now.Add(time.Duration(i-len(want)+1) * time.Second)
		if got[i] != want[i] {
			t.Errorf("%s: second %d: got %+v, want %+v", rule, i, got[i], want[i])
		}
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
		if n, _ := sum(); n != historySeconds/2-1 {
			t.Errorf("after half an hour: got %d requests, want %d", n, historySeconds/2-1)
		}
		time.Sleep(time.Hour)
		if n, _ := sum(); n != 0 {
			t.Errorf("after an hour: got %d requests, want none", n)
		}
	})
}

func TestHistoryOfUnknownRules(t *testing.T) {
	if h := New(Options{}).History("none"); h != nil {
		t.Errorf("got %v", h)
	}
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
