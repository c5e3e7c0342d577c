package redisx

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/compiled"
	"github.com/spillgate/spillgate/internal/lease"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// exchange returns an exchange for a claim.
func exchange(t *testing.T, c core.Claim, want int64, unused lease.Unused) lease.Exchange {
	t.Helper()
	limits := must.Get(compiled.Limits(&c))(t)
	return lease.Exchange{Pair: core.Pair{Rule: c.Rule, Key: c.Key}, Compiled: limits, Want: want, Unused: unused}
}

// returningJob returns a job that decides a claim and first returns unused requests.
func (s *Store) returningJob(t *testing.T, c core.Claim, unused lease.Unused) *job {
	j := s.jobOf(t, c)
	x := exchange(t, c, 0, unused)
	j.addUnused(s.decider.layout, &x)
	j.prepare(false)
	return j
}

// ahead charges n requests ahead, and returns how many the server allowed.
func (s *Store) ahead(t *testing.T, c core.Claim, n int64) (at, charged int64) {
	t.Helper()
	x := exchange(t, c, n, lease.Unused{})
	must.Do(t, (lender{s.decider}).chargeAhead(context.Background(), &x))
	return x.At, x.Charged
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
			why, limits string
			used        int
			want        int64
			charged     int64
		}{
			{"what is wanted", "100/d", 0, 20, 20},
			{"half", "100/d", 0, 51, 50},
			{"half, rounded down", "100/d", 51, 51, 24},
			{"one of two", "100/d", 98, 51, 1},
			{"none of one", "100/d", 99, 51, 0},
			{"none of none", "100/d", 100, 51, 0},
			{"the least of all limits", "100/d, 40/d;fixed-window", 0, 51, 20},
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

func TestALoanReportsWhatItLeaves(t *testing.T) {
	s := frozenStore(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d, 90/h")}
	x := exchange(t, c, 30, lease.Unused{})
	must.Do(t, (lender{s.decider}).chargeAhead(t.Context(), &x))
	if x.Left[0].Remaining != 70 || x.Left[1].Remaining != 60 || x.Charged != 30 {
		t.Errorf("got %+v, charged %d", x.Left, x.Charged)
	}
}

func TestNothingIsLentBesideABanOrAHold(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		held := core.Claim{Key: "held", Limits: core.MustParseLimits("100/d"), Hold: true, Cost: 90}
		s.mustRun(t, s.jobOf(t, held))
		held.Hold = false
		if _, charged := s.ahead(t, held, 30); charged != 5 {
			t.Errorf("charged %d of 10 that are not held, want 5", charged)
		}
		banned := core.Claim{Key: "banned", Limits: held.Limits}
		must.Do(t, s.Settle(context.Background(), []core.Settlement{{Key: "banned", Ban: time.Hour}}))
		if _, charged := s.ahead(t, banned, 30); charged != 0 {
			t.Errorf("charged %d of a banned pair, want 0", charged)
		}
	})
}

// The requests that a call returns are available to the decision of the same call.
func TestReturnsCountForTheirRequest(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, limits := range []string{"100/d", "100/d;fixed-window", "100/d, 100/d;fixed-window"} {
			c := core.Claim{Key: limits, Limits: core.MustParseLimits(limits)}
			at1, _ := s.ahead(t, c, 50)
			s.ahead(t, c, 25)
			b := lease.Unused{At: at1, Count: 15}
			c.Cost = 41
			denied := s.returningJob(t, c, b)
			s.mustRun(t, denied)
			if denied.admitted() || denied.usages[0].Remaining != 40 {
				t.Errorf("%s: 41 of 25 and 15 returned: %+v, want a denial and 40 remaining", limits, denied.usages)
			}
			c.Cost = 40
			b = lease.Unused{}
			admitted := s.returningJob(t, c, b)
			s.mustRun(t, admitted)
			if !admitted.admitted() || admitted.usages[0].Remaining != 0 {
				t.Errorf("%s: 40 of 40: %+v, want none remaining", limits, admitted.usages)
			}
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
		s.mustRun(t, s.returningJob(t, c, lease.Unused{At: at, Count: 50}))
		if n := s.remains(t, c); n != 39 {
			t.Errorf("%d remain of 100 after a reset and 61 requests, want 39", n)
		}
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
		for _, x := range []lease.Exchange{exchange(t, claims[0], 0, lease.Unused{At: atA, Count: 4}), exchange(t, claims[2], 0, lease.Unused{At: atB, Count: 6})} {
			j.addUnused(s.decider.layout, &x)
		}
		j.prepare(false)
		s.mustRun(t, j)
		for i, want := range []int64{93, 99, 85, 99} {
			if got := s.remains(t, claims[i]); got != want {
				t.Errorf("%s: %d remain for claim %d after a return, want %d", limits, got, i+1, want)
			}
		}
	}
}

// A failing hook fails the next script instead of sending it, if err is not nil. If meanwhile is not nil, the hook calls it
// before the next script.
type failing struct {
	err       error
	meanwhile func()
}

func (*failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f := h.meanwhile; f != nil && cmd.Name() == "evalsha" {
			h.meanwhile = nil
			f()
		}
		if err := h.err; err != nil && cmd.Name() == "evalsha" { // miniredis has no functions
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

// The outcome of a return is known if the server replied or the call was not sent. Otherwise the requests are lost: returning
// them twice would exceed the limit.
func TestOutcomesOfReturns(t *testing.T) {
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d"), Cost: 1}
	limits, _ := compiled.Limits(&c)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]struct {
		claims []core.Claim
		want   int64
	}{"a refill": {nil, 10}, "a return": {nil, 0}, "a decision": {[]core.Claim{c}, 0}} {
		for why, row := range map[string]struct {
			ctx     context.Context
			failure error
			want    lease.Outcome
		}{
			"answered":  {t.Context(), nil, lease.Returned},
			"not sent":  {over, nil, lease.NotReturned},
			"cut":       {t.Context(), errors.New("cut"), lease.Unknown},
			"OOM":       {t.Context(), errorReply("OOM"), lease.NotReturned},
			"read only": {t.Context(), errorReply("READONLY"), lease.NotReturned},
			"no right":  {t.Context(), errorReply("NOPERM"), lease.NotReturned},
		} {
			s, h := frozenStore(t), new(failing)
			s.decider.server.client.AddHook(h)
			at, n := s.ahead(t, c, 20)
			h.err = row.failure
			exchanges := []lease.Exchange{{Pair: core.Pair{Rule: "default", Key: "k"}, Compiled: limits, Want: call.want, Unused: lease.Unused{At: at, Count: n}}}
			_, _, err := lender{s.decider}.Lend(row.ctx, call.claims, exchanges, nil)
			if got := exchanges[0].Outcome; got != row.want || (err == nil) != (row.want == lease.Returned) {
				t.Errorf("%s, %s: %d, %v, want %d", name, why, got, err, row.want)
			}
			if got, want := s.remains(t, c), int64(80); row.want != lease.Returned && got != want || row.want == lease.Returned && got < 89 {
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
				if _, err := s.Take(t.Context(), []core.Claim{c}, nil); err != nil {
					t.Error(err)
				}
				redistest.Wait(t, "the refills", func() bool { return s.RefillsInFlight() == 0 })
				_, leased = s.TakeLocal([]core.Claim{peek}, nil)
			}
		}
		if err := end(s); err != nil || !leased {
			t.Fatalf("%s: %v, leased meanwhile: %v", name, err, leased)
		}
		if r, ok := s.TakeLocal([]core.Claim{peek}, nil); ok {
			t.Errorf("after %s, a lease from before decided: %+v", name, r)
		}
	}
}

func TestLeasesAreLookedUpOnlyIfThereAreAny(t *testing.T) {
	s, c := frozenStore(t), core.Claim{Key: "k", Limits: core.MustParseLimits("100/d"), Cost: 1, Lease: 10 * time.Second}
	other := c
	other.Lease = 0
	if s.leasesFor([]core.Claim{other}) != nil {
		t.Error("before the first claim with a lease")
	}
	table := s.leasesFor([]core.Claim{other, c})
	if table == nil || s.leasesFor([]core.Claim{c}) != table {
		t.Fatal("a claim with a lease finds no table, or another one")
	}
	if s.leasesFor([]core.Claim{other}) != nil {
		t.Error("nothing is leased")
	}
	for range 3 {
		must.Get(s.Take(t.Context(), []core.Claim{c}, nil))(t)
	}
	if s.leasesFor([]core.Claim{other}) != table {
		t.Error("what is leased is not looked for")
	}
}
