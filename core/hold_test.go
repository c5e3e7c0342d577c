package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

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
			expect.Equal(t, ran, 5, "failure mode %d: failed logins ran", onFailure)
			d, err := l.Take(t.Context(), core.Claim{Rule: "login", Key: "k", Peek: true})
			expect.True(t, err == nil && d.RetryAfter() >= 37*time.Minute && d.RetryAfter() <= 39*time.Minute,
				"failure mode %d: %+v, %v, want the ban to last for 37 to 39 minutes more", onFailure, d, err)
		})
	}
}

// Other keys come and go, so that the store sweeps before the hold ends and while its charge drains.
func TestSweepsKeepHoldsAndTheirCharges(t *testing.T) {
	testpass.Thorough(t)
	synctest.Test(t, func(t *testing.T) {
		m := core.MemoryStore{MaxKeys: 40}
		held := one("held", core.MustParseLimits("9/d, 9/d;fixed-window, 9/d;sliding-window, 9/d;sliding-log, 9/s;ban=48h, 9 at once")...)
		held[0].Hold, held[0].Cost = true, 9
		must.True(t, admits(&m, held), "not held")
		for i := range 200_000 {
			admits(&m, one(fmt.Sprint(i), core.PerSecond(10)))
			time.Sleep(100 * time.Millisecond)
		}
		held[0].Hold, held[0].Peek, held[0].Cost = false, true, 1
		results := must.Get(m.Take(context.Background(), held, nil))(t)
		for i, left := range []int{2, 0, 0, 0, 0, 9} {
			expect.Equal(t, results[i].Remaining, left, "%v: remaining", results[i].Limit)
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
		stats := m.Stats()
		expect.True(t, stats.Held == 0 && stats.Keys <= 2000, "%+v, want only keys of the last seconds", stats)
	})
}

// A handler may run for longer than its hold if the hold is not renewed. It settles late.
func TestLateSettlementCorrectsTheChargeOfAnEndedHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{perHour("r", 9)}))
		d := must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 5, Hold: true}))(t)
		time.Sleep(2 * time.Minute)
		must.Do(t, l.Settle(t.Context(), d, "r", 1))
		expect.Equal(t, remaining(t, l, "r"), 8, "of 9 remaining")
	})
}

func TestHealthReportsHeldClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(core.MemoryStore)
		l := core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: core.MustParseLimits("20 at once")}}, core.WithStore(store)))
		want := func(n int, why string) {
			t.Helper()
			if h := l.StoreHealth(); h.Held != n || store.Stats().Held != n {
				t.Errorf("%s: got %d and %d held, want %d", why, h.Held, store.Stats().Held, n)
			}
		}
		want(0, "at first")
		var decisions []core.Decision
		for _, key := range []string{"a", "a", "b", "c"} {
			decisions = append(decisions, must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: key, Hold: true}))(t))
		}
		want(4, "four claims of three keys")
		must.Do(t, l.Settle(t.Context(), decisions[0], "r", 1))
		want(3, "one is settled")
		time.Sleep(59 * time.Second)
		must.Do(t, l.Renew(t.Context(), decisions[2]))
		want(3, "before they expire")
		time.Sleep(7 * time.Second)
		want(1, "all but the renewed one have expired, and nobody has asked for their keys since")
		time.Sleep(time.Minute)
		want(0, "the last one has expired")
	})
}

func TestHoldThatPairsShareCountsUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &core.MemoryStore{MaxKeys: 1}
		l := core.Must(core.New([]core.Rule{{Name: "r", Key: keyK, Limits: core.MustParseLimits("20 at once")}}, core.WithStore(store)))
		must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: "first", Limits: core.MustParseLimits("1/s")}))(t)
		var decisions []core.Decision
		for range 2 { // when the first key is idle, the second one gets its own state
			decisions = append(decisions, must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: "second", Hold: true}))(t))
			time.Sleep(2 * time.Second)
		}
		for _, d := range decisions {
			must.Do(t, l.Refund(t.Context(), d))
		}
		expect.Equal(t, store.Stats().Held, 1, "held, because the hold that was shared counts against other keys")
		time.Sleep(66 * time.Second)
		expect.Equal(t, store.Stats().Held, 0, "held after its end")
	})
}

func TestRequestDeniedByAtOnceChargesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("100/m;fixed-window, 1 at once", nil)
		a, _ := l.Guard(context.Background(), get("/"), nil)
		expect.True(t, !handle(l, 0, 200), "a second request ran beside the first")
		a.End()
		expect.True(t, handle(l, 0, 200), "a request was denied after the first had ended")
		d, err := l.Peek(get("/"))
		expect.True(t, err == nil && d.Results[0].Remaining == 98 && d.Allowed, "got %+v, %v; want 2 of 100 used", d, err)
	})
}

func TestHoldsOfLongRequestsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(settler)
		l := withStore(s, []core.Rule{final("r", 5, core.Failures), perHour("plain", 5)})
		serve(t, l, func(_ *http.Request, g *core.Guard) {
			begun := time.Now()
			must.Do(t, l.Settle(t.Context(), g.Decision(), "plain", 1))
			time.Sleep(20*time.Second - 1)
			s.want(t, "charged plain 1→1")
			for i := range 3 {
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				must.Equal(t, len(s.finals()), i+2, "how often renewed after %v", time.Since(begun))
				time.Sleep(20*time.Second - 1)
			}
			g.Settle(core.Outcome{Status: 200})
		})
		renewed := s.settled[3].At // as the store set it
		end := s.settled[4]
		expect.True(t, !end.Renew && end.At.Equal(renewed) && end.Final == 0,
			"settled %+v, want the instant of the last renewal, %v", end, renewed)
		time.Sleep(time.Hour)
		s.want(t, "charged plain 1→1", "renew r", "renew r", "renew r", "r 1→0")
	})
}

func TestEndWaitsForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settler{takes: 10 * time.Millisecond}
		serve(t, withStore(s, []core.Rule{final("r", 5, core.Failures)}), func(_ *http.Request, g *core.Guard) {
			time.Sleep(20*time.Second + 5*time.Millisecond) // a renewal is under way
			g.Settle(core.Outcome{Status: 200})
		})
		s.want(t, "renew r", "r 1→0")
		expect.True(t, s.settled[1].At.Equal(s.settled[0].At), "settled at %v, want the instant of the renewal, %v", s.settled[1].At, s.settled[0].At)
		time.Sleep(time.Hour)
		s.want(t, "renew r", "r 1→0")
	})
}

func TestRenewalIsTriedAgain(t *testing.T) {
	for _, err := range []error{errUnreachable, errNoReturn} {
		synctest.Test(t, func(t *testing.T) {
			s := &settler{err: err}
			serve(t, withStore(s, []core.Rule{final("r", 5, core.Failures)}), func(_ *http.Request, g *core.Guard) {
				begun := time.Now()
				time.Sleep(21 * time.Second)
				s.mu.Lock()
				s.err = nil
				s.mu.Unlock()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				s.want(t, "renew r", "renew r")
				expect.True(t, s.settled[1].At.Equal(begun.Add(40*time.Second)), "%v: renewed at %v", err, s.settled[1].At)
				g.Settle(core.Outcome{Status: 200})
			})
		})
	}
}

func TestRenewWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(settler)
		l := withStore(s, []core.Rule{final("r", 50, core.Failures)})
		d := must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Hold: true}))(t)
		begun := time.Now()
		time.Sleep(time.Second)
		s.err = errUnreachable
		wantError(t, l.Renew(t.Context(), d), core.ErrUnavailable, "connection lost")
		s.err = nil
		if err := l.Settle(t.Context(), d, "", 0); err != nil || !s.settled[1].At.Equal(begun) {
			t.Errorf("%v; settled at %v, want the instant of the hold, %v", err, s.settled[1].At, begun)
		}
	})
}

func TestJobsHoldRenewAndSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := new(settler), new(recorder)
		l := withStore(s, []core.Rule{final("r", 50, core.Failures), perHour("plain", 50)}, core.WithObserver(seen.observe))
		d := must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 7, Hold: true}, core.Claim{Rule: "plain", Key: "k", Cost: 3},
			core.Claim{Rule: "plain", Key: "k", Peek: true}))(t)
		time.Sleep(time.Hour) // nothing renews it by itself
		s.want(t)
		err := l.Renew(t.Context(), d)
		must.True(t, err == nil && s.settled[0].At.Equal(time.Now()), "%v; renewed %+v", err, s.settled)
		must.Do(t, errors.Join(l.Settle(t.Context(), d, "r", 9), l.Settle(t.Context(), d, "r", 1), l.Renew(t.Context(), d)))
		must.Do(t, l.Settle(t.Context(), d, "", 0))
		s.want(t, "renew r", "r 7→9", "charged plain 3→0")
		expect.True(t, s.settled[1].At.Equal(time.Now()), "settled at %v, want the instant of the renewal", s.settled[1].At)
		expect.True(t, len(seen.seen) == 2 && seen.seen[1].Outcome != nil && seen.seen[1].Outcome.Cost == 7 &&
			seen.seen[1].Charged == 9 && seen.seen[1].Request == nil,
			"observers saw %+v, want the decision and the settlement of what was held", seen.seen)
	})
}

func TestBan(t *testing.T) {
	s, fallback := new(settler), new(settler)
	l := withStore(s, []core.Rule{perHour("login", 5)}, core.WithFallback(fallback))
	must.Do(t, l.Ban(t.Context(), "login", "k", time.Hour-1)) // in whole microseconds, rounded up
	const longest = 10 * 365 * 24 * time.Hour
	must.Do(t, l.Ban(t.Context(), "login", "k", longest))
	s.want(t, "ban login 1h0m0s", "ban login 87600h0m0s")
	fallback.want(t, "ban login 1h0m0s", "ban login 87600h0m0s")
	for _, row := range []struct {
		rule, key string
		d         time.Duration
		kind      error
		want      string
	}{
		{"typo", "k", time.Hour, core.ErrInvalid, `spillgate: ban: there is no rule "typo"`},
		{"login", "", time.Hour, core.ErrNoKey, `spillgate: ban of rule "login": no key`},
		{"login", "k", 0, core.ErrInvalid, "spillgate: ban: duration must be more than 0 and at most"},
		{"login", "k", -1, core.ErrInvalid, "got -1ns"},
		{"login", "k", 11 * 365 * 24 * time.Hour, core.ErrInvalid, "got 96360h0m0s"},
		{"login", "k", longest + 1, core.ErrInvalid, "got 87600h0m0.000000001s"},
	} {
		wantError(t, l.Ban(t.Context(), row.rule, row.key, row.d), row.kind, row.want)
	}
	s.err = errUnreachable
	err := l.Ban(t.Context(), "login", "other", time.Hour)
	expect.True(t, errors.Is(err, core.ErrUnavailable) && strings.HasPrefix(err.Error(), "spillgate: store unavailable: "), "got %v", err)
	fallback.want(t, "ban login 1h0m0s", "ban login 87600h0m0s", "ban login 1h0m0s")
}

func TestBanFollowsTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory("5/10m;ban=1h", core.Failures)
		for range 5 {
			must.True(t, handle(l, time.Second, 401), "one of five was denied")
		}
		for range 1000 {
			time.Sleep(time.Second)
			must.True(t, !handle(l, 0, 401), "a request was admitted during the ban")
		}
		time.Sleep(time.Hour - 1000*time.Second - time.Microsecond)
		expect.True(t, !handle(l, 0, 401), "a request was admitted 1µs before the end of the ban")
		time.Sleep(time.Microsecond)
		expect.Equal(t, parallel(l, 10, time.Second, 401), 1, "were admitted after the ban")
		time.Sleep(time.Hour - time.Microsecond)
		expect.True(t, !handle(l, 0, 401), "the failure after the ban began no other one")
		time.Sleep(10*time.Minute + time.Microsecond)
		expect.Equal(t, parallel(l, 10, time.Second, 401), 5, "were admitted a period after the second ban")
	})
}
