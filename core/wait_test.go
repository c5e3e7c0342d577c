package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// waiting is a rule for key "k" whose requests wait.
func waiting(limits string, most time.Duration) core.Rule {
	return core.Rule{Name: "r", Key: constKey, Limits: core.MustParseLimits(limits), MaxWait: most}
}

var job = core.Claim{Rule: "r", Key: "k"}

func TestMaxWaitMistakes(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		why, limits string
		wait        time.Duration
		change      func(*core.Rule)
		want        string // empty: none
	}{
		{"no wait", "5/m;sliding-log", 0, nil, ""},
		{"several buckets", "5/m, 7/h;burst=3", time.Hour, nil, ""},
		{"the shortest", "5/m", 1, nil, ""},
		{"negative", "5/m", -s, nil, `rule "r": max wait must be between 0 and 1h0m0s, got -1s`},
		{"too long", "5/m", time.Hour + 1, nil, `rule "r": max wait must be between 0 and 1h0m0s, got 1h0m0.000000001s`},
		{"with CostAfter", "5/m", s, func(r *core.Rule) { r.CostAfter = core.Failures }, `max wait must be 0 for a rule with CostAfter, which holds its cost, got 1s`},
		{"with a lease", "5/m", s, func(r *core.Rule) { r.Lease = s }, `max wait must be 0 for a rule with a lease, got 1s`},
		{"a fixed window", "5/m, 7/h;fixed-window", s, nil, `max wait 1s needs token buckets without a ban, got limit 2, 7/1h;fixed-window`},
		{"a fixed window first", "7/h;fixed-window, 5/m", s, nil, `got limit 1, 7/1h;fixed-window`},
		{"a sliding window", "5/m;sliding-window", s, nil, `got limit 1, 5/1m;sliding-window`},
		{"a sliding log", "5/m;sliding-log", s, nil, `got limit 1, 5/1m;sliding-log`},
		{"requests in flight", "5 at once", s, nil, `got limit 1, 5 at once`},
		{"a ban", "5/m;ban=1h", s, nil, `got limit 1, 5/1m;ban=1h`},
		{"a calendar", "5/month", s, nil, `got limit 1, 5/month`},
	} {
		t.Run(tt.why, func(t *testing.T) {
			r := waiting(tt.limits, tt.wait)
			if tt.change != nil {
				tt.change(&r)
			}
			wantMistake(t, r, tt.want)
		})
	}
}

// TestLimitsOfARequestThatCannotWait checks that a request fails if its tier or override has limits that cannot make requests wait.
func TestLimitsOfARequestThatCannotWait(t *testing.T) {
	for limit, want := range map[core.Limit]string{
		core.PerMinute(5).Using(core.FixedWindow): "max wait 1s needs token buckets without a ban, got limit 1, 5/1m;fixed-window",
		core.PerMinute(-5):                        "limit 1: rate must be between",
	} {
		tier, override := waiting("5/m", time.Second), waiting("5/m", time.Second)
		tier.Tier = func(*http.Request) []core.Limit { return []core.Limit{limit} }
		override.Override = func(string) []core.Limit { return []core.Limit{limit} }
		_, err := core.Must(core.New([]core.Rule{tier})).Check(get("/"))
		wantError(t, err, core.ErrInvalid, `rule "r": tier: `+want)
		l := core.Must(core.New([]core.Rule{override}))
		_, err = l.Check(get("/"))
		wantError(t, err, core.ErrInvalid, `rule "r": override: `+want)
		_, err = l.Take(t.Context(), job)
		wantError(t, err, core.ErrInvalid, `rule "r": override: `+want)
	}
}

func TestClaimMaxWaitMistakes(t *testing.T) {
	l := core.Must(core.New([]core.Rule{waiting("5/m", time.Second), named("other")}))
	perMinute := core.MustParseLimits("5/m")
	for want, c := range map[string]core.Claim{
		"max wait must be between 0 and 1h0m0s, got -1ns":                              {Rule: "other", Key: "k", Limits: perMinute, MaxWait: -1},
		"max wait must be between 0 and 1h0m0s, got 1h0m0.000000001s":                  {Rule: "r", Key: "k", Limits: perMinute, MaxWait: time.Hour + 1},
		"max wait must be 0 for a claim that is held, got 1s":                          {Rule: "r", Key: "k", Limits: perMinute, MaxWait: time.Second, Hold: true},
		"max wait must be 0 for a claim with a lease, got 1s":                          {Rule: "r", Key: "k", Limits: perMinute, MaxWait: time.Second, Lease: time.Second},
		"max wait must be 0 for a claim with a lease, got 2s":                          {Rule: "r", Key: "k", Limits: perMinute, MaxWait: 2 * time.Second, Lease: time.Nanosecond},
		"max wait 1s needs token buckets without a ban, got limit 1, 5/1m;sliding-log": {Rule: "r", Key: "k", Limits: core.MustParseLimits("5/m;sliding-log"), MaxWait: time.Second},
	} {
		wantError(t, c.Validate(), core.ErrInvalid, want)
		wantError(t, expect.ErrorOf(l.Take(t.Context(), c)), core.ErrInvalid, want)
		s := core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, MaxWait: c.MaxWait, Held: c.Hold, Lease: c.Lease}
		wantError(t, s.Validate(), core.ErrInvalid, want)
	}
	_, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Hold: true})
	wantError(t, err, core.ErrInvalid, "max wait must be 0 for a claim that is held, got 1s")
	s := core.Settlement{Rule: "r", Key: "k", Limits: perMinute, MaxWait: time.Second, Wait: 2 * time.Second}
	wantError(t, s.Validate(), core.ErrInvalid, "wait must be between 0 and the max wait 1s, got 2s")
}

// TestRequestsWaitForTheirTurn checks that requests get consecutive turns in the order of their decisions, and that RetryAfter
// of a denial says when the same request may wait.
func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", 250*time.Millisecond)}))
		for i, want := range []time.Duration{0, 100, 200} {
			want *= time.Millisecond
			d, err := l.Take(t.Context(), job)
			expect.True(t, err == nil && d.Allowed && d.Wait == want && d.Results[0].Wait == want && d.RetryAfter() == 0,
				"request %d: %+v, %v; want a wait of %v", i, d, err, want)
		}
		for range 3 {
			d, _ := l.Take(t.Context(), job)
			expect.True(t, !d.Allowed && d.Wait == 0 && d.RetryAfter() == 50*time.Millisecond, "%+v, want a denial for 50ms", d)
		}
		time.Sleep(50 * time.Millisecond)
		longer := job
		longer.MaxWait = time.Second
		for i, want := range []time.Duration{250, 350} {
			c := []core.Claim{job, longer}[i]
			d, _ := l.Take(t.Context(), c)
			expect.True(t, d.Allowed && d.Wait == want*time.Millisecond, "%+v, want a wait of %dms", d, want)
		}
	})
}

func TestPeekSaysHowLongToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", 150*time.Millisecond)}))
		for range 3 {
			p, _ := l.Peek(get("/"))
			d, _ := l.Check(get("/"))
			expect.True(t, p.Allowed == d.Allowed && p.Wait == d.Wait && p.RetryAfter() == d.RetryAfter(), "peek said %+v, check %+v", p, d)
		}
	})
}

// TestSeveralRulesWait checks that a request waits for the latest of its turns, and books nothing if a rule denies it.
func TestSeveralRulesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := waiting("1/s", 10*time.Second)
		slow.Name, slow.Limits = "slow", core.MustParseLimits("1/s, 30/m;burst=1")
		strict := named("strict")
		strict.Limits = core.MustParseLimits("3/h")
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Second), slow, strict}))
		for i, want := range [][]time.Duration{{0, 0, 0, 0}, {100, 1000, 2000, 0}, {200, 2000, 4000, 0}} {
			d, err := l.Check(get("/"))
			must.True(t, err == nil && d.Allowed && d.Wait == want[2]*time.Millisecond, "request %d: %+v, %v", i, d, err)
			for j, r := range d.Results {
				expect.True(t, r.Wait == want[j]*time.Millisecond, "request %d, result %d waits %v, want %dms", i, j, r.Wait, want[j])
			}
		}
		d, _ := l.Check(get("/"))
		expect.True(t, !d.Allowed && d.Wait == 0, "%+v, want a denial by the strict rule", d)
		d, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
		expect.Equal(t, d.Wait, 300*time.Millisecond, "waits (300ms: the denied request has booked nothing)")
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Minute)}))
		begun := time.Now()
		var mu sync.Mutex
		var went []time.Duration
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				d, err := l.Wait(t.Context(), job)
				mu.Lock()
				defer mu.Unlock()
				if went = append(went, time.Since(begun)); err != nil || !d.Allowed || d.At.Add(d.Wait).Sub(begun) != time.Since(begun) {
					t.Errorf("%+v, %v after %v", d, err, time.Since(begun))
				}
			})
		}
		all.Wait()
		slices.Sort(went)
		for i, at := range went {
			expect.Equal(t, at, time.Duration(i)*100*time.Millisecond, "request %d went after", i)
		}
	})
}

// TestWaitThatContextEnds checks Wait with contexts that have ended, that end before the turn, or whose deadline is before the turn.
func TestWaitThatContextEnds(t *testing.T) {
	const ms = time.Millisecond
	deadline := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	canceled := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			if d == 0 {
				cancel()
			} else {
				time.AfterFunc(d, cancel)
			}
			return ctx, cancel
		}
	}
	for why, row := range map[string]struct {
		ctx   func(context.Context) (context.Context, context.CancelFunc)
		taken int           // requests before this one
		err   error         // of Wait
		after time.Duration // when Wait returns
		next  time.Duration // for how long the next request waits from then
	}{
		"canceled while it waits":          {canceled(150 * ms), 3, context.Canceled, 150 * ms, 150 * ms},
		"a deadline before its turn":       {deadline(299 * ms), 3, context.DeadlineExceeded, 0, 300 * ms},
		"a deadline at its turn":           {deadline(300 * ms), 3, context.DeadlineExceeded, 0, 300 * ms},
		"a deadline after its turn":        {deadline(301 * ms), 3, nil, 300 * ms, 100 * ms},
		"ended, and it would have to wait": {canceled(0), 3, context.Canceled, 0, 300 * ms},
		"ended, and nothing to wait for":   {canceled(0), 0, context.Canceled, 0, 0},
	} {
		t.Run(why, inBubble(func(t *testing.T) {
			s := new(faulty)
			l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Minute)}, core.WithStore(s)))
			for range row.taken {
				_, _ = l.Take(t.Context(), job)
			}
			begun := time.Now()
			ctx, cancel := row.ctx(t.Context())
			defer cancel()
			ended := ctx.Err() != nil
			d, err := l.Wait(ctx, job)
			if err != row.err || time.Since(begun) != row.after || d.Allowed != (err == nil) || ended && int(s.calls.Load()) != row.taken {
				t.Errorf("%+v, %v after %v, want %v after %v, and no call of the store if the context had ended", d, err, time.Since(begun), row.err, row.after)
			}
			d, _ = l.Take(t.Context(), job)
			expect.Equal(t, d.Wait, row.next, "the next request waits")
		}))
	}
}

// TestContextEndsInTheStore checks that Wait gives back what was charged if the context ends while the store decides.
func TestContextEndsInTheStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &hooked{take: cancel}
	l := core.Must(core.New([]core.Rule{waiting("1/2h", time.Hour)}, core.WithStore(s)))
	expect.ErrorIs(t, expect.ErrorOf(l.Wait(ctx, job)), context.Canceled, "l.Wait(ctx, job))")
	s.take = func() {}
	d, _ := l.Take(t.Context(), job)
	expect.True(t, d.Allowed && d.Wait == 0, "%+v, want that nothing is charged", d)
	ctx, s.take = context.WithCancel(t.Context())
	d, err := l.Wait(ctx, job)
	expect.True(t, err == nil && !d.Allowed && s.maxWait == time.Hour, "%+v, %v of a MaxWait of %v, want a denial", d, err, s.maxWait)
}

// hooked is a store that calls take before each Take, counts the Takes and the Settles, and keeps the MaxWait of the last Take.
type hooked struct {
	core.MemoryStore
	take func()

	mu             sync.Mutex
	takes, settles int
	maxWait        time.Duration
}

func (s *hooked) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.mu.Lock()
	s.takes++
	s.maxWait = claims[0].MaxWait
	s.mu.Unlock()
	s.take()
	return s.MemoryStore.Take(ctx, claims, dst)
}

func (s *hooked) Settle(ctx context.Context, settlements []core.Settlement) error {
	s.mu.Lock()
	s.settles++
	s.mu.Unlock()
	return s.MemoryStore.Settle(ctx, settlements)
}

func TestWaitDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("1/m", 30*time.Second)}))
		begun := time.Now()
		_, _ = l.Wait(t.Context(), job)
		d, err := l.Wait(t.Context(), job)
		expect.True(t, err == nil && !d.Allowed && d.RetryAfter() == 30*time.Second && time.Since(begun) <= 0,
			"%+v, %v after %v; want a denial for 30s at once", d, err, time.Since(begun))
		expect.ErrorIs(t, expect.ErrorOf(l.Wait(t.Context())), core.ErrInvalid, "without claims")
	})
}

// TestBanAndWait checks that turns booked before a ban stay valid. New requests wait for turns after the end of the ban, or are
// denied until the end is near enough.
func TestBanAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", 2*time.Second)}))
		begun := time.Now()
		_, _ = l.Take(t.Context(), job)
		booked := make(chan time.Duration, 1)
		go func() {
			_, _ = l.Wait(t.Context(), job)
			booked <- time.Since(begun)
		}()
		synctest.Wait()
		must.Do(t, l.Ban(t.Context(), "r", "k", 3*time.Second))
		d, _ := l.Take(t.Context(), job)
		expect.True(t, !d.Allowed && d.RetryAfter() == time.Second, "%+v, want a denial for 1s", d)
		expect.Equal(t, <-booked, 100*time.Millisecond, "the booked request went after")
		time.Sleep(900 * time.Millisecond)
		for i := range 3 {
			want := 2*time.Second + time.Duration(i)*100*time.Millisecond
			d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", MaxWait: time.Minute})
			expect.True(t, d.Allowed && d.Wait == want, "request %d: %+v, want a wait of %v", i, d, want)
		}
	})
}

// TestResetKeepsTurns checks that a Reset and new rules change nothing for requests that wait.
func TestResetKeepsTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Minute)}))
		begun := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { _, _ = l.Wait(t.Context(), job) })
		}
		synctest.Wait()
		must.Do(t, errors.Join(l.Reset(t.Context(), "r", "k"), l.SetRules([]core.Rule{waiting("1/m", 0)})))
		d, _ := l.Take(t.Context(), job)
		expect.True(t, d.Allowed && d.Wait == 0, "after the reset: %+v", d)
		all.Wait()
		expect.Equal(t, time.Since(begun), 400*time.Millisecond, "the last one went after")
	})
}

// TestDryRunBooks checks that a dry run books turns, says how long a request would wait, and never waits. It books no turn that a
// deadline is too early for.
func TestDryRunBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := waiting("10/s;burst=1", 150*time.Millisecond)
		r.DryRun = true
		other := waiting("100/s", time.Second) // so that a rule of the request may make it wait
		other.Name = "other"
		l := core.Must(core.New([]core.Rule{r, other}))
		begun := time.Now()
		for i, want := range []core.Result{{Allowed: true}, {Allowed: true, Wait: 100 * time.Millisecond}, {RetryAfter: 50 * time.Millisecond}} {
			d, err := l.Wait(t.Context(), job, core.Claim{Rule: "other", Key: "k"})
			expect.True(t, err == nil && d.Allowed && d.Wait == 0 && d.Results[0].Allowed == want.Allowed &&
				d.Results[0].Wait == want.Wait && d.Results[0].RetryAfter == want.RetryAfter && time.Since(begun) <= 0,
				"request %d after %v: %+v, %v; want %+v at once", i, time.Since(begun), d, err, want)
		}
		l = core.Must(core.New([]core.Rule{r}))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // the turn of the second request
		defer cancel()
		for _, fits := range []bool{true, false} {
			d, err := l.Wait(ctx, job)
			g, guardErr := l.Guard(ctx, get("/"), nil) // of another key
			for _, d := range []core.Decision{d, g.Decision()} {
				expect.True(t, err == nil && guardErr == nil && d.Allowed && d.Results[0].Allowed == fits, "%+v, %v, %v; want that it fits: %t", d, err, guardErr, fits)
			}
		}
	})
}

// TestMaxWaiting checks the bound on waiting requests of one key. A request beyond it books nothing and is denied until it would
// fit without waiting. A place becomes free when a request has had its turn or is canceled.
func TestMaxWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Hour)}, core.WithMaxWaiting(12)))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		wait := func(ctx context.Context) { all.Go(func() { _, _ = l.Wait(ctx, job) }) }
		for range 3 { // one goes at once
			wait(t.Context())
		}
		synctest.Wait()
		wait(ctx)
		synctest.Wait()
		for _, left := range []time.Duration{time.Minute, 2 * time.Hour} {
			short, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			if d, err := l.Wait(short, job); err != nil || d.Allowed || d.RetryAfter() != 400*time.Millisecond {
				t.Fatalf("%+v, %v; want a denial for 400ms", d, err)
			}
		}
		cancel()
		synctest.Wait()
		wait(t.Context())
		synctest.Wait()
		d, _ := l.Wait(t.Context(), job)
		expect.True(t, !d.Allowed && d.RetryAfter() == 400*time.Millisecond, "%+v, want a denial for 400ms", d)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		begun := time.Now()
		if d, err := l.Wait(t.Context(), job); err != nil || !d.Allowed || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("%+v, %v after %v, want 300ms", d, err, time.Since(begun))
		}
		all.Wait()
	})
}

// TestAnyNumberMayWait checks the largest WithMaxWaiting.
func TestAnyNumberMayWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Hour)}, core.WithMaxWaiting(math.MaxInt)))
		for _, want := range []time.Duration{0, 100 * time.Millisecond} {
			d, err := l.Wait(t.Context(), job)
			expect.True(t, err == nil && d.Allowed && d.Wait == want, "%+v, %v, want a wait of %v", d, err, want)
		}
	})
}

// TestManyBeginToWaitAtOnce checks that at most a quarter of WithMaxWaiting requests of one key wait, even if all begin at the
// same instant. The RetryAfter of the others does not count their own turns.
func TestManyBeginToWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan bool)
		s := &hooked{take: func() { <-gate }}
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Hour)}, core.WithMaxWaiting(20), core.WithStore(s), core.WithTimeout(time.Minute)))
		var mu sync.Mutex
		admitted, denied := 0, 0
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				d, err := l.Wait(t.Context(), job)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case d.Allowed:
					admitted++
				case d.RetryAfter() < 100*time.Millisecond:
					t.Errorf("denied for %v", d.RetryAfter())
				default:
					denied++
				}
			})
		}
		synctest.Wait()
		close(gate)
		if all.Wait(); admitted != 6 || denied != 14 {
			t.Errorf("%d admitted, %d denied; want 1 at once, 5 after a wait and 14 denied", admitted, denied)
		}
		expect.Equal(t, s.settles, 0, "denied requests had booked turns, which others might not get; settlements")
		s.take = func() { time.Sleep(time.Second) }
		for i := range 6 {
			claims := []core.Claim{{Rule: job.Rule, Key: fmt.Sprint(i)}, {Rule: "free", Key: "k", Limits: []core.Limit{core.PerHour(9)}}}
			all.Go(func() { _, _ = l.Wait(t.Context(), claims...) })
			synctest.Wait()
		}
		expect.Equal(t, s.maxWait, time.Hour, "share a key only under a rule for which nobody waits; MaxWait of the last")
		all.Wait()
	})
}

// TestFloodForPlacesToWait checks that a request for which no place is left is denied in time, although requests that do not need
// their places take and leave them all the time.
func TestFloodForPlacesToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{take: func() { time.Sleep(40 * time.Millisecond) }}
		l := core.Must(core.New([]core.Rule{waiting("1/h", time.Second)}, core.WithMaxWaiting(4), core.WithStore(s)))
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				for range 10 {
					asked := time.Now()
					_, err := l.Wait(t.Context(), job)
					if took := time.Since(asked); err != nil || took > 2*50*time.Millisecond {
						t.Errorf("request of %d after %v: %v, decided in %v", i, asked.Sub(begun), err, took)
					}
				}
			})
		}
		all.Wait()
	})
}

// TestDryRunBooksWithoutAPlace checks that the dry run of a request for which no place to wait is left still books its turn.
func TestDryRunBooksWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dry := waiting("1/h", time.Hour)
		dry.Name, dry.DryRun = "dry", true
		l := core.Must(core.New([]core.Rule{waiting("1/h", time.Hour), dry}, core.WithMaxWaiting(1)))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _, _ = l.Wait(ctx, job) })
		}
		synctest.Wait()
		must.Get(l.Take(t.Context(), core.Claim{Rule: "dry", Key: "k"}))(t)
		d, err := l.Wait(t.Context(), core.Claim{Rule: job.Rule, Key: "other"}, core.Claim{Rule: "dry", Key: "k"})
		expect.True(t, err == nil && d.Allowed && d.Results[1].Allowed && d.Results[1].Wait == time.Hour, "%+v, %v, want a dry run that would wait 1h", d, err)
		cancel()
		all.Wait()
	})
}

// TestRequestThatFitsIsChargedOnce checks a request that fits at once and finds no place to wait, although one is free when the store
// has decided.
func TestRequestThatFitsIsChargedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{take: func() {}}
		l := core.Must(core.New([]core.Rule{waiting("1/h", time.Hour)}, core.WithMaxWaiting(1), core.WithStore(s)))
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go func() { _, _ = l.Wait(ctx, job) }()
		}
		synctest.Wait()
		s.take, s.takes = func() { cancel(); synctest.Wait() }, 0
		d, err := l.Wait(t.Context(), core.Claim{Rule: job.Rule, Key: "other"})
		expect.True(t, err == nil && d.Allowed && s.takes == 1, "%+v, %v after %d calls, want 1", d, err, s.takes)
	})
}

// TestReservedPlaceBecomesFree checks a request that finds the last place reserved, by a request that does not need it in the end.
func TestReservedPlaceBecomesFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{take: func() {}}
		l := core.Must(core.New([]core.Rule{waiting("1/h", time.Hour)}, core.WithMaxWaiting(1), core.WithStore(s), core.WithTimeout(time.Minute)))
		other, gate := core.Claim{Rule: job.Rule, Key: "other"}, make(chan bool)
		_, _ = l.Take(t.Context(), other)
		s.take = func() { <-gate }
		go func() { _, _ = l.Wait(t.Context(), job) }()
		synctest.Wait()
		s.take = func() {}
		time.AfterFunc(time.Second, func() { close(gate) })
		d, err := l.Wait(t.Context(), other)
		expect.True(t, err == nil && d.Allowed && d.Wait == time.Hour-time.Second, "%+v, %v; want a turn", d, err)
	})
}

// TestGuardSleeps checks that Guard returns at the turn of a request, and gives the turn back if the context of the request ends.
func TestGuardSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := core.Rule{Name: "held", Key: constKey, Limits: core.MustParseLimits("9 at once, 100/d")}
		l := core.Must(core.New([]core.Rule{waiting("1/m", time.Hour), held}))
		begun := time.Now()
		for i := range 3 {
			g, err := l.Guard(t.Context(), get("/"), nil)
			must.True(t, err == nil && g.Admitted() && time.Since(begun) == time.Duration(i)*time.Minute,
				"request %d: admitted %t, %v after %v", i, g.Admitted(), err, time.Since(begun))
			if d, _ := core.FromContext(g.Request().Context()); d.Wait != g.Decision().Wait || i > 0 && d.Wait != time.Minute {
				t.Errorf("request %d: %+v", i, d)
			}
			g.End()
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		g, err := l.Guard(ctx, get("/"), nil)
		expect.True(t, errors.Is(err, core.ErrUnavailable) && errors.Is(err, context.Canceled) && !g.Admitted(), "canceled: %v", err)
		_, ok := core.FromContext(g.Request().Context())
		expect.True(t, !ok, "the context of a canceled request carries a decision")
		g.End()
		d, _ := l.Peek(get("/"))
		expect.True(t, d.Wait == 50*time.Second && d.Results[1].Remaining == 9 && d.Results[2].Remaining == 97,
			"after the cancellation: %+v", d)
	})
}

// TestWaitWithoutTheStore checks that requests book in memory while the store is down, and that what was booked before stays.
func TestWaitWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := &faulty{fault: func(context.Context) error {
			if down.Load() {
				return errors.New("connection lost")
			}
			return nil
		}}
		l := core.Must(core.New([]core.Rule{waiting("10/s;burst=1", time.Minute)}, core.WithStore(s)))
		begun := time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				d, err := l.Wait(t.Context(), job)
				expect.True(t, err == nil && d.Allowed, "%+v, %v", d, err)
			})
		}
		synctest.Wait()
		down.Store(true)
		for i := range 3 {
			d, err := l.Take(t.Context(), job)
			if want := time.Duration(i) * 100 * time.Millisecond; err != nil || !d.Allowed || d.Degraded == nil || d.Wait != want {
				t.Errorf("without the store: %+v, %v; want a wait of %v", d, err, want)
			}
		}
		all.Wait()
		expect.Equal(t, time.Since(begun), 300*time.Millisecond, "the last one went after")
		closed := waiting("10/s;burst=1", time.Minute)
		closed.OnFailure = core.FailClosed
		l = core.Must(core.New([]core.Rule{closed}, core.WithStore(s)))
		expect.ErrorIs(t, expect.ErrorOf(l.Wait(t.Context(), job)), core.ErrUnavailable, "under FailClosed")
	})
}

// TestObserversSeeTheWait checks that observers get the decision before the request waits, with its wait.
func TestObserversSeeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		begun := time.Now()
		observe := func(_ context.Context, o *core.Observation) {
			heard = append(heard, fmt.Sprint(o.Allowed, o.Wait, o.Claims[0].MaxWait, time.Since(begun)))
		}
		l := core.Must(core.New([]core.Rule{waiting("1/m", 90*time.Second)}, core.WithObserver(observe)))
		for range 2 {
			_, _ = l.Wait(t.Context(), job)
		}
		expect.Elements(t, heard, []string{"true 0s 1m30s 0s", "true 1m0s 1m30s 0s"}, "heard")
	})
}

// TestTenThousandWait checks the default of WithMaxWaiting: each of four keys takes a quarter.
func TestTenThousandWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("1000/s;burst=1", time.Hour)}))
		of := func(key int) core.Claim { return core.Claim{Rule: "r", Key: fmt.Sprint(key)} }
		var all sync.WaitGroup
		for i := range 10_004 { // one of each key goes at once
			all.Go(func() {
				d, err := l.Wait(t.Context(), of(i%4))
				expect.True(t, err == nil && d.Allowed, "%+v, %v", d, err)
			})
		}
		synctest.Wait()
		expect.Equal(t, l.StoreHealth().Waiting, 10_000, "requests wait")
		d, err := l.Wait(t.Context(), of(5))
		expect.True(t, err == nil && d.Allowed && d.Wait == 0, "%+v, %v; want that a request that fits goes on", d, err)
		for key, want := range map[int]time.Duration{0: 2501 * time.Millisecond, 5: time.Millisecond} {
			d, err := l.Wait(t.Context(), of(key))
			expect.True(t, err == nil && !d.Allowed && d.RetryAfter() == want, "%+v, %v; want a denial for %v", d, err, want)
		}
		all.Wait()
	})
}

// TestWaitingRequestIsSmall checks that a request that waits has no goroutine but its own, and takes at most 4 KB more
// memory than an admitted request in a handler.
func TestWaitingRequestIsSmall(t *testing.T) {
	const n = 1000
	memory := func(waits bool) int64 {
		l := core.Must(core.New([]core.Rule{waiting("1000000/s", time.Hour)}))
		if waits {
			must.Do(t, l.Ban(t.Context(), "r", "const:all", 50*time.Minute))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var handled atomic.Int64
		var all sync.WaitGroup
		before, goroutines := inUse(), runtime.NumGoroutine()
		for range n {
			all.Go(func() {
				g, err := l.Guard(ctx, get("/"), nil)
				defer g.End()
				if err == nil {
					handled.Add(1)
					<-ctx.Done()
				}
			})
		}
		for int(handled.Load())+l.StoreHealth().Waiting < n {
			runtime.Gosched()
		}
		if got := runtime.NumGoroutine() - goroutines; got > n || waits != (handled.Load() == 0) {
			t.Errorf("%d goroutines for %d requests, %d in the handler", got, n, handled.Load())
		}
		after := inUse()
		cancel()
		all.Wait()
		return after - before
	}
	handled, waiting := memory(false), memory(true)
	expect.AtMost(t, (waiting-handled)/n, 4<<10, "a waiting request takes bytes more than one in a handler (at most 4096)")
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestAllocationsOfAWait checks that a request that sleeps until its turn allocates a timer more than a request that does not wait.
func TestAllocationsOfAWait(t *testing.T) {
	allocations := func(burst int) float64 {
		l := core.Must(core.New([]core.Rule{{Name: "r", Limits: []core.Limit{core.PerSecond(10_000).WithBurst(burst)}, MaxWait: time.Hour}}))
		return testing.AllocsPerRun(200, func() {
			d, err := l.Wait(t.Context(), job)
			expect.True(t, err == nil && d.Allowed, "%+v, %v", d, err)
		})
	}
	without, with := allocations(1_000_000), allocations(1)
	expect.AtMost(t, with, without+3, "allocations for a request that waits, %v for one that does not", without)
}

// TestDeadlineIsAMaxWait sends 200 requests at once whose contexts end after a second. Requests whose turn comes in time are
// served, with one call of the store each. The others are denied until the same request would be served.
func TestDeadlineIsAMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(faulty)
		l := core.Must(core.New([]core.Rule{waiting("5/s", 5*time.Second)}, core.WithStore(s)))
		send := func() (core.Guard, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return l.Guard(ctx, get("/"), nil)
		}
		var served, denied atomic.Int64
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				g, err := send()
				g.End()
				switch {
				case err != nil:
					t.Error(err)
				case g.Admitted():
					served.Add(1)
				case g.Decision().RetryAfter() != 50*time.Millisecond:
					t.Errorf("denied for %v", g.Decision().RetryAfter())
				default:
					denied.Add(1)
				}
			})
		}
		synctest.Wait()
		expect.Equal(t, denied.Load(), 191, "denied at once")
		time.Sleep(50 * time.Millisecond)
		g := must.Get(send())(t)
		expect.True(t, g.Admitted(), "%+v; want that the promise is kept", g.Decision())
		if all.Wait(); served.Load() != 9 || s.calls.Load() != 201 {
			t.Errorf("%d served, %d calls of the store", served.Load(), s.calls.Load())
		}
	})
}

// TestClaimsCarryTheTimeLeft checks what the store gets, and that observers see the rule's MaxWait.
func TestClaimsCarryTheTimeLeft(t *testing.T) {
	const ms = time.Millisecond
	server := func(read, write time.Duration) any { return &http.Server{ReadTimeout: read, WriteTimeout: write} }
	for why, row := range map[string]struct {
		deadline time.Duration // 0: none
		server   any
		method   string
		router   core.Router
		want     time.Duration
		check    time.Duration // what Check and Peek carry
	}{
		"no deadline":                  {want: 5 * time.Second},
		"a later deadline":             {deadline: time.Minute, want: 5 * time.Second},
		"an earlier deadline":          {deadline: time.Second, want: 950 * ms, check: 950 * ms},
		"a bit less of it":             {deadline: 990 * ms, want: 950 * ms, check: 950 * ms},
		"nearly no time":               {deadline: 70 * ms, want: 0, check: 0},
		"a deadline in the past":       {deadline: -1, want: 0, check: 0},
		"no timeout":                   {server: server(0, 0), want: 5 * time.Second},
		"a write timeout":              {server: server(0, time.Second), want: 950 * ms},
		"a longer write timeout":       {server: server(0, 10*time.Second), want: 5 * time.Second},
		"one that can be extended":     {server: server(0, time.Second), router: &extender{can: true}, want: 5 * time.Second},
		"one that cannot be":           {server: server(0, time.Second), router: &extender{}, want: 950 * ms},
		"a read timeout, no body":      {server: server(time.Second, 0), want: 5 * time.Second},
		"a write timeout, and a body":  {server: server(0, time.Second), method: http.MethodPost, want: 950 * ms},
		"a read timeout, and a body":   {server: server(time.Second, 0), method: http.MethodPost, want: 950 * ms},
		"both, reading first":          {server: server(time.Second, 2*time.Second), method: http.MethodPost, want: 950 * ms},
		"both, writing first":          {server: server(2*time.Second, time.Second), method: http.MethodPost, want: 950 * ms},
		"a deadline and a timeout":     {deadline: 500 * ms, server: server(0, time.Second), want: 450 * ms, check: 450 * ms},
		"a deadline, timeout extended": {deadline: 500 * ms, server: server(0, time.Second), router: &extender{can: true}, want: 450 * ms, check: 450 * ms},
	} {
		t.Run(why, inBubble(func(t *testing.T) {
			s, seen := &hooked{take: func() {}}, new(recorder)
			l := core.Must(core.New([]core.Rule{waiting("5/s", 5*time.Second)}, core.WithStore(s), core.WithObserver(seen.observe)))
			ctx := t.Context()
			if row.server != nil {
				ctx = context.WithValue(ctx, http.ServerContextKey, row.server)
			}
			if row.check = row.want; row.deadline == 0 && row.server != nil {
				row.check = 5 * time.Second
			}
			if row.deadline != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, row.deadline)
				defer cancel()
			}
			r := get("/")
			if row.method == http.MethodPost {
				r, _ = http.NewRequest(row.method, "/", strings.NewReader("x"))
			}
			r = r.WithContext(ctx)
			g, err := l.Guard(ctx, r, row.router)
			g.End()
			expect.True(t, err == nil && s.maxWait == row.want && seen.seen[0].Claims[0].MaxWait == 5*time.Second,
				"Guard: the store got %v, %v; want %v", s.maxWait, err, row.want)
			for name, decide := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
				if _, err := decide(r); err != nil || s.maxWait != row.check {
					t.Errorf("%s: the store got %v, %v; want %v", name, s.maxWait, err, row.check)
				}
			}
			_, err = l.Take(ctx, job)
			expect.True(t, err == nil && s.maxWait == 5*time.Second, "Take: the store got %v, %v", s.maxWait, err)
			_, err = l.Wait(context.WithoutCancel(ctx), job)
			expect.True(t, err == nil && s.maxWait == 5*time.Second, "Wait without a deadline: the store got %v, %v", s.maxWait, err)
		}))
	}
}

// extender is a Router that can extend deadlines, or says so.
type extender struct {
	can, fails bool
	waits      []time.Duration
}

func (e *extender) RoutePattern(*http.Request) (string, error) { return "", nil }

func (e *extender) ExtendDeadlines(wait time.Duration) bool {
	if wait > 0 {
		e.waits = append(e.waits, wait)
		return !e.fails
	}
	return e.can
}

// TestGuardExtendsDeadlines checks that Guard extends the deadlines of the server once, and only for a request that waits. A
// request whose deadlines cannot be extended is denied and charged nothing.
func TestGuardExtendsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New([]core.Rule{waiting("1/s;burst=1", time.Minute)}))
		ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{WriteTimeout: time.Second})
		for i, row := range []struct {
			router core.Router
			waits  int
			admits bool
		}{
			{&extender{can: true}, 0, true},
			{&extender{can: true, fails: true}, 1, false},
			{&extender{can: true}, 1, true},
			{&extender{}, 0, false},
			{nil, 0, false},
		} {
			begun := time.Now()
			g, err := l.Guard(ctx, get("/"), row.router)
			g.End()
			e, _ := row.router.(*extender)
			if err != nil || g.Admitted() != row.admits || e != nil && len(e.waits) != row.waits || !row.admits && g.Decision().RetryAfter() == 0 {
				t.Errorf("%d: %+v, %v; %+v", i, g.Decision(), err, e)
			}
			if e != nil && row.waits > 0 && (e.waits[0] != time.Second || row.admits && time.Since(begun) != time.Second) {
				t.Errorf("%d: extended by %v, served after %v", i, e.waits, time.Since(begun))
			}
		}
		time.Sleep(500 * time.Millisecond)
		g, err := l.Guard(ctx, get("/"), &extender{fails: true})
		expect.True(t, err == nil && g.Admitted(), "a turn within the timeout: %+v, %v", g.Decision(), err)
		g.End()
		e := &extender{can: true}
		g, err = l.Guard(ctx, get("/"), e)
		_, _ = l.Wait(g.Request().Context(), job)
		d, waitErr := l.Wait(g.Request().Context(), job)
		expect.True(t, err == nil && waitErr == nil && d.Wait > 0 && len(e.waits) == 1, "Wait in a handler: %+v, %v; extended by %v, want the wait of Guard", d, waitErr, e.waits)
		g.End()
		expect.Equal(t, l.StoreHealth().Waiting, 0, "still wait")
	})
}

// TestWaitAsksOnceUntilItsDeadline checks that Wait makes one call, books nothing if the turn comes after the deadline, and
// returns the denial if the request was denied for another reason.
func TestWaitAsksOnceUntilItsDeadline(t *testing.T) {
	for why, row := range map[string]struct {
		left  time.Duration
		claim core.Claim
		err   error
		retry time.Duration
	}{
		"before the turn":             {time.Minute - 1, job, context.DeadlineExceeded, 0},
		"at the turn":                 {time.Minute, job, context.DeadlineExceeded, 0},
		"after the turn":              {time.Minute + time.Microsecond, job, nil, 0},
		"a turn at MaxWait":           {30 * time.Second, core.Claim{Rule: "r", Key: "k", Cost: 2}, context.DeadlineExceeded, 0},
		"a turn after MaxWait":        {time.Minute, core.Claim{Rule: "r", Key: "k", Cost: 3}, nil, 2*time.Minute + time.Microsecond},
		"a cost above the capacity":   {30 * time.Second, core.Claim{Rule: "r", Key: "k", Cost: 6}, nil, core.Never},
		"a rule that does not let it": {30 * time.Second, core.Claim{Rule: "strict", Key: "k"}, nil, time.Hour},
	} {
		t.Run(why, inBubble(func(t *testing.T) {
			s := &hooked{take: func() {}}
			dry := perHour("dry", 0)
			dry.DryRun = true
			l := core.Must(core.New([]core.Rule{waiting("1/m;burst=5", 2*time.Minute), perHour("strict", 1), dry, perHour("wide", 9)}, core.WithStore(s)))
			_, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 5}, core.Claim{Rule: "strict", Key: "k"})
			ctx, cancel := context.WithTimeout(t.Context(), row.left)
			defer cancel()
			claims := []core.Claim{row.claim, {Rule: "dry", Key: "k"}, {Rule: "wide", Key: "k"}}
			if row.claim.Rule == "strict" {
				claims = append(claims, job)
			}
			d, err := l.Wait(ctx, claims...)
			if !errors.Is(err, row.err) || d.Allowed != (row.err == nil && row.retry == 0) || err == nil && d.RetryAfter() != row.retry || s.takes != 2 || s.settles != 0 {
				t.Errorf("%+v, %v in %d takes and %d settles", d, err, s.takes-1, s.settles)
			}
		}))
	}
}

// TestLateReplyOfTheStore checks a store that replies so late that a turn comes after the deadline: the request is denied by that rule
// and charged nothing.
func TestLateReplyOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, seen := &hooked{take: func() {}}, new(recorder)
		rules := []core.Rule{waiting("10/m;burst=1", 5200*time.Millisecond), waiting("20/m;burst=1", time.Hour), waiting("10/m;burst=1", time.Hour), perHour("rate", 9), perHour("held", 9)}
		rules[1].Name, rules[2].Name, rules[2].DryRun, rules[3].Key = "fast", "dry", true, constKey
		rules[3].Cost, rules[4].CostAfter = func(*http.Request) int { return 2 }, core.Failures
		left := map[string]int{"rate": 8, "held": 9}
		opts := []core.Option{core.WithStore(&tardy{s}), core.WithTimeout(time.Minute), core.WithObserver(seen.observe)}
		all, one := core.Must(core.New(rules, opts...)), core.Must(core.New(rules[:1], opts...))
		claims := []core.Claim{{Rule: "r", Key: "const:all"}, {Rule: "fast", Key: "const:all"}, {Rule: "dry", Key: "const:all"}, {Rule: "rate", Key: "const:all"}}
		_, _ = all.Take(t.Context(), claims...)
		guard := func(l *core.Limiter) func(context.Context) error {
			return func(ctx context.Context) error {
				g, err := l.Guard(ctx, get("/"), nil)
				g.End()
				d := g.Decision()
				expect.True(t, err != nil || !d.Allowed && d.RetryAfter() == 500*time.Millisecond, "%+v, want a denial until the turn is in time", d)
				for _, r := range d.Results[1:] {
					expect.Equal(t, r.Remaining, left[r.Rule], "%s: remaining, as before the request", r.Rule)
					expect.True(t, r.Allowed && (r.Wait == 5*time.Second) == r.DryRun, "%+v, want its turn in time, or a dry run", r)
				}
				return err
			}
		}
		for name, wait := range map[string]func(context.Context) error{
			"Guard": guard(all), "Guard of one rule": guard(one),
			"Wait": func(ctx context.Context) error {
				expect.ErrorIs(t, expect.ErrorOf(all.Wait(ctx, claims...)), context.DeadlineExceeded, "Wait")
				return nil
			},
		} {
			time.Sleep(6 * time.Second) // the turn of the refunded request
			_, _ = all.Take(t.Context(), claims[:3]...)
			ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
			takes, settles, begun := s.takes, s.settles, time.Now()
			if err := wait(ctx); err != nil || time.Since(begun) != time.Second || s.takes != takes+1 || s.settles != settles+1 || seen.seen[len(seen.seen)-1].Store != time.Second {
				t.Errorf("%s: %v after %v, %d takes, %d settles", name, err, time.Since(begun), s.takes-takes, s.settles-settles)
			}
			cancel()
			d, _ := all.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all", Peek: true}, core.Claim{Rule: "rate", Key: "const:all", Peek: true})
			expect.True(t, d.Wait <= 5*time.Second && d.Results[1].Remaining == 8, "%s: %+v, want that nothing is charged", name, d)
			time.Sleep(time.Minute)
		}
	})
}

// tardy is a store that replies a second after it has decided.
type tardy struct{ *hooked }

func (s *tardy) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	defer time.Sleep(time.Second)
	return s.hooked.Take(ctx, claims, dst)
}

// A request that is denied at its turn has begun no ban, which giving back what it was charged would not end.
func TestRequestThatIsDeniedAtItsTurnBansNobody(t *testing.T) {
	l := must.Get(core.New([]core.Rule{
		{Name: "spaced", Limits: []core.Limit{core.PerSecond(100).WithBurst(1)}, MaxWait: time.Minute},
		{Name: "banning", Limits: core.MustParseLimits("2/10m;ban=1h")},
		{Name: "at once", Limits: []core.Limit{core.AtOnce(1)}},
	}))(t)
	spaced, banning := core.Claim{Rule: "spaced", Key: "k"}, core.Claim{Rule: "banning", Key: "k"}
	place := core.Claim{Rule: "at once", Key: "k", Hold: true}
	must.Get(l.Take(t.Context(), spaced, banning, place))(t)
	d := must.Get(l.Wait(t.Context(), spaced, banning, place))(t)
	left := must.Get(l.Take(t.Context(), core.Claim{Rule: "banning", Key: "k", Peek: true}))(t)
	expect.True(t, !d.Allowed && left.Allowed && left.Results[0].Remaining == 1, "%+v, then %+v, want a denial and no ban", d, left)
	d = must.Get(l.Wait(t.Context(), spaced, banning))(t)
	expect.True(t, d.Allowed && len(d.Results) == 2, "%+v, want both charged", d)
}
