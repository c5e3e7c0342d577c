package redisx

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/lease"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// refundOf returns the refund of so many requests of a claim that were charged ahead at an instant: none if n is 0.
func refundOf(c core.Claim, at, n int64) []core.Settlement {
	if n == 0 {
		return nil
	}
	return []core.Settlement{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: time.UnixMicro(at), Cost: int(n)}}
}

// returningJob returns a job that decides a claim and first refunds requests.
func (s *Store) returningJob(t *testing.T, c core.Claim, at, n int64) *job {
	j := s.jobOf(t, c)
	j.addSettlements(refundOf(c, at, n))
	j.prepare(false)
	return j
}

// ahead charges n requests ahead, and returns how many the server allowed.
func (s *Store) ahead(t *testing.T, c core.Claim, n int64) (at, charged int64) {
	t.Helper()
	c.Cost = int(n)
	charged, left, err := s.decider.Lend(context.Background(), c, nil)
	must.Do(t, err)
	return left[0].At.UnixMicro(), charged
}

func (s *Store) mustRun(t *testing.T, jobs ...*job) {
	t.Helper()
	must.Do(t, s.decider.server.run(context.Background(), jobs))
	for _, j := range jobs {
		must.Do(t, j.read())
	}
}

// remains returns how many requests remain for the first limit of a claim.
func (s *Store) remains(t *testing.T, c core.Claim) int64 {
	t.Helper()
	c.Peek = true
	j := s.jobOf(t, c)
	s.mustRun(t, j)
	return j.usages[0].Remaining
}

// servers runs f over miniredis and over a Redis whose clocks stand still as far as limits per day can see.
func servers(t *testing.T, f func(*testing.T, *Store)) {
	t.Run("miniredis", func(t *testing.T) { f(t, frozenStore(t)) })
	t.Run("redis", func(t *testing.T) {
		s := New(redistest.Start(t).Client(t), Options{Prefix: "p"})
		s.SetClock(stopped)
		f(t, s)
	})
}

func TestALoanIsAtMostHalfOfWhatRemains(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, row := range []struct {
			why, limits   string
			used          int
			want, charged int64
		}{
			{"what is wanted", "100/d", 0, 20, 20},
			{"half", "100/d", 0, 51, 50},
			{"half, rounded down", "100/d", 51, 51, 24},
			{"one of two", "100/d", 98, 51, 1},
			{"none of one", "100/d", 99, 51, 0},
			{"none of none", "100/d", 100, 51, 0},
			{"the least of all limits", "100/d, 40/d;fixed-window", 0, 51, 20},
			{"the least of all limits, in another order", "40/d;fixed-window, 100/d", 0, 51, 20},
			{"a window", "100/d;fixed-window", 51, 51, 24},
			{"a burst", "5/d;burst=30", 0, 51, 15},
			{"coarse ticks", "1000000/3650d", 999_990, 51, 5},
			{"a rate of 0", "0/d", 0, 51, 0},
		} {
			c := core.Claim{Key: row.why, Limits: core.MustParseLimits(row.limits), Cost: row.used}
			if row.used > 0 {
				s.mustRun(t, s.jobOf(t, c))
			}
			c.Cost = 0
			before := s.remains(t, c)
			_, charged := s.ahead(t, c, row.want)
			if after := s.remains(t, c); charged != row.charged || before-after != charged {
				t.Errorf("%s: charged ahead %d of %d, which took %d, want %d", row.why, charged, before, before-after, row.charged)
			}
		}
	})
}

// If nothing can be charged ahead, the server stores nothing. In particular, a bucket keeps the instant since when it has held one
// request, which a refund needs.
func TestALoanOfNothingChangesNothing(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		c := core.Claim{Key: "old", Limits: core.MustParseLimits("2/h"), Cost: 1}
		s.mustRun(t, s.jobOf(t, c))
		s.Shift(3 * time.Minute)
		second := s.jobOf(t, c)
		s.mustRun(t, second)
		s.Shift(51 * time.Minute)
		_, charged := s.ahead(t, c, 10)
		must.Do(t, s.Settle(t.Context(), refundOf(c, second.at, 1)))
		expect.True(t, charged == 0 && s.remains(t, c) == 2, "charged %d of one that remains, and a refund leaves %d", charged, s.remains(t, c))
		c = core.Claim{Key: "new", Limits: core.MustParseLimits("1/h;fixed-window")}
		_, charged = s.ahead(t, c, 10)
		stored := s.decider.server.client.Exists(t.Context(), s.decider.layout.key("", "new")).Val()
		expect.True(t, charged == 0 && stored == 0, "charged %d of one, and %d keys are stored", charged, stored)
	})
}

func TestALoanReportsWhatItLeaves(t *testing.T) {
	s := frozenStore(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d, 90/h")}
	c.Cost = 30
	charged, left, err := s.decider.Lend(t.Context(), c, nil)
	expect.True(t, err == nil && left[0].Remaining == 70 && left[1].Remaining == 60 && charged == 30,
		"got %+v, charged %d, %v", left, charged, err)
}

func TestNothingIsLentBesideABanOrAHold(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		held := core.Claim{Key: "held", Limits: core.MustParseLimits("100/d"), Hold: true, Cost: 90}
		s.mustRun(t, s.jobOf(t, held))
		held.Hold = false
		_, charged := s.ahead(t, held, 30)
		expect.Equal(t, charged, 5, "charged of 10 that are not held")
		banned := core.Claim{Key: "banned", Limits: held.Limits}
		must.Do(t, s.Settle(context.Background(), []core.Settlement{{Key: "banned", Ban: time.Hour}}))
		_, charged = s.ahead(t, banned, 30)
		expect.Equal(t, charged, 0, "charged of a banned pair")
	})
}

// The requests that a call returns are available to the decision of the same call.
func TestReturnsCountForTheirRequest(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, limits := range []string{"100/d", "100/d;fixed-window", "100/d, 100/d;fixed-window"} {
			c := core.Claim{Key: limits, Limits: core.MustParseLimits(limits)}
			at1, _ := s.ahead(t, c, 50)
			s.ahead(t, c, 25)
			c.Cost = 41
			denied := s.returningJob(t, c, at1, 15)
			s.mustRun(t, denied)
			expect.True(t, !denied.admitted() && denied.usages[0].Remaining == 40,
				"%s: 41 of 25 and 15 returned: %+v, want a denial and 40 remaining", limits, denied.usages)
			c.Cost = 40
			admitted := s.returningJob(t, c, 0, 0)
			s.mustRun(t, admitted)
			expect.True(t, admitted.admitted() && admitted.usages[0].Remaining == 0,
				"%s: 40 of 40: %+v, want none remaining", limits, admitted.usages)
		}
	})
}

func TestLeasedRequestsFromBeforeAResetAreNotReturned(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d")}
		at, _ := s.ahead(t, c, 50)
		s.Shift(time.Millisecond)
		must.Do(t, s.Reset(context.Background(), []core.Pair{{Key: c.Key}}))
		s.Shift(time.Millisecond)
		c.Cost = 60
		s.mustRun(t, s.jobOf(t, c))
		c.Cost = 1
		s.mustRun(t, s.returningJob(t, c, at, 50))
		expect.Equal(t, s.remains(t, c), 39, "remaining of 100 after a reset and 61 requests")
	})
}

// Each claim of a request may return the unused requests of its own lease.
func TestEachClaimOfARequestReturnsByItself(t *testing.T) {
	for _, limits := range []string{"100/d", "100/d;fixed-window"} {
		s, one := frozenStore(t), core.MustParseLimits(limits)
		claims := []core.Claim{
			{Key: "a", Limits: core.MustParseLimits(limits + ", 90/h")}, {Key: "other", Limits: one},
			{Key: "b", Limits: core.MustParseLimits(limits + ", 80/h")}, {Key: "rest", Limits: one},
		}
		atA, _ := s.ahead(t, claims[0], 10)
		atB, _ := s.ahead(t, claims[2], 20)
		j := s.jobOf(t, claims...)
		j.addSettlements(append(refundOf(claims[0], atA, 4), refundOf(claims[2], atB, 6)...))
		j.prepare(false)
		s.mustRun(t, j)
		for i, want := range []int64{93, 99, 85, 99} {
			expect.Equal(t, s.remains(t, claims[i]), want, "%s: remaining for claim %d after a return", limits, i+1)
		}
	}
}

// A failing hook fails the next script instead of sending it, if err is not nil. If meanwhile is not nil, the hook calls it
// before the next script.
type failing struct {
	redistest.Hook
	err       error
	meanwhile func()
}

func (h *failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" { // miniredis has no functions
			return next(ctx, cmd)
		}
		if f := h.meanwhile; f != nil {
			h.meanwhile = nil
			f()
		}
		if err := h.err; err != nil {
			h.err = nil
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// An errorReply is the reply of a server that does not execute a command.
type errorReply string

func (e errorReply) Error() string { return string(e) }
func (errorReply) RedisError()     {}

// The outcome of a return is known if the server replied, but not by an error of the script, or the call was not sent. Otherwise the
// requests are lost: returning them twice would exceed the limit.
func TestOutcomesOfReturns(t *testing.T) {
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d"), Cost: 1}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(context.Context, *decider, []core.Settlement) error{
		"a refill": func(ctx context.Context, d *decider, unused []core.Settlement) error {
			loan := c
			loan.Cost = 10
			_, _, err := d.Lend(ctx, loan, unused)
			return err
		},
		"a return": func(ctx context.Context, d *decider, unused []core.Settlement) error { return d.Refund(ctx, unused)[0] },
		"a decision": func(ctx context.Context, d *decider, unused []core.Settlement) error {
			_, _, err := d.Take(ctx, []core.Claim{c}, unused, nil)
			return err
		},
	} {
		for why, row := range map[string]struct {
			ctx         context.Context
			failure     error
			notRefunded bool
		}{
			"answered":  {t.Context(), nil, false},
			"not sent":  {over, nil, true},
			"cut":       {t.Context(), errors.New("cut"), false},
			"OOM":       {t.Context(), errorReply("OOM"), true},
			"read only": {t.Context(), errorReply("READONLY"), true},
			"no right":  {t.Context(), errorReply("NOPERM"), true},
			"half done": {t.Context(), errorReply("ERR can't run this command script: x, on @user_script:602."), false},
		} {
			s, h := frozenStore(t), new(failing)
			s.decider.server.client.AddHook(h)
			at, n := s.ahead(t, c, 20)
			h.err = row.failure
			err := call(row.ctx, s.decider, refundOf(c, at, n))
			if got := errors.As(err, new(lease.NotRefunded)); got != row.notRefunded || (err == nil) != (why == "answered") {
				t.Errorf("%s, %s: %v, known that nothing was refunded: %v, want %v", name, why, err, got, row.notRefunded)
			}
			if got, want := s.remains(t, c), int64(80); err != nil && got != want || err == nil && got < 89 {
				t.Errorf("%s, %s: %d remain", name, why, got)
			}
		}
	}
}

// Requests charged ahead during a reset, a ban or a grant may have been charged before it, so they are not used after it.
func TestResetsBansAndGrantsEndLeasesMadeMeanwhile(t *testing.T) {
	c := core.Claim{Rule: "r", Key: "k", Limits: core.MustParseLimits("1000/d"), Cost: 1, Lease: 10 * time.Second}
	for name, end := range map[string]func(*Store) error{
		"a reset": func(s *Store) error { return s.Reset(t.Context(), []core.Pair{{Rule: c.Rule, Key: c.Key}}) },
		"a ban": func(s *Store) error {
			return s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Ban: time.Hour}})
		},
		"a grant": func(s *Store) error {
			return s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Grant: 5}})
		},
	} {
		s, h := frozenStore(t), new(failing)
		s.decider.server.client.AddHook(h)
		peek, leased := c, false
		peek.Peek = true
		h.meanwhile = func() {
			for i := 0; i < 100 && !leased; i++ {
				expect.NoError(t, expect.ErrorOf(s.Take(t.Context(), []core.Claim{c}, nil)), "Take")
				redistest.Wait(t, "the refills", func() bool { return s.RefillsInFlight() == 0 })
				_, leased = s.TakeLocal([]core.Claim{peek}, nil)
			}
		}
		err := end(s)
		must.True(t, err == nil && leased, "%s: %v, leased meanwhile: %v", name, err, leased)
		r, ok := s.TakeLocal([]core.Claim{peek}, nil)
		expect.True(t, !ok, "after %s, a lease from before decided: %+v", name, r)
	}
}

func TestLeasesAreLookedUpOnlyIfThereAreAny(t *testing.T) {
	s, c := frozenStore(t), core.Claim{Key: "k", Limits: core.MustParseLimits("100/d"), Cost: 1, Lease: 10 * time.Second}
	other := c
	other.Lease = 0
	expect.True(t, !s.leases.Concerns([]core.Claim{other}), "leases concern a claim without one before the first claim with a lease")
	expect.True(t, s.leases.Concerns([]core.Claim{other, c}), "leases do not concern a claim with a lease")
	for range 3 {
		must.Get(s.Take(t.Context(), []core.Claim{c}, nil))(t)
	}
	expect.True(t, s.leases.Concerns([]core.Claim{other}), "what is leased is not looked for")
}
