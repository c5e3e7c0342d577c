package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
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
			d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
			must.True(t, err == nil && d.Allowed, "%v, %v", d, err)
			begun, went := time.Now(), make(chan core.Guard)
			for range 3 {
				go func() {
					g, err := l.Guard(t.Context(), get("/"), nil)
					expect.True(t, err == nil && g.Admitted() && g.Watches(), "%+v, %v", g.Decision(), err)
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
				d := must.Get(l.Take(t.Context(), others...))(t)
				expect.True(t, d.Allowed, "%+v, want both places free", d)
				expect.NoError(t, l.Refund(t.Context(), d), "Refund")
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
				expect.True(t, time.Since(begun) == time.Duration(i+1)*time.Minute && slices.Equal(rules, want) && d.At.Add(d.Wait).Equal(time.Now()),
					"after %v: %+v", time.Since(begun), d)
				expect.Equal(t, s.Stats().Held, 3, "claims held at the turn")
				g.Settle(core.Outcome{Status: 200})
				g.End()
			}
			expect.True(t, s.takes == takes+3 && s.settles == settles+3 && s.Stats().Held == 0 && len(seen) == 6,
				"%d takes and %d settles for the turns of 3 requests, %d claims held, observed %q", s.takes-takes, s.settles-settles, s.Stats().Held, seen)
			d, _ = l.Take(t.Context(), core.Claim{Rule: "later", Key: "const:all", Peek: true})
			expect.Equal(t, d.Results[0].Remaining, 97, "%+v (3 charged)", d)
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
					rules[i].OnFailure, rules[i].Key = core.FailClosed, constKey
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
				case !fails && (err != nil || d.Allowed || d.RetryAfter() != time.Second || d.Wait != 0 || len(d.Results) != 6 || d.Results[5].Remaining != 9):
					t.Errorf("%+v, %v; want a denial for 1s", d, err)
				}
				g.End()
				expect.True(t, len(seen.seen) == 1 && !seen.seen[0].Allowed && (seen.seen[0].Err != nil) == fails,
					"observed %+v", seen.seen)
				down = false
				d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"}, core.Claim{Rule: "rate", Key: "const:all", Peek: true})
				expect.True(t, d.Allowed && d.Wait == 0 && d.Results[1].Remaining == 9, "%+v, want all given back", d)
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
		bans := core.Rule{Name: "bans", Key: constKey, Limits: core.MustParseLimits("5/h;ban=2h")}
		l := core.Must(core.New(append(holding(), waiting("1/m;burst=1", time.Hour), bans), core.WithStore(store), core.WithFallback(local)))
		_, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
		down = true
		g, err := l.Guard(t.Context(), get("/"), nil)
		must.True(t, err == nil && g.Admitted() && g.Decision().Degraded != nil && store.Stats().Held == 0 && local.Stats().Held == 3,
			"%+v, %v; %d claims held in the store, %d in the fallback", g.Decision(), err, store.Stats().Held, local.Stats().Held)
		expect.NoError(t, l.Renew(t.Context(), g.Decision()), "Renew")
		expect.NoError(t, l.Refund(t.Context(), g.Decision()), "Refund")
		g.End()
		d, _ := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
		charged, err := local.Take(t.Context(), []core.Claim{{Rule: "bans", Key: "const:all", Limits: bans.Limits, Peek: true}}, nil)
		expect.True(t, err == nil && charged[0].Remaining == 5, "charged in the fallback: %+v, %v", charged, err)
		expect.True(t, d.Wait == 0 && local.Stats().Held == 0, "%+v, %d claims held in the fallback", d, local.Stats().Held)
	})
}

// TestPeeksBeforeTheTurn checks rules that hold something: their rates deny before the request waits, and their in-flight limits do not.
func TestPeeksBeforeTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := append(holding(), waiting("1/m;burst=1", time.Hour))
		rules[1].Limits = core.MustParseLimits("2 at once, 1/h")
		var seen []core.Claim
		l := core.Must(core.New(rules, core.WithObserver(func(_ context.Context, o *core.Observation) { seen = slices.Clone(o.Claims) })))
		g, err := l.Guard(t.Context(), get("/"), nil)
		must.True(t, err == nil && g.Admitted(), "%v", err)
		g.End()
		begun := time.Now()
		g, err = l.Guard(t.Context(), get("/"), nil)
		d := g.Decision()
		expect.True(t, err == nil && !d.Allowed && d.RetryAfter() == time.Hour && time.Since(begun) <= 0 && len(d.Results) == 3,
			"%+v, %v after %v; want a denial for 1h at once", d, err, time.Since(begun))
		key, ok := d.Key("places")
		expect.True(t, ok && key == "const:all", "the key is %q, %t", key, ok)
		limits := 0
		for _, c := range seen {
			limits += len(c.Limits)
		}
		expect.True(t, len(seen) == 4 && limits == len(d.Results), "observed %d limits of %+v", limits, seen)
		d, _ = l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all"})
		expect.Equal(t, d.Wait, time.Minute, "%+v (that the denied request has booked nothing)", d)
	})
}

// TestTakeAndCheckHoldWithoutWaiting checks that Take and Check, which do not sleep, hold in their only call, as Guard does for requests
// without a rule that may make them wait, and that a peek counts requests in flight.
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
			d, err := decide(get("/"))
			expect.True(t, err == nil && !d.Allowed && d.RetryAfter() == time.Second, "%+v, %v; want no place", d, err)
			expect.True(t, l.Renew(t.Context(), d) == nil && s.settles == 0, "a denied request renews %d times", s.settles)
		}
		other, dry := waiting("1/m", time.Hour), waiting("1/m", time.Hour)
		other.Name, other.Match, dry.DryRun = "other", func(*http.Request) bool { return false }, true
		s = &hooked{take: func() {}}
		g := must.Get(core.Must(core.New(append(holding(), other, dry), core.WithStore(s))).Guard(t.Context(), get("/"), nil))(t)
		expect.True(t, s.takes == 1 && s.Stats().Held == 3, "%+v after %d takes, %d held", g.Decision(), s.takes, s.Stats().Held)
		g.End()
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
				expect.True(t, !g.Decision().Allowed && len(g.Decision().Results) == 0, "%+v, want nothing after an error", g.Decision())
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
			err := wait(ctx)
			expect.True(t, errors.Is(err, context.Canceled), "%v", err)
			expect.True(t, s.takes == takes+1 && s.settles == settles+1 && s.Stats().Held == 0 && l.StoreHealth().Waiting == 0,
				"%d takes, %d settles, %d held, %d wait", s.takes-takes, s.settles-settles, s.Stats().Held, l.StoreHealth().Waiting)
		}
		begun := time.Now()
		d, err := l.Wait(t.Context(), core.Claim{Rule: "r", Key: "const:all"}, core.Claim{Rule: "places", Key: "const:all", Hold: true},
			core.Claim{Rule: "tightest", Key: "k", Limits: core.MustParseLimits("1/2h;ban=3h")}) // charged at the turn
		expect.True(t, err == nil && d.Allowed && time.Since(begun) == 58*time.Second && d.At.Add(d.Wait).Equal(time.Now()) && s.Stats().Held == 1,
			"%+v, %v after %v, %d held, want that the turn comes as if nobody had been canceled", d, err, time.Since(begun), s.Stats().Held)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s = &hooked{take: func() {}}
		l = core.Must(core.New(append(holding(), waiting("1/m", time.Hour)), core.WithStore(s)))
		g, err := l.Guard(ended, get("/"), nil)
		expect.True(t, err == nil && g.Admitted() && s.Stats().Held == 3 && l.StoreHealth().Waiting == 0,
			"ended, and nothing to wait for: %v, %d held, %d wait", err, s.Stats().Held, l.StoreHealth().Waiting)
		g.End()
	})
}

// A wentOn is a request that went on at an instant, at the cost that it was settled at.
type wentOn struct {
	at   time.Duration
	cost int
}

// checkBound returns an error if in any span more than burst + rate × (span + delay) went on.
func checkBound(l core.Limit, delay time.Duration, went []wentOn) error {
	slices.SortStableFunc(went, func(a, b wentOn) int { return int(a.at - b.at) })
	first, sum := 0, 0 // of the span that leaves the least room
	for i, w := range went {
		if int64(w.at-went[first].at)*int64(l.Rate) >= int64(sum)*int64(l.Period) { // a span that begins here leaves less
			first, sum = i, 0
		}
		sum += w.cost
		if span := w.at - went[first].at + delay; int64(sum-l.Capacity())*int64(l.Period) > int64(span)*int64(l.Rate) {
			return fmt.Errorf("%d of %v went on from %v to %v, delayed by %v at most", sum, l, went[first].at, w.at, delay)
		}
	}
	return nil
}

// TestWaitingRequestsKeepToBurstAndRate checks that in any span of time at most burst + rate × span requests proceed. Requests
// of three processes wait, are canceled, settled at less or refunded at random, and there are bans. In some processes only few
// requests may wait. If another rule delays some requests, the span is longer by that delay.
func TestWaitingRequestsKeepToBurstAndRate(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			limits := core.MustParseLimits([]string{"10/s;burst=1", "10/s;burst=4", "7/s;burst=3", "100/m;burst=20", "90/h;burst=5"}[random.IntN(5)])
			one := limits[0]
			each := one.Period / time.Duration(one.Rate)
			anytime := func(most time.Duration) time.Duration {
				return time.Duration(random.Int64N(int64(most/time.Microsecond))) * time.Microsecond
			}
			store := new(core.MemoryStore)
			begun := time.Now()
			var processes []*core.Limiter
			rules := []core.Rule{{Name: "r", Key: constKey, Limits: limits, MaxWait: min(time.Hour, 20*each)}, {Name: "other", Limits: core.MustParseLimits("2/s"), MaxWait: 3 * time.Second}}
			both := seed%2 == 0
			for _, n := range []int{10_000, 1 + random.IntN(5), 1} {
				processes = append(processes, core.Must(core.New(rules, core.WithStore(store), core.WithMaxWaiting(n))))
			}
			var mu sync.Mutex
			went := make(map[core.Pair][]wentOn)
			delay := time.Duration(0)
			var all sync.WaitGroup
			for range 150 {
				time.Sleep(anytime(2 * each))
				l := processes[random.IntN(len(processes))]
				if random.IntN(30) == 0 {
					must.Do(t, l.Ban(t.Context(), "r", "k", 1+anytime(5*each)))
					continue
				}
				c := core.Claim{Rule: "r", Key: []string{"k", "k", "other"}[random.IntN(3)], Cost: 1 + random.IntN(one.Capacity()), MaxWait: anytime(min(time.Hour, 20*each))}
				claims := []core.Claim{c}
				if both && random.IntN(3) == 0 {
					claims = append(claims, core.Claim{Rule: "other", Key: "k"})
				}
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(5) == 0 {
					time.AfterFunc(anytime(10*each), cancel)
				}
				final, after := c.Cost, anytime(3*each)
				if random.IntN(4) == 0 {
					final = random.IntN(c.Cost + 1)
				}
				all.Go(func() {
					defer cancel()
					d, err := l.Wait(ctx, claims...)
					if err != nil || !d.Allowed {
						return
					}
					at := time.Since(begun)
					mu.Lock()
					if both {
						delay = max(delay, d.Wait)
					}
					for i, c := range claims {
						pair := core.Pair{Rule: c.Rule, Key: c.Key}
						went[pair] = append(went[pair], wentOn{at, []int{final, 1}[i]})
					}
					mu.Unlock()
					if final < c.Cost {
						time.Sleep(after)
						expect.NoError(t, l.Settle(t.Context(), d, "r", final), "Settle")
					}
				})
			}
			all.Wait()
			for pair, all := range went {
				limit := map[string]core.Limit{"r": one, "other": rules[1].Limits[0]}[pair.Rule]
				expect.NoError(t, checkBound(limit, delay, all), "seed %d", seed)
			}
		})
	}
}

// TestBookingsOfAnOutage checks the turns that processes book in memory while the store is down, and in the store before and
// after that. Together, they are at most what the limit admits to as many limiters as there are processes, and one more.
func TestBookingsOfAnOutage(t *testing.T) {
	const processes = 3
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		s := &faulty{fault: func(context.Context) error {
			if down.Load() {
				return errUnreachable
			}
			return nil
		}}
		begun := time.Now()
		var mu sync.Mutex
		var went []wentOn
		var limiters []*core.Limiter
		for range processes {
			limiters = append(limiters, core.Must(core.New([]core.Rule{waiting("10/s;burst=2", 5*time.Second)}, core.WithStore(s))))
		}
		var all sync.WaitGroup
		admitted := map[bool]int{} // with and without the store
		for _, fails := range []bool{false, true, false} {
			down.Store(fails)
			for range 100 {
				for _, l := range limiters {
					all.Go(func() {
						if d, err := l.Wait(t.Context(), job); err != nil {
							t.Error(err)
						} else if d.Allowed {
							mu.Lock()
							defer mu.Unlock()
							admitted[d.Degraded == nil]++
							went = append(went, wentOn{time.Since(begun), 1})
						}
					})
				}
			}
			time.Sleep(3 * time.Second)
		}
		all.Wait()
		expect.NoError(t, checkBound(core.PerSecond(10*(1+processes)).WithBurst(2*(1+processes)), 0, went), "checkBound")
		expect.True(t, admitted[true] >= 50 && admitted[false] >= 50*processes,
			"%d admitted by the store, %d without it", admitted[true], admitted[false])
	})
}

// TestOnePeerTakesAQuarter sends requests with made-up keys, and checks how many requests of one peer may wait.
func TestOnePeerTakesAQuarter(t *testing.T) {
	for why, row := range map[string]struct {
		peer func(i int) string // of request i
		want int                // requests that wait
	}{
		"one connection":           {func(int) string { return "192.0.2.1:1234" }, 2},
		"connections of a host":    {func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1000+i) }, 2},
		"mapped and plain":         {func(i int) string { return []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:1"}[i%2] }, 2},
		"hosts of an IPv6 network": {func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) }, 2},
		"a connection of a proxy":  {func(int) string { return "10.0.0.1:1" }, 2},
		"connections of a proxy":   {func(i int) string { return fmt.Sprintf("[::1]:%d", i+1) }, 8},
		"a Unix socket":            {func(int) string { return "@" }, 8},
		"several hosts":            {func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i+1) }, 8},
		"several IPv6 networks":    {func(i int) string { return fmt.Sprintf("[2001:db8:0:%x::1]:1", i+1) }, 8},
		"no address":               {func(int) string { return "" }, 8},
	} {
		t.Run(why, inBubble(func(t *testing.T) {
			s := &hooked{take: func() {}}
			r := waiting("1/s;burst=1", time.Hour)
			r.Key = func(r *http.Request) (string, error) { return r.Header.Get("Key"), nil }
			l := core.Must(core.New([]core.Rule{r}, core.WithMaxWaiting(8), core.WithStore(s)))
			denied := 0
			var all sync.WaitGroup
			for i := range 20 { // two of each key: one goes at once
				all.Go(func() {
					r := get("/")
					r.RemoteAddr = row.peer(i / 2)
					r.Header.Set("Key", fmt.Sprint("made up ", i/2))
					g, err := l.Guard(t.Context(), r, nil)
					defer g.End()
					expect.NoError(t, err, "unexpected error")
					if !g.Admitted() {
						if denied++; g.Decision().RetryAfter() != time.Second {
							t.Errorf("denied for %v, want 1s", g.Decision().RetryAfter())
						}
					}
				})
				synctest.Wait()
			}
			if n := l.StoreHealth().Waiting; n != row.want || denied != 10-row.want || s.takes != 20 || s.settles != 0 {
				t.Errorf("%d wait and %d were denied in %d takes and %d settles, want %d and %d in 20 and 0", n, denied, s.takes, s.settles, row.want, 10-row.want)
			}
			all.Wait()
			expect.Equal(t, l.StoreHealth().Waiting, 0, "still wait")
		}))
	}
}

// TestOneKeyTakesAQuarterOfItsRule checks that a key at its bound does not stop requests that wait for another rule.
func TestOneKeyTakesAQuarterOfItsRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := waiting("1/m;burst=2", time.Hour)
		other.Name = "other"
		l := core.Must(core.New([]core.Rule{waiting("1/m;burst=1", time.Hour), other}, core.WithMaxWaiting(8)))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 { // one goes at once
			all.Go(func() { _, _ = l.Wait(ctx, job) })
			synctest.Wait()
		}
		both := []core.Claim{job, {Rule: "other", Key: "k"}}
		if d, err := l.Wait(ctx, both...); err != nil || d.Allowed || d.RetryAfter() != 3*time.Minute || !d.Results[1].Allowed {
			t.Errorf("%+v, %v; want a denial for 3m", d, err)
		}
		for range 4 { // two go at once
			all.Go(func() { _, _ = l.Wait(ctx, both[1]) })
			synctest.Wait()
		}
		expect.Equal(t, l.StoreHealth().Waiting, 4, "requests wait")
		cancel()
		all.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		for i := range 6 { // they fit under the other rule, and do not count against its key
			all.Go(func() {
				_, _ = l.Wait(ctx, core.Claim{Rule: "r", Key: fmt.Sprint(i / 2)}, core.Claim{Rule: "other", Key: "k", Limits: []core.Limit{core.PerMinute(100)}})
			})
			synctest.Wait()
		}
		expect.Equal(t, l.StoreHealth().Waiting, 3, "requests with other keys wait")
		cancel()
		all.Wait()
	})
}
