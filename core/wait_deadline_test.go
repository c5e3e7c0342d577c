package core_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

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
		if denied.Load() != 191 {
			t.Errorf("%d denied at once, want 191", denied.Load())
		}
		time.Sleep(50 * time.Millisecond)
		if g, err := send(); err != nil || !g.Admitted() {
			t.Errorf("%+v, %v; want that the promise is kept", g.Decision(), err)
		}
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
		"a read timeout, and a body":   {server: server(time.Second, 0), method: http.MethodPost, want: 950 * ms},
		"both, reading first":          {server: server(time.Second, 2*time.Second), method: http.MethodPost, want: 950 * ms},
		"both, writing first":          {server: server(2*time.Second, time.Second), method: http.MethodPost, want: 950 * ms},
		"a deadline and a timeout":     {deadline: 500 * ms, server: server(0, time.Second), want: 450 * ms, check: 450 * ms},
		"a deadline, timeout extended": {deadline: 500 * ms, server: server(0, time.Second), router: &extender{can: true}, want: 450 * ms, check: 450 * ms},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, seen := new(asked), new(recorder)
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
				if err != nil || s.maxWait != row.want || seen.seen[0].Claims[0].MaxWait != 5*time.Second {
					t.Errorf("Guard: the store got %v, %v; want %v", s.maxWait, err, row.want)
				}
				for name, decide := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
					if _, err := decide(r); err != nil || s.maxWait != row.check {
						t.Errorf("%s: the store got %v, %v; want %v", name, s.maxWait, err, row.check)
					}
				}
				if _, err := l.Take(ctx, job); err != nil || s.maxWait != 5*time.Second {
					t.Errorf("Take: the store got %v, %v", s.maxWait, err)
				}
			})
		})
	}
}

// asked is a store that remembers the MaxWait of its last Take.
type asked struct {
	core.MemoryStore
	maxWait time.Duration
}

func (s *asked) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.maxWait = claims[0].MaxWait
	return s.MemoryStore.Take(ctx, claims, dst)
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
		if l.StoreHealth().Waiting != 0 {
			t.Errorf("%d still wait", l.StoreHealth().Waiting)
		}
	})
}

// TestWaitAsksOnceUntilItsDeadline checks that Wait makes one call, books nothing if the turn comes after the deadline, and
// returns the denial if the request was denied for another reason.
func TestWaitAsksOnceUntilItsDeadline(t *testing.T) {
	for why, row := range map[string]struct {
		left    time.Duration
		claim   core.Claim
		err     error
		retry   time.Duration
		settles int
	}{
		"before the turn":             {time.Minute - 1, job, context.DeadlineExceeded, 0, 0},
		"at the turn":                 {time.Minute, job, context.DeadlineExceeded, 0, 0},
		"after the turn":              {time.Minute + time.Microsecond, job, nil, 0, 0},
		"a turn after MaxWait":        {30 * time.Second, core.Claim{Rule: "r", Key: "k", Cost: 5}, nil, 5*time.Minute - 30*time.Second + time.Microsecond, 0},
		"a cost above the capacity":   {30 * time.Second, core.Claim{Rule: "r", Key: "k", Cost: 6}, nil, core.Never, 0},
		"a rule that does not let it": {30 * time.Second, core.Claim{Rule: "strict", Key: "k"}, nil, time.Hour, 0},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &hooked{take: func() {}}
				strict := perHour("strict", 1)
				l := core.Must(core.New([]core.Rule{waiting("1/m;burst=5", 2*time.Minute), strict}, core.WithStore(s)))
				_, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "k", Cost: 5}, core.Claim{Rule: "strict", Key: "k"})
				ctx, cancel := context.WithTimeout(t.Context(), row.left)
				defer cancel()
				claims := []core.Claim{row.claim}
				if row.claim.Rule == "strict" {
					claims = append(claims, job)
				}
				d, err := l.Wait(ctx, claims...)
				if !errors.Is(err, row.err) || d.Allowed != (row.err == nil && row.retry == 0) || err == nil && d.RetryAfter() != row.retry || s.takes != 2 || s.settles != row.settles {
					t.Errorf("%+v, %v in %d takes and %d settles", d, err, s.takes-1, s.settles)
				}
			})
		})
	}
}

// TestLateReplyOfTheStore checks a store that replies so late that the turn comes after the deadline: the request is denied and
// charged nothing.
func TestLateReplyOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{take: func() {}}
		l := core.Must(core.New([]core.Rule{waiting("10/m;burst=1", time.Hour), perHour("rate", 9)}, core.WithStore(&tardy{s}), core.WithTimeout(time.Minute)))
		claims := []core.Claim{{Rule: "r", Key: "const:all"}, {Rule: "rate", Key: "const:all"}}
		_, _ = l.Take(t.Context(), claims...)
		for name, wait := range map[string]func(context.Context) error{
			"Guard": func(ctx context.Context) error {
				g, err := l.Guard(ctx, get("/"), nil)
				g.End()
				if d := g.Decision(); err == nil && (d.Allowed || d.RetryAfter() <= 0 || d.RetryAfter() > time.Second) {
					t.Errorf("%+v, want a denial", d)
				}
				return err
			},
			"Wait": func(ctx context.Context) error {
				if _, err := l.Wait(ctx, claims...); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Wait: %v", err)
				}
				return nil
			},
		} {
			time.Sleep(6 * time.Second) // the turn of the refunded request
			_, _ = l.Take(t.Context(), claims[0])
			ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
			takes, settles, begun := s.takes, s.settles, time.Now()
			if err := wait(ctx); err != nil || time.Since(begun) != time.Second || s.takes != takes+1 || s.settles != settles+1 {
				t.Errorf("%s: %v after %v, %d takes, %d settles", name, err, time.Since(begun), s.takes-takes, s.settles-settles)
			}
			cancel()
			d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all", Peek: true}, core.Claim{Rule: "rate", Key: "const:all", Peek: true})
			if d.Wait > 5*time.Second || d.Results[1].Remaining != 8 {
				t.Errorf("%s: %+v, want that nothing is charged", name, d)
			}
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
