package core_test

import (
	"context"
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
	"github.com/spillgate/spillgate/internal/must"
)

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
			rules := []core.Rule{waitingOf(limits, min(time.Hour, 20*each)), {Name: "other", Limits: core.MustParseLimits("2/s"), MaxWait: 3 * time.Second}}
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
						if err := l.Settle(t.Context(), d, "r", final); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			for pair, all := range went {
				limit := map[string]core.Limit{"r": one, "other": rules[1].Limits[0]}[pair.Rule]
				if err := checkBound(limit, delay, all); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
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
		if err := checkBound(core.PerSecond(10*(1+processes)).WithBurst(2*(1+processes)), 0, went); err != nil {
			t.Error(err)
		}
		if admitted[true] < 50 || admitted[false] < 50*processes {
			t.Errorf("%d admitted by the store, %d without it", admitted[true], admitted[false])
		}
	})
}

// waitingOf is waiting for limits that are parsed.
func waitingOf(limits []core.Limit, most time.Duration) core.Rule {
	return core.Rule{Name: "r", Key: constKey, Limits: limits, MaxWait: most}
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
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
						if err != nil {
							t.Error(err)
						}
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
				if all.Wait(); l.StoreHealth().Waiting != 0 {
					t.Errorf("%d still wait", l.StoreHealth().Waiting)
				}
			})
		})
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
		if n := l.StoreHealth().Waiting; n != 4 {
			t.Errorf("%d requests wait, want 4", n)
		}
		cancel()
		all.Wait()
	})
}
