package core_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/testpass"
)

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
		if err := l.SetRules(rules[:1]); err != nil {
			t.Fatal(err)
		}
		if err := l.Reset(t.Context(), "default", "k"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMaxKeysIsAMillionByDefault(t *testing.T) {
	testpass.Sequential(t)
	testpass.Thorough(t)
	m := new(core.MemoryStore)
	flood(m, 1_000_000)
	if s := m.Stats(); s.Keys != 1_000_000 || s.Shared != 0 {
		t.Errorf("a million keys: got %+v, want each with a state of its own", s)
	}
	if admits(m, one("another", core.PerHour(1))); m.Stats().Shared == 0 {
		t.Errorf("a million keys and one: got %+v, want one that shares", m.Stats())
	}
}
