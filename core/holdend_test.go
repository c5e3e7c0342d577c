package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/testpass"
)

// A loser is a store that loses every Settle.
type loser struct{ core.MemoryStore }

func (s *loser) Settle(context.Context, []core.Settlement) error { return errors.New("lost") }

func TestLostSettlementsDelayABanByAMinuteAtMost(t *testing.T) {
	for _, onFailure := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
		synctest.Test(t, func(t *testing.T) {
			rule := core.Rule{Name: "login", Key: keyK, Limits: core.MustParseLimits("5/10m;ban=1h"), CostAfter: core.Failures, OnFailure: onFailure}
			l := core.Must(core.New([]core.Rule{rule}, core.WithStore(new(loser))))
			ran := 0
			for begun := time.Now(); time.Since(begun) < 24*time.Minute; time.Sleep(18 * time.Second) {
				g, err := l.Guard(context.Background(), get("/"), nil)
				if err == nil && g.Admitted() {
					ran++
					g.Settle(core.Outcome{Status: 401})
				}
				g.End()
			}
			// A login settled in time would be the fifth after 72 seconds, and the next after an hour.
			if ran != 5 {
				t.Errorf("failure mode %d: %d failed logins ran, want 5", onFailure, ran)
			}
			d, err := l.Take(t.Context(), core.Claim{Rule: "login", Key: "k", Peek: true})
			if err != nil || d.RetryAfter() < 37*time.Minute || d.RetryAfter() > 39*time.Minute {
				t.Errorf("failure mode %d: %+v, %v, want the ban to last for 37 to 39 minutes more", onFailure, d, err)
			}
		})
	}
}

// Other keys come and go all the time, so that the store sweeps while a hold waits for its end and drains.
func TestSweepsKeepHoldsAndTheirCharges(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		m := core.MemoryStore{MaxKeys: 40}
		held := one("held", core.MustParseLimits("9/d, 9/d;fixed-window, 9/d;sliding-window, 9/d;sliding-log, 9/s;ban=48h, 9 at once")...)
		held[0].Hold, held[0].Cost = true, 9
		if !admits(&m, held) {
			t.Fatal("not held")
		}
		for i := range 200_000 {
			admits(&m, one(fmt.Sprint(i), core.PerSecond(10)))
			time.Sleep(100 * time.Millisecond)
		}
		held[0].Hold, held[0].Peek, held[0].Cost = false, true, 1
		results, err := m.Take(context.Background(), held, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, left := range []int{2, 0, 0, 0, 0, 9} {
			if results[i].Remaining != left {
				t.Errorf("%v: %d remain, want %d", results[i].Limit, results[i].Remaining, left)
			}
		}
	})
}

// Charges for ended holds are forgotten like any other charge: the store has room again.
func TestPairIsForgottenOnceItsHoldsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m core.MemoryStore
		for i := range 100 {
			held := one(fmt.Sprint("held", i), core.MustParseLimits("9/m, 9/m;sliding-log")...)
			held[0].Hold = true
			admits(&m, held)
		}
		time.Sleep(time.Hour)
		for i := range 10_000 {
			admits(&m, one(fmt.Sprint(i), core.PerSecond(10)))
			time.Sleep(20 * time.Millisecond)
		}
		if stats := m.Stats(); stats.Held != 0 || stats.Keys > 2000 {
			t.Errorf("%+v, want only keys of the last seconds", stats)
		}
	})
}

// A handler that outlives its hold, because nobody renews it, settles late.
func TestLateSettlementCorrectsTheChargeOfAnEndedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{perHour("r", 9)}))
		d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 5, Hold: true})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if err := l.Settle(t.Context(), d, "r", 1); err != nil {
			t.Fatal(err)
		}
		r := httpGetPeek(t, l)
		if r.Remaining != 8 {
			t.Errorf("%+v, want 8 of 9 remaining", r)
		}
	})
}

func httpGetPeek(t *testing.T, l *core.Limiter) core.Result {
	t.Helper()
	d, err := l.Peek(get("/"))
	if err != nil || len(d.Results) != 1 {
		t.Fatal(d, err)
	}
	return d.Results[0]
}
