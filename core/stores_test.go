package core_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

var errUnreachable = errors.New("connection lost")

// errNoReturn has a settler end its goroutine.
var errNoReturn = errors.New("no return")

// A faulty store is one in memory that a limiter takes for a remote one. Each call passes fault first.
type faulty struct {
	memory core.MemoryStore
	fault  func(ctx context.Context) error // nil: none
	calls  atomic.Int64
	leases atomic.Int64 // claims that could be charged ahead
}

func (s *faulty) call(ctx context.Context) error {
	s.calls.Add(1)
	if s.fault == nil {
		return nil
	}
	return s.fault(ctx)
}

func (s *faulty) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if err := s.call(ctx); err != nil {
		return dst, err
	}
	for i := range claims {
		s.leases.Add(int64(min(claims[i].Lease, 1)))
	}
	return s.memory.Take(ctx, claims, dst)
}

func (s *faulty) Settle(ctx context.Context, settlements []core.Settlement) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.memory.Settle(ctx, settlements)
}

func (s *faulty) Reset(ctx context.Context, pairs []core.Pair) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.memory.Reset(ctx, pairs)
}

func unreachable(context.Context) error { return errUnreachable }

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// mode returns a rule of n per hour that fails in this way.
func mode(name string, m core.FailureMode, n int) core.Rule {
	r := perHour(name, n)
	r.OnFailure = m
	return r
}

func withStore(s core.Store, rules []core.Rule, opts ...core.Option) *core.Limiter {
	return core.Must(core.New(rules, append(opts, core.WithStore(s))...))
}

// openBreaker makes calls of l until its breaker is open. The store must fail.
func openBreaker(t *testing.T, l *core.Limiter) {
	t.Helper()
	for range 20 {
		if l.StoreHealth().Down {
			return
		}
		_, _ = l.Take(t.Context(), core.Claim{Rule: "breaker", Key: "k", Limits: []core.Limit{core.PerHour(1)}})
	}
	t.Fatal("the breaker is closed after 20 failures")
}

// A settler is a store that admits everything, in results that it allocates itself, and keeps all claims and settlements.
type settler struct {
	at      time.Time // of the results; if zero, now
	mu      sync.Mutex
	taken   []core.Claim
	settled []core.Settlement
	err     error // of Settle
	takes   time.Duration
}

func (s *settler) Take(_ context.Context, claims []core.Claim, _ []core.Result) (results []core.Result, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, claims...)
	for _, c := range claims {
		for _, l := range c.Limits {
			results = append(results, core.Result{Rule: c.Rule, Limit: l, Allowed: true, DryRun: c.DryRun, At: cmp.Or(s.at, time.Now())})
		}
	}
	return results, nil
}

func (s *settler) Settle(_ context.Context, settlements []core.Settlement) error {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range settlements {
		if settlements[i].Renew {
			settlements[i].At = time.Now()
		}
	}
	s.settled = append(s.settled, settlements...)
	if s.err == errNoReturn {
		runtime.Goexit()
	}
	return s.err
}

func (*settler) Reset(context.Context, []core.Pair) error { return nil }

// finals returns what was settled, such as "login k 1→0", "renew login k".
func (s *settler) finals() (text []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.settled {
		switch {
		case c.Renew:
			text = append(text, "renew "+c.Rule)
		case c.Ban > 0:
			text = append(text, fmt.Sprintf("ban %s %v", c.Rule, c.Ban))
		case c.Held:
			text = append(text, fmt.Sprintf("%s %d→%d", c.Rule, c.Cost, c.Final))
		default:
			text = append(text, fmt.Sprintf("charged %s %d→%d", c.Rule, c.Cost, c.Final))
		}
	}
	return text
}

func (s *settler) want(t *testing.T, want ...string) {
	t.Helper()
	expect.Elements(t, s.finals(), want, "settled")
}

func final(name string, n int, f func(*http.Request, core.Outcome) int) core.Rule {
	r := perHour(name, n)
	r.CostAfter = f
	return r
}

func costOf(_ *http.Request, o core.Outcome) int { return o.Cost }

// serve has l guard a request, which handle serves, and returns what End was called after.
func serve(t *testing.T, l *core.Limiter, handle func(r *http.Request, g *core.Guard)) {
	t.Helper()
	g := must.Get(l.Guard(context.Background(), get("/"), nil))(t)
	defer g.End()
	handle(g.Request(), &g)
}

func TestStoreIsCalledInTheGoroutineOfTheRequest(t *testing.T) {
	var stack []byte
	s := &faulty{fault: func(context.Context) error {
		stack = debug.Stack()
		return nil
	}}
	must.Get(withStore(s, []core.Rule{perHour("r", 5)}).Check(get("/")))(t)
	expect.True(t, bytes.Contains(stack, []byte("core.(*Limiter).Check(")), "the store was called from:\n%s", stack)
}

func TestCallsThatBeginTogetherShareTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []context.Context
		s := &faulty{fault: func(ctx context.Context) error { seen = append(seen, ctx); return nil }}
		l := withStore(s, []core.Rule{perHour("r", 1000)}, core.WithTimeout(64*time.Millisecond))
		begun := time.Now()
		for i := range 5 {
			l.Check(get("/").WithContext(context.WithValue(context.Background(), word{}, i)))
			time.Sleep(500 * time.Microsecond)
		}
		for i, want := range []time.Duration{64000, 64000, 64000, 65500, 65500} { // microseconds after begun
			deadline, ok := seen[i].Deadline()
			if got := deadline.Sub(begun); !ok || got != want*time.Microsecond {
				t.Errorf("call %d, %vµs later: its deadline is %v after the first call, want %vµs", i, i*500, got, want)
			}
			expect.Equal(t, seen[i].Done() == seen[0].Done(), i < 3, "call %d shares the channel of the first", i)
			got := seen[i].Value(word{})
			expect.True(t, got == i, "call %d has value %v of its request", i, got)
			expect.Equal(t, seen[i].Err(), nil, "call %d: its context ended with the call", i)
		}
		time.Sleep(time.Until(begun.Add(64 * time.Millisecond)))
		synctest.Wait()
		expect.ErrorIs(t, seen[0].Err(), context.DeadlineExceeded, "at the deadline")
		expect.NoError(t, seen[3].Err(), "the call ended before the other calls' deadline")
	})
}

func TestDerivedContextsTakeNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(faulty)
		client, hangUp := context.WithCancel(context.Background())
		var derived context.Context
		s.fault = func(ctx context.Context) error {
			before := runtime.NumGoroutine()
			var cancel context.CancelFunc
			derived, cancel = context.WithTimeout(ctx, time.Hour)
			_ = cancel // the deadline of the call is to end it
			n := runtime.NumGoroutine()
			expect.AtMost(t, n, before, "%d goroutines more", n-before)
			return nil
		}
		withStore(s, []core.Rule{perHour("r", 5)}).Check(get("/").WithContext(client))
		hangUp()
		synctest.Wait()
		expect.Equal(t, derived.Err(), nil, "a client that hung up ended the request")
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		expect.ErrorIs(t, derived.Err(), context.DeadlineExceeded, "at the deadline of the call")
	})
}

func TestFailuresOfTheStore(t *testing.T) {
	for why, row := range map[string]struct {
		fault func(context.Context) error
		want  error
	}{
		"is unreachable": {unreachable, core.ErrUnavailable},
		"hangs":          {hang, core.ErrUnavailable},
		"panics":         {func(context.Context) error { panic("ouch") }, core.ErrInvalid},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := withStore(&faulty{fault: row.fault}, []core.Rule{mode("r", core.FailClosed, 1000)})
			expect.ErrorIs(t, expect.ErrorOf(l.Check(get("/"))), row.want, "a store that %s", why)
			h := l.StoreHealth()
			expect.Equal(t, h.Calls, 0, "a store that %s leaves calls in flight", why)
			expect.Equal(t, h.Err != nil, !errors.Is(row.want, core.ErrInvalid), "a store that %s has failed: %v", why, h.Err)
		})
	}
}

type remembering struct {
	*faulty
	local func(key string) bool
}

func (s *remembering) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	if !s.local(claims[0].Key) {
		return dst, false
	}
	return append(dst, core.Result{Rule: "r", Limit: claims[0].Limits[0], RetryAfter: time.Second, At: time.Unix(1, 0)}), true
}

func TestLocalDecisionsSayNothingAboutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := new(recorder)
		s := &remembering{&faulty{fault: unreachable}, func(key string) bool { return key == "known" }}
		l := withStore(s, []core.Rule{mode("r", core.FailOpen, 5)}, core.WithObserver(seen.observe))
		take := func(key string) core.Decision {
			t.Helper()
			return must.Get(l.Take(t.Context(), core.Claim{Rule: "r", Key: key}))(t)
		}
		for range 4 {
			for range 100 {
				if d := take("known"); d.Allowed || d.Degraded != nil || d.Results[0].RetryAfter != time.Second {
					t.Fatalf("got %+v, want what the store remembers", d)
				}
			}
			take("other")
		}
		h := l.StoreHealth()
		must.True(t, !h.Down, "got %+v after 4 failures", h)
		take("other")
		if h := l.StoreHealth(); !h.Down || s.calls.Load() != 5 {
			t.Errorf("got %+v after 5 failures of %d calls; local decisions must not count as successes", h, s.calls.Load())
		}
		d := take("known")
		expect.True(t, !d.Allowed && d.Degraded == nil, "got %+v while the store is down, want the remembered denial", d)
		for _, o := range seen.seen {
			expect.True(t, o.Claims[0].Key != "known" || o.Store == 0, "the store was not asked, but took %v", o.Store)
		}
	})
}

func TestLocalDecisionsAreChecked(t *testing.T) {
	s := &remembering{new(faulty), func(string) bool { panic("ouch") }}
	_, err := withStore(s, []core.Rule{mode("r", core.FailOpen, 5)}).Check(get("/"))
	wantError(t, err, core.ErrInvalid, "the store panicked: ouch")
	s = &remembering{new(faulty), func(string) bool { return true }}
	rule := mode("r", core.FailClosed, 5)
	rule.Limits = append(rule.Limits, core.PerDay(9))
	rule.Name = "both"
	_, err = withStore(s, []core.Rule{rule}).Check(get("/"))
	wantError(t, err, core.ErrUnavailable, "the store returned 1 results for 2 limits")
}
