package redisx_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// denying runs f in a bubble, with a store that has a deny cache, another without one, and a client to count calls
// with. The server decides by the clock of the bubble.
func denying(t *testing.T, size int, f func(t *testing.T, cached, plain *redisx.Store, client *redis.Client)) {
	server := redistest.Start(t, redistest.KeepKeys...)
	synctest.Test(t, func(t *testing.T) {
		client := single(server)(t)
		o := options
		o.DenyCache = size
		cached, plain := redisx.New(client, o), redisx.New(client, options)
		cached.SetClock(time.Now)
		plain.SetClock(time.Now)
		f(t, cached, plain, client.(*redis.Client))
	})
}

func TestRememberedDenialIsAnsweredWithoutTheServer(t *testing.T) {
	denying(t, 10, func(t *testing.T, s, plain *redisx.Store, client *redis.Client) {
		c, other := claimOf("k", core.PerHour(2), core.PerDay(50)), claimOf("other", core.PerHour(9))
		c.Cost = 2
		take(t, s, c, other)
		first := take(t, s, c, other)
		before := calls(t, client, "fcall")
		for n := range 20 {
			passed := time.Duration(n+1) * 10 * time.Millisecond
			time.Sleep(10 * time.Millisecond)
			again, ok := s.TakeLocal([]core.Claim{c, other}, make([]core.Result, 1))
			must.True(t, ok && len(again) == 4, "%+v, %v", again, ok)
			for i, r := range again[1:] {
				if first[i].RetryAfter > 0 {
					r.RetryAfter += passed
				}
				r.RefillAfter, r.ResetAfter = r.RefillAfter+passed, r.ResetAfter+passed
				r.At = r.At.Add(-passed)
				expect.Equal(t, r, first[i], "result %d: less the time that passed", i)
			}
			other.Peek = true
			now, _ := plain.Take(context.Background(), []core.Claim{other}, nil)
			other.Peek = false
			expect.Equal(t, now[0].At.Sub(again[1].At), 0, "decided ago")
		}
		if after := calls(t, client, "fcall"); after != before+21 { // of plain, which first tries the function
			t.Errorf("%d calls for 20 remembered denials", after-before-21)
		}
	})
}

func TestPeeksAndDryRunsAreNotRemembered(t *testing.T) {
	denying(t, 10, func(t *testing.T, s, _ *redisx.Store, client *redis.Client) {
		c := claimOf("k", core.PerHour(1))
		c.Cost = 2
		for _, change := range []func(*core.Claim){func(c *core.Claim) { c.Peek = true }, func(c *core.Claim) { c.DryRun = true }} {
			changed := c
			change(&changed)
			before := calls(t, client, "fcall") + calls(t, client, "eval")
			for range 3 {
				take(t, s, changed)
			}
			after := calls(t, client, "fcall") + calls(t, client, "eval")
			expect.AtLeast(t, after, before+3, "%d calls for 3 of %+v", after-before, changed)
		}
	})
}

// A denial, such as one by a calendar limit, is remembered until its wait ends, and not longer.
func TestRememberedDenialEndsAfterItsRetryAfter(t *testing.T) {
	for _, limit := range []core.Limit{core.Every(1, 300*time.Millisecond), core.PerDay(1).In("Europe/Berlin"), core.PerMonth(1).In("America/Havana").From(31)} {
		denying(t, 10, func(t *testing.T, s, _ *redisx.Store, _ *redis.Client) {
			if _, turn := limit.Calendar.Window(time.Now()); !turn.IsZero() {
				time.Sleep(time.Until(turn) - 300*time.Millisecond)
			}
			end, c := time.Now().Add(300*time.Millisecond), claimOf("k", limit)
			take(t, s, c)
			if r := take(t, s, c)[0]; r.Allowed || r.RetryAfter != 300*time.Millisecond {
				t.Errorf("%v: %+v, want a denial for 300ms", limit, r)
			}
			time.Sleep(time.Until(end) - time.Microsecond)
			r, ok := s.TakeLocal([]core.Claim{c}, nil)
			expect.True(t, ok && r[0].RetryAfter == time.Microsecond, "%v: forgotten before the end, or %+v", limit, r)
			time.Sleep(time.Microsecond)
			if r := take(t, s, c)[0]; !r.Allowed {
				t.Errorf("%v: denied after its RetryAfter: %+v", limit, r)
			}
		})
	}
}

func TestDenialIsRememberedForASecondAtMost(t *testing.T) {
	denying(t, 10, func(t *testing.T, s, plain *redisx.Store, _ *redis.Client) {
		c := claimOf("k", core.PerHour(1))
		take(t, s, c)
		take(t, s, c)
		must.Do(t, plain.Reset(context.Background(), pairsOf(c)))
		time.Sleep(time.Second - 1)
		r := take(t, s, c)[0]
		expect.True(t, !r.Allowed, "forgotten within a second: %+v", r)
		time.Sleep(time.Nanosecond)
		r = take(t, s, c)[0]
		expect.True(t, r.Allowed, "denied a second after a reset by another process: %+v", r)
	})
}

func TestResetAndRefundEndARememberedDenial(t *testing.T) {
	denying(t, 10, func(t *testing.T, s, _ *redisx.Store, _ *redis.Client) {
		ctx := context.Background()
		for _, l := range everyAlgorithm(1, ages) {
			c := []core.Claim{claimOf("k", l)}
			results, err := s.Take(ctx, c, nil)
			must.True(t, err == nil && !allowed(take(t, s, c...)), "%v: not denied, %v", l, err)
			must.Do(t, s.Settle(ctx, settled(c, results)))
			expect.True(t, allowed(take(t, s, c...)) && !allowed(take(t, s, c...)), "%v: a refund did not count", l)
			must.Do(t, s.Reset(ctx, pairsOf(c...)))
			expect.True(t, allowed(take(t, s, c...)), "%v: a reset did not count", l)
			time.Sleep(time.Microsecond) // what is charged at the instant of a reset is not given back
			must.Do(t, s.Reset(ctx, pairsOf(c...)))
			time.Sleep(time.Microsecond)
		}
	})
}

func TestDenyCacheIsBounded(t *testing.T) {
	denying(t, 3, func(t *testing.T, s, _ *redisx.Store, client *redis.Client) {
		claims := make([]core.Claim, 10)
		for i := range claims {
			claims[i] = claimOf(fmt.Sprint(i), core.PerDay(1))
			claims[i].Cost = 2
			take(t, s, claims[i])
		}
		before := calls(t, client, "fcall")
		for _, c := range claims {
			take(t, s, c)
		}
		expect.AtLeast(t, calls(t, client, "fcall")-before, 7, "of 10 denials asked the server at least (the cache keeps 3)")
	})
}

func TestDenialCausedByHoldsIsNotRemembered(t *testing.T) {
	denying(t, 10, func(t *testing.T, s, _ *redisx.Store, _ *redis.Client) {
		ctx := context.Background()
		for _, limits := range []string{"2/h", "1 at once"} {
			c := claimOf(limits, core.MustParseLimits(limits)...)
			c.Hold, c.Cost = true, 2
			held, err := s.Take(ctx, []core.Claim{c}, nil)
			must.True(t, err == nil && allowed(held), "%v, %v", held, err)
			r := take(t, s, c)[0]
			expect.True(t, !r.Allowed && r.RetryAfter == time.Second, "%s: %+v, want a hint of 1s", limits, r)
			_, ok := s.TakeLocal([]core.Claim{c}, nil)
			expect.True(t, !ok, "%s: the denial is remembered", limits)
		}
	})
}

// A store that remembers denials returns the same results as a store that does not, whatever this process charges, settles and
// resets in the meantime.
func TestRememberedDenialsChangeNoAnswer(t *testing.T) {
	kinds := []core.Claim{
		{Rule: "hour", Limits: core.MustParseLimits("5/h")},
		{Rule: "burst", Limits: core.MustParseLimits("5/s;burst=1")},
		{Rule: "window", Limits: core.MustParseLimits("4/2s;fixed-window, 9/m;sliding-log")},
		{Rule: "sliding", Limits: core.MustParseLimits("3/s;sliding-window")},
		{Rule: "waits", Limits: core.MustParseLimits("3/s"), MaxWait: time.Second},
		{Rule: "ban", Limits: core.MustParseLimits("6/s;ban=1s")},
	}
	for seed := range uint64(6) {
		denying(t, 64, func(t *testing.T, s, _ *redisx.Store, client *redis.Client) {
			plain := redisx.New(client, redisx.Options{Prefix: "plain"})
			plain.SetClock(time.Now)
			random, remembered := rand.New(rand.NewPCG(seed, 0)), 0
			var last []core.Claim
			for n := range 400 {
				var claims []core.Claim
				for _, c := range kinds {
					if random.IntN(4) == 0 {
						c.Key, c.Cost = fmt.Sprint("k", random.IntN(2)), 1+random.IntN(7)/3
						c.MaxWait = time.Duration(random.IntN(3)) * c.MaxWait / 2
						c.Peek, c.DryRun = random.IntN(20) == 0, random.IntN(20) == 0
						claims = append(claims, c)
					}
				}
				if random.IntN(2) == 0 || len(claims) == 0 {
					claims = last
				}
				if last = claims; len(claims) == 0 {
					continue
				}
				if _, ok := s.TakeLocal(claims, nil); ok {
					remembered++
				}
				got, want := take(t, s, claims...), take(t, plain, claims...)
				must.True(t, slices.Equal(got, want), "seed %d, request %d, %+v:\n%+v, want\n%+v", seed, n, claims, got, want)
				if random.IntN(8) == 0 && allowed(want) {
					for _, store := range []*redisx.Store{s, plain} {
						must.Do(t, store.Settle(context.Background(), settled(claims, want)))
					}
				}
				time.Sleep(time.Duration(random.IntN(80_000)) * time.Microsecond * time.Duration(random.IntN(2)))
			}
			expect.AtLeast(t, remembered, 10, "seed %d: remembered denials", seed)
		})
	}
}

// The denial of a request that may wait also denies a request that may wait for less time.
func TestRememberedDenialAnswersSmallerMaxWaits(t *testing.T) {
	denying(t, 64, func(t *testing.T, s, plain *redisx.Store, client *redis.Client) {
		a := core.Claim{Rule: "a", Key: "k", Limits: core.MustParseLimits("1/s"), MaxWait: 3 * time.Second}
		b := core.Claim{Rule: "b", Key: "k", Limits: core.MustParseLimits("5/s"), MaxWait: time.Second}
		for range 4 {
			take(t, s, a)
		}
		for range 6 {
			take(t, s, b)
		}
		must.True(t, !allowed(take(t, s, a, b)), "a fifth request may wait")
		time.Sleep(30 * time.Millisecond)
		for _, waits := range [][2]time.Duration{{3000, 1000}, {2999, 1000}, {2500, 0}, {3000, 1}, {3000, 170}, {0, 171}, {0, 0}, {1000, 500}} {
			a.MaxWait, b.MaxWait = waits[0]*time.Millisecond, waits[1]*time.Millisecond
			got, ok := s.TakeLocal([]core.Claim{a, b}, nil)
			want := take(t, plain, a, b)
			expect.True(t, ok && slices.Equal(got, want), "%v: %v, %+v, want %+v", waits, ok, got, want)
		}
		for _, waits := range [][2]time.Duration{{3001, 1000}, {3000, 1001}} {
			a.MaxWait, b.MaxWait = waits[0]*time.Millisecond, waits[1]*time.Millisecond
			r, ok := s.TakeLocal([]core.Claim{a, b}, nil)
			expect.True(t, !ok, "%v, which is longer: %+v", waits, r)
		}
	})
}

// No request waits while a pair holds something, so such a denial says nothing about other waits.
func TestDenialOfAWaitBehindHoldsIsNotRemembered(t *testing.T) {
	denying(t, 64, func(t *testing.T, s, _ *redisx.Store, _ *redis.Client) {
		held := claimOf("k", core.PerMinute(2))
		held.Hold = true
		take(t, s, held)
		waits := claimOf("k", core.PerMinute(2))
		waits.MaxWait, waits.Cost = time.Second, 2
		take(t, s, claimOf("k", core.PerMinute(2)))
		must.True(t, !allowed(take(t, s, waits)), "it is not denied")
		r, ok := s.TakeLocal([]core.Claim{waits}, nil)
		expect.True(t, !ok, "the denial is remembered: %+v", r)
	})
}

func TestRememberedDenialOfACostThatNeverFitsStaysOne(t *testing.T) {
	denying(t, 64, func(t *testing.T, s, _ *redisx.Store, _ *redis.Client) {
		c := claimOf("k", core.PerHour(2))
		c.Cost, c.MaxWait = 3, time.Second
		take(t, s, c)
		time.Sleep(10 * time.Millisecond)
		c.MaxWait = 0
		r, ok := s.TakeLocal([]core.Claim{c}, nil)
		expect.True(t, ok && r[0].RetryAfter == core.Never, "%v, %+v, want a denial with core.Never", ok, r)
	})
}

// Holds, dry runs and requests that a lease admits charge a pair, too.
func TestEachKindOfChargeEndsARememberedDenial(t *testing.T) {
	denying(t, 64, func(t *testing.T, s, plain *redisx.Store, _ *redis.Client) {
		for name, change := range map[string]func(*core.Claim){
			"charge":  func(*core.Claim) {},
			"hold":    func(c *core.Claim) { c.Hold = true },
			"dry run": func(c *core.Claim) { c.DryRun = true },
			"another": func(c *core.Claim) { c.Limits = core.MustParseLimits("90/m") },
		} {
			a, b := claimOf(name, core.PerHour(5)), core.Claim{Rule: "b", Key: name, Limits: core.MustParseLimits("5/s;burst=1")}
			take(t, s, b)
			take(t, s, a, b)
			must.True(t, remembers(s, a, b), "%s: the denial is not remembered", name)
			peek := a
			peek.Peek = true
			expect.True(t, allowed(take(t, s, peek)) && remembers(s, a, b), "%s: a peek has ended the denial", name)
			charge := a
			change(&charge)
			take(t, s, charge)
			expect.True(t, !remembers(s, a, b), "%s: the denial is still remembered", name)
			take(t, s, a, b)
			expect.True(t, remembers(s, a, b), "%s: no later denial is remembered", name)
			if _, err := s.Take(canceled(), []core.Claim{a}, nil); err == nil || remembers(s, a, b) {
				t.Errorf("%s: %v, and the denial is still remembered, although a may have been charged", name, err)
			}
		}
	})
}

func remembers(s *redisx.Store, claims ...core.Claim) bool {
	_, ok := s.TakeLocal(claims, nil)
	return ok
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// An address that has used up its limit sends logins for another user, whose key is in another slot, from 64 connections. These
// denied requests must not make the server deny the user's own requests.
func TestDeniedClientKeepsNoOtherIdentityCharged(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, size := range []int{0, 100} {
		flush(t, cluster.Client(t))
		o := options
		o.DenyCache = size
		s := redisx.New(cluster.Client(t), o)
		attacker := core.Claim{Rule: "ip", Key: "ip:192.0.2.1", Limits: core.MustParseLimits("5/1000d;fixed-window")}
		victim := core.Claim{Rule: "ip", Key: "ip:203.0.113.9", Limits: core.MustParseLimits("1000/1000d;fixed-window")}
		login := core.Claim{Rule: "login", Key: "user:victim", Limits: core.MustParseLimits("40/1000d;fixed-window")}
		for range 6 {
			take(t, s, attacker)
		}
		stop := attack(t, s, attacker, login)
		served := 0
		for range 50 {
			if allowed(take(t, s, victim, login)) {
				served++
			}
			time.Sleep(time.Millisecond)
		}
		if passed := stop(); served < 38 || served > 40 || passed > 0 {
			t.Errorf("deny cache of %d: the victim was served %d times of 40, the attacker %d times of 0", size, served, passed)
		}
	}
}

// A charge that begins a ban waits until all slots have admitted the request: the refund of a denied one would not end the ban.
func TestDeniedRequestBansNoOtherIdentity(t *testing.T) {
	s := redisx.New(redistest.StartCluster(t).Client(t), options)
	attacker := core.Claim{Rule: "ip", Key: "ip:192.0.2.1", Limits: core.MustParseLimits("1/h")}
	for i, key := range []string{"user:a", "user:b", "user:c"} { // at least one is in another slot
		victim := core.Claim{Rule: "login", Key: key, Limits: core.MustParseLimits("5/10m;ban=1h"), Cost: 4}
		take(t, s, victim)
		victim.Cost = 1
		isAdmitted := i == 0
		must.True(t, allowed(take(t, s, victim, attacker)) == isAdmitted, "request %d, of 1 an hour", i+1)
		victim.Peek = true
		r := take(t, s, victim)[0]
		expect.True(t, r.Allowed != isAdmitted && (r.RetryAfter > 59*time.Minute) == isAdmitted, "%s: %+v, want a ban of user:a alone", key, r)
	}
}

// attack sends requests of 64 callers until stop is called, which returns how many were admitted. It returns once many are denied.
func attack(t *testing.T, s *redisx.Store, claims ...core.Claim) (stop func() (passed int64)) {
	ctx, cancel := context.WithCancel(context.Background())
	var attackers sync.WaitGroup
	var denied, passed atomic.Int64
	for range 64 {
		attackers.Go(func() {
			for ctx.Err() == nil {
				results, ok := s.TakeLocal(claims, nil)
				var err error
				if !ok {
					results, err = s.Take(context.Background(), claims, nil)
				}
				switch {
				case err != nil:
					t.Error(err)
				case allowed(results):
					passed.Add(1)
				default:
					denied.Add(1)
				}
			}
		})
	}
	redistest.Wait(t, "the attack to begin", func() bool { return denied.Load() > 200 })
	return func() int64 {
		cancel()
		attackers.Wait()
		return passed.Load()
	}
}

func TestAdmittingPeekIsFollowedByACharge(t *testing.T) {
	t.Parallel()
	s := redisx.New(redistest.StartCluster(t).Client(t), options)
	a, b := claimOf("a", core.MustParseLimits("2/h")...), claimOf("b", core.MustParseLimits("9/h")...)
	for range 3 {
		take(t, s, a, b)
	}
	must.Do(t, s.Reset(context.Background(), pairsOf(a)))
	r := take(t, s, a, b)
	expect.True(t, allowed(r) && r[0].Remaining == 1 && r[1].Remaining == 6, "after a reset: %+v, want it charged", r)
	b.Peek = true
	r = take(t, s, b)
	expect.Equal(t, r[0].Remaining, 6, "%+v remaining", r)
}
