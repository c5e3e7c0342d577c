package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
)

// holding are rules that hold something beside the rule "r": places, and costs that are known at the end.
func holding() []core.Rule {
	return []core.Rule{
		{Name: "places", Key: constKey, Limits: core.MustParseLimits("2 at once")},
		{Name: "both", Key: constKey, Limits: core.MustParseLimits("2 at once, 100/h")},
		{Name: "later", Key: constKey, Limits: core.MustParseLimits("100/h;fixed-window"), Cost: func(*http.Request) int { return 10 }, CostAfter: func(*http.Request, core.Outcome) int { return 1 }},
	}
}

// TestWaitingHoldsNothing checks that a request holds nothing until its turn and makes two calls in all. Other requests of the
// same rules are served while it waits, whatever the order of the rules.
func TestWaitingHoldsNothing(t *testing.T) {
	for place := range 4 {
		synctest.Test(t, func(t *testing.T) {
			s := &hooked{take: func() {}}
			var seen []string
			observe := func(_ context.Context, o *core.Observation) {
				if o.Outcome == nil {
					s.mu.Lock()
					seen = append(seen, fmt.Sprint(o.Allowed, len(o.Results)))
					s.mu.Unlock()
				}
			}
			l := core.Must(core.New(slices.Insert(holding(), place, waiting("1/m;burst=1", time.Hour)), core.WithStore(s), core.WithObserver(observe)))
			if d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"}); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			begun, went := time.Now(), make(chan core.Guard)
			for range 3 {
				go func() {
					g, err := l.Guard(t.Context(), get("/"), nil)
					if err != nil || !g.Admitted() || !g.Watches() {
						t.Errorf("%+v, %v", g.Decision(), err)
					}
					went <- g
				}()
			}
			time.Sleep(30 * time.Second)
			s.mu.Lock()
			if held, n := s.Stats().Held, l.StoreHealth().Waiting; held != 0 || n != 3 || len(seen) != 1 {
				t.Errorf("%d claims held while %d requests wait, observed %q", held, n, seen)
			}
			s.mu.Unlock()
			others := []core.Claim{{Rule: "places", Key: "const:all", Hold: true}, {Rule: "both", Key: "const:all", Hold: true}}
			for range 2 {
				d, err := l.Take(t.Context(), others...)
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v; want both places free", d, err)
				}
				if err := l.Refund(t.Context(), d); err != nil {
					t.Error(err)
				}
			}
			s.mu.Lock()
			takes, settles := s.takes, s.settles
			s.mu.Unlock()
			for i := range 3 {
				g := <-went
				d := g.Decision()
				var rules []string
				for _, r := range d.Results {
					rules = append(rules, r.Rule)
				}
				want := slices.Insert([]string{"places", "both", "both", "later"}, []int{0, 1, 3, 4}[place], "r")
				if time.Since(begun) != time.Duration(i+1)*time.Minute || !slices.Equal(rules, want) || !d.At.Add(d.Wait).Equal(time.Now()) {
					t.Errorf("after %v: %+v", time.Since(begun), d)
				}
				if held := s.Stats().Held; held != 3 {
					t.Errorf("%d claims held at the turn, want 3", held)
				}
				g.Settle(core.Outcome{Status: 200})
				g.End()
			}
			if s.takes != takes+3 || s.settles != settles+3 || s.Stats().Held != 0 || len(seen) != 6 {
				t.Errorf("%d takes and %d settles for the turns of 3 requests, %d claims held, observed %q", s.takes-takes, s.settles-settles, s.Stats().Held, seen)
			}
			if d, _ := l.Take(t.Context(), core.Claim{Rule: "later", Key: "const:all", Peek: true}); d.Results[0].Remaining != 97 {
				t.Errorf("%+v, want 3 charged", d)
			}
		})
	}
}

// TestDeniedAtItsTurn checks that a request gives back all its charges if it is denied a place at its turn, or if the store
// fails then and a rule fails closed. Observers get one observation.
func TestDeniedAtItsTurn(t *testing.T) {
	for _, fails := range []bool{false, true} {
		for _, wait := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				down := false
				store := &onlyHolds{hooked: &hooked{take: func() {}}, down: &down}
				seen := new(recorder)
				rules := append(holding(), waiting("1/m;burst=1", time.Hour), perHour("rate", 9))
				for i := range rules {
					rules[i].OnFailure = core.FailClosed
				}
				l := core.Must(core.New(rules, core.WithStore(store), core.WithObserver(seen.observe)))
				if wait {
					_, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
				}
				hold := core.Claim{Rule: "places", Key: "const:all", Hold: true}
				for range 2 {
					_, _ = l.Take(t.Context(), hold)
				}
				seen.seen, down = nil, fails
				g, err := l.Guard(t.Context(), get("/"), nil)
				switch d := g.Decision(); {
				case fails && !errors.Is(err, core.ErrUnavailable), g.Admitted(), g.Watches():
					t.Errorf("%+v, %v; want ErrUnavailable", d, err)
				case !fails && (err != nil || d.Allowed || d.RetryAfter() != time.Second || d.Wait != 0 || len(d.Results) != 6):
					t.Errorf("%+v, %v; want a denial for 1s", d, err)
				}
				g.End()
				if len(seen.seen) != 1 || seen.seen[0].Allowed || (seen.seen[0].Err != nil) != fails {
					t.Errorf("observed %+v", seen.seen)
				}
				down = false
				d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"}, core.Claim{Rule: "rate", Key: "const:all", Peek: true})
				if !d.Allowed || d.Wait != 0 || d.Results[1].Remaining != 9 {
					t.Errorf("%+v, want all given back", d)
				}
			})
		}
	}
}

// onlyHolds is a store that fails for claims that are held while it is down.
type onlyHolds struct {
	*hooked
	down *bool
}

func (s *onlyHolds) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if *s.down && slices.ContainsFunc(claims, func(c core.Claim) bool { return c.Hold }) {
		return dst, errUnreachable
	}
	return s.hooked.Take(ctx, claims, dst)
}

// TestOutageBeforeTheTurn checks that a request whose store fails before its turn holds in the fallback, and that what was
// charged before is settled in the store.
func TestOutageBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, local := false, new(core.MemoryStore)
		store := &onlyHolds{hooked: &hooked{take: func() {}}, down: &down}
		l := core.Must(core.New(append(holding(), waiting("1/m;burst=1", time.Hour)), core.WithStore(store), core.WithFallback(local)))
		_, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
		down = true
		g, err := l.Guard(t.Context(), get("/"), nil)
		if err != nil || !g.Admitted() || g.Decision().Degraded == nil || store.Stats().Held != 0 || local.Stats().Held != 3 {
			t.Fatalf("%+v, %v; %d claims held in the store, %d in the fallback", g.Decision(), err, store.Stats().Held, local.Stats().Held)
		}
		if err := l.Renew(t.Context(), g.Decision()); err != nil {
			t.Error(err)
		}
		if err := l.Refund(t.Context(), g.Decision()); err != nil {
			t.Error(err)
		}
		g.End()
		if d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"}); d.Wait != 0 || local.Stats().Held != 0 {
			t.Errorf("%+v, %d claims held in the fallback", d, local.Stats().Held)
		}
	})
}

// TestPeeksBeforeTheTurn checks rules that hold something: their rates deny before the request waits, and their in-flight limits
// do not.
func TestPeeksBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := append(holding(), waiting("1/m;burst=1", time.Hour))
		rules[1].Limits = core.MustParseLimits("2 at once, 1/h")
		var seen []core.Claim
		l := core.Must(core.New(rules, core.WithObserver(func(_ context.Context, o *core.Observation) { seen = slices.Clone(o.Claims) })))
		g, err := l.Guard(t.Context(), get("/"), nil)
		if err != nil || !g.Admitted() {
			t.Fatal(err)
		}
		g.End()
		begun := time.Now()
		g, err = l.Guard(t.Context(), get("/"), nil)
		d := g.Decision()
		if err != nil || d.Allowed || d.RetryAfter() != time.Hour || time.Since(begun) > 0 || len(d.Results) != 3 {
			t.Errorf("%+v, %v after %v; want a denial for 1h at once", d, err, time.Since(begun))
		}
		if key, ok := d.Key("places"); !ok || key != "const:all" {
			t.Errorf("the key is %q, %t", key, ok)
		}
		limits := 0
		for _, c := range seen {
			limits += len(c.Limits)
		}
		if len(seen) != 4 || limits != len(d.Results) {
			t.Errorf("observed %d limits of %+v", limits, seen)
		}
		if d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"}); d.Wait != time.Minute {
			t.Errorf("%+v, want that the denied request has booked nothing", d)
		}
	})
}

// TestTakeAndCheckHoldWithoutWaiting checks that Take and Check, which do not sleep, hold in their only call, and that a peek
// counts requests in flight.
func TestTakeAndCheckHoldWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{take: func() {}}
		l := core.Must(core.New(append(holding(), waiting("1/m;burst=1", time.Hour)), core.WithStore(s)))
		for i := range 2 {
			if d, err := l.Check(get("/")); err != nil || !d.Allowed || d.Wait != time.Duration(i)*time.Minute || s.takes != i+1 || s.Stats().Held != 3*(i+1) {
				t.Errorf("%+v, %v after %d takes, %d held", d, err, s.takes, s.Stats().Held)
			}
		}
		for _, decide := range []func(*http.Request) (core.Decision, error){l.Peek, l.Check} {
			if d, err := decide(get("/")); err != nil || d.Allowed || d.RetryAfter() != time.Second {
				t.Errorf("%+v, %v; want no place", d, err)
			}
		}
	})
}

// TestContextEndsBeforeTheHold checks that a request whose context ends while it waits holds and charges nothing, in Guard and Wait.
func TestContextEndsBeforeTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{take: func() {}}
		l := core.Must(core.New(append(holding(), waiting("1/m;burst=1", time.Hour)), core.WithStore(s)))
		_, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
		for _, wait := range []func(ctx context.Context) error{
			func(ctx context.Context) error {
				g, err := l.Guard(ctx, get("/"), nil)
				g.End()
				return err
			},
			func(ctx context.Context) error {
				_, err := l.Wait(ctx, core.Claim{Rule: "r", Key: "const:all"}, core.Claim{Rule: "places", Key: "const:all", Hold: true})
				return err
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			takes, settles := s.takes, s.settles
			if err := wait(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if s.takes != takes+1 || s.settles != settles+1 || s.Stats().Held != 0 || l.StoreHealth().Waiting != 0 {
				t.Errorf("%d takes, %d settles, %d held, %d wait", s.takes-takes, s.settles-settles, s.Stats().Held, l.StoreHealth().Waiting)
			}
		}
	})
}
