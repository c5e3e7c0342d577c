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
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A leasing store leases whatever can be leased.
type leasing struct {
	*redisx.Store
	lease time.Duration
}

func (l leasing) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	claims = slices.Clone(claims)
	for i := range claims {
		if claims[i].MaxWait == 0 {
			claims[i].Lease = l.lease
		}
	}
	if results, ok := l.TakeLocal(claims, dst); ok {
		return results, nil
	}
	return l.Store.Take(ctx, claims, dst)
}

func (l leasing) Settle(ctx context.Context, settlements []core.Settlement) error {
	leased := slices.Clone(settlements)
	for i := range leased {
		if leased[i].MaxWait == 0 {
			leased[i].Lease = l.lease
		}
	}
	err := l.Store.Settle(ctx, leased)
	for i, c := range leased {
		if c.Renew {
			settlements[i].At = c.At
		}
	}
	return err
}

// leasesEnd waits until nothing is leased any more and all is given back.
func leasesEnd(t *testing.T, s *redisx.Store) {
	t.Helper()
	for range 2 { // a call may be about to begin
		redistest.Wait(t, "the leases to end", s.LeasesEnded)
		time.Sleep(time.Millisecond)
	}
}

func TestAStoreWithLeasesFulfilsTheContract(t *testing.T) {
	client := single(redistest.Start(t))
	for _, lease := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
		t.Run(lease.String(), func(t *testing.T) {
			storetest.Run(t, storetest.Harness{New: func(t *testing.T) core.Store {
				c := client(t)
				flush(t, c)
				s := redisx.New(c, options)
				s.SetClock(time.Now)
				t.Cleanup(func() { leasesEnd(t, s) })
				return leasing{s, lease}
			}})
		})
	}
}

// A connect returns a client for a synctest bubble, which is closed when the test ends.
type connect func(*testing.T) redis.UniversalClient

func single(s *redistest.Server) connect {
	return func(t *testing.T) redis.UniversalClient { return s.Client(t) }
}

func clustered(cluster *redistest.Cluster) connect {
	return func(t *testing.T) redis.UniversalClient {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cluster.Nodes[0].Addr}, ReadTimeout: time.Minute, PoolSize: redistest.BubblePool})
		redistest.CloseInBubble(t, c)
		return c
	}
}

// inBubble runs f in a synctest bubble, with n stores. The servers, which are outside, decide at the instants of the
// bubble's clock. It goes on only while all goroutines sleep: calls take no time, and no deadline passes meanwhile.
func inBubble(t *testing.T, c connect, n int, f func(*testing.T, []*redisx.Store)) {
	synctest.Test(t, func(t *testing.T) {
		stores := make([]*redisx.Store, n)
		for i := range stores {
			stores[i] = redisx.New(c(t), options)
			stores[i].SetClock(time.Now)
		}
		f(t, stores)
	})
}

// leased returns c with a lease that does not end during a test.
func leased(c core.Claim) core.Claim {
	c.Lease = 10 * time.Second
	return c
}

// granted waits until no grant is in flight.
func granted(t *testing.T, stores ...*redisx.Store) {
	t.Helper()
	for _, s := range stores {
		redistest.Wait(t, "the grants", func() bool { return s.GrantsInFlight() == 0 })
	}
}

// warm takes c until its lease is likely to have some requests left, and returns how often that was.
func warm(t *testing.T, s *redisx.Store, c core.Claim) int {
	t.Helper()
	for n := 1; ; n++ {
		if n > 100 {
			t.Fatal("nothing is leased")
		}
		if !allowed(take(t, s, c)) {
			t.Fatal("denied while warming up")
		}
		granted(t, s)
		if s.LeaseStats().Decisions > 4 {
			return n
		}
	}
}

// isLocal reports whether c is decided without a call.
func isLocal(s *redisx.Store, c ...core.Claim) ([]core.Result, bool) { return s.TakeLocal(c, nil) }

// Remaining is the capacity less the requests of this process, however many are leased, so the last request is exact.
func TestWhatRemainsCountsWhatIsLeased(t *testing.T) {
	for _, limits := range []string{"300/d", "300/d;fixed-window", "300/d, 400/h;fixed-window, 5000/365d"} {
		t.Run(limits, func(t *testing.T) {
			s, _ := frozen(t)
			c := leased(claimOf("k", core.MustParseLimits(limits)...))
			for i := range 300 {
				r := take(t, s, c)
				if !allowed(r) || r[0].Remaining != 299-i {
					t.Fatalf("request %d: %+v", i+1, r[0])
				}
				if len(r) > 1 && (r[1].Remaining != 399-i || r[2].Remaining != 4999-i) {
					t.Fatalf("request %d: %+v", i+1, r)
				}
				for _, one := range r {
					if one.RefillAfter <= 0 || one.ResetAfter < one.RefillAfter || one.RetryAfter != 0 || one.Rule != "rule" {
						t.Fatalf("request %d: %+v", i+1, one)
					}
				}
				if i%7 == 0 {
					granted(t, s)
				}
			}
			if r := take(t, s, c); allowed(r) || r[0].Remaining != 0 || r[0].RetryAfter <= 0 {
				t.Errorf("the request beyond the limit: %+v", r[0])
			}
			if n := s.LeaseStats().Decisions; n < 150 {
				t.Errorf("%d of 300 requests were decided from the lease, want most", n)
			}
		})
	}
}

func TestACallForAKeyThatIsAskedOnceIsTheOnlyOne(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for i := range 50 {
		take(t, s, leased(claimOf(fmt.Sprint(i), core.PerDay(100))))
	}
	granted(t, s)
	if n, keys := calls(t, client, "fcall"), s.LeaseStats().Keys; n > 51 || keys != 0 {
		t.Errorf("%d calls for 50 keys, %d of them leased", n, keys)
	}
}

func TestABusyKeyTakesFewCalls(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerSecond(1_000_000)))
	for range 10_000 {
		take(t, s, c)
	}
	granted(t, s)
	if n := calls(t, client, "fcall"); n > 200 {
		t.Errorf("%d calls for 10,000 requests", n)
	}
}

// All or nothing: requests taken from a lease are put back if the store denies the rest, or fails.
func TestALeaseTakesBackWhatTheRestDenies(t *testing.T) {
	s, server := frozen(t)
	a, b := leased(claimOf("a", core.PerDay(100))), claimOf("b", core.PerDay(1))
	used := warm(t, s, a)
	r := take(t, s, a, b)
	if used++; !allowed(r) || r[0].Remaining != 100-used || r[1].Remaining != 0 {
		t.Fatalf("got %+v", r)
	}
	decisions := s.LeaseStats().Decisions
	for range 3 {
		r = take(t, s, a, b)
		if !r[0].Allowed || r[0].Remaining != 100-used || r[1].Allowed {
			t.Errorf("denied: %+v", r)
		}
	}
	server.SetError("down")
	for range 3 {
		if _, err := s.Take(context.Background(), []core.Claim{a, b}, nil); err == nil {
			t.Error("a server that fails decided")
		}
	}
	server.SetError("")
	if n := s.LeaseStats().Decisions; n != decisions {
		t.Errorf("%d decisions from leases, want %d", n, decisions)
	}
	if r, ok := isLocal(s, a); !ok || r[0].Remaining != 99-used {
		t.Errorf("afterwards: %+v, %v, want %d remaining in the lease", r, ok, 99-used)
	}
}

func TestAPeekTakesNothingFromALease(t *testing.T) {
	s, _ := frozen(t)
	c := leased(claimOf("k", core.PerDay(100)))
	used := warm(t, s, c)
	peek := c
	peek.Peek = true
	for range 3 {
		if r, ok := isLocal(s, peek); !ok || !r[0].Allowed || r[0].Remaining != 100-used {
			t.Errorf("got %+v, %v", r, ok)
		}
	}
	peek.Cost = 100 - used
	if r := take(t, s, peek)[0]; !r.Allowed || r.Remaining != 100-used {
		t.Errorf("a peek for all that remains: %+v", r)
	}
	peek.Cost++
	if r := take(t, s, peek)[0]; r.Allowed || r.Remaining != 100-used {
		t.Errorf("a peek for more: %+v", r)
	}
}

// The call for a claim that cannot be leased gives back the lease of its key.
func TestWhatIsHeldDoesNotStandInTheWayOfOtherClaims(t *testing.T) {
	for name, change := range map[string]func(*core.Claim){
		"a dry run":    func(c *core.Claim) { c.DryRun = true },
		"a hold":       func(c *core.Claim) { c.Hold = true },
		"no lease":     func(c *core.Claim) { c.Lease = 0 },
		"other limits": func(c *core.Claim) { c.Limits = append(c.Limits, core.PerHour(1000)) },
		"other tiers":  func(c *core.Claim) { c.Limits = core.MustParseLimits("100/d;sliding-log, 100/d") },
		"its own":      func(*core.Claim) {},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := frozen(t)
			c := leased(claimOf("k", core.PerDay(100)))
			used := warm(t, s, c)
			change(&c)
			c.Cost = 100 - used
			if r := take(t, s, c); !allowed(r) || r[0].Remaining != 0 && c.Limits[0].Algorithm == core.TokenBucket {
				t.Errorf("all that remains: %+v", r)
			}
		})
	}
	t.Run("twice in a request", func(t *testing.T) {
		s, _ := frozen(t)
		c := leased(claimOf("k", core.PerDay(100)))
		used := warm(t, s, c)
		other := c
		c.Cost = 99 - used
		if r := take(t, s, c, other); !allowed(r) || r[0].Remaining != 0 {
			t.Errorf("all that remains: %+v", r)
		}
	})
}

func TestAResetEndsALease(t *testing.T) {
	s, server := frozen(t)
	c := leased(claimOf("k", core.PerDay(100)))
	warm(t, s, c)
	server.SetTime(start.Add(time.Second))
	if err := s.Reset(context.Background(), pairsOf(c)); err != nil {
		t.Fatal(err)
	}
	if r, ok := isLocal(s, c); ok {
		t.Errorf("decided from a lease from before: %+v", r)
	}
	if r := take(t, s, c)[0]; r.Remaining != 99 {
		t.Errorf("after a reset: %+v, want 99 remaining", r)
	}
}

func TestABanEndsALease(t *testing.T) {
	s, _ := frozen(t)
	c := leased(claimOf("k", core.PerDay(100)))
	warm(t, s, c)
	if err := s.Settle(context.Background(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Ban: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if r := take(t, s, c)[0]; r.Allowed || r.RetryAfter != time.Hour {
		t.Errorf("banned: %+v", r)
	}
}

// A request that a lease has admitted is settled without a call while its portion lives, and in the store after that.
func TestARefundGoesBackIntoTheLease(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerDay(1000)))
	used := warm(t, s, c)
	c.Cost = 2
	r, ok := isLocal(s, c)
	for !ok {
		take(t, s, c)
		granted(t, s)
		used += 2
		r, ok = isLocal(s, c)
	}
	granted(t, s)
	before := calls(t, client, "fcall")
	back := settled([]core.Claim{c}, r)
	back[0].Final = 1
	if err := s.Settle(context.Background(), back); err != nil {
		t.Fatal(err)
	}
	peek := c
	peek.Cost, peek.Peek = 1, true
	if r, ok := isLocal(s, peek); !ok || r[0].Remaining != 1000-used-1 {
		t.Errorf("after a refund of 1 of 2: %+v, %v, want %d remaining", r, ok, 1000-used-1)
	}
	if n := calls(t, client, "fcall"); n != before {
		t.Errorf("%d calls for a refund", n-before)
	}
	back[0].Final, back[0].Cost = 5, 1
	if err := s.Settle(context.Background(), back); err != nil || calls(t, client, "fcall") != before+1 {
		t.Errorf("a further charge: %v, and %d calls", err, calls(t, client, "fcall")-before)
	}
	other := redisx.New(client, options)
	if r := take(t, other, claimOf("k", core.PerDay(1000)))[0]; r.Remaining > 1000-used-1-4-1 {
		t.Errorf("after a further charge of 4: %+v", r)
	}
}

func TestARefundAfterTheEndOfALeaseGoesToTheStore(t *testing.T) {
	s, _ := frozen(t)
	c := claimOf("k", core.PerDay(100))
	c.Lease = 500 * time.Millisecond
	var r []core.Result
	used, ok := 0, false
	for ; !ok; used++ {
		if r, ok = isLocal(s, c); !ok {
			take(t, s, c)
			granted(t, s)
		}
	}
	leasesEnd(t, s)
	if err := s.Settle(context.Background(), settled([]core.Claim{c}, r)); err != nil {
		t.Fatal(err)
	}
	peek := c
	peek.Peek = true
	if r := take(t, s, peek)[0]; r.Remaining != 100-used+1 && r.Remaining != 100-used {
		t.Errorf("%d remain of 100 after %d requests and a refund", r.Remaining, used)
	}
}

// Unused requests are given back when a lease ends: the store then counts exactly the requests that were served.
func TestWhatIsNotUsedIsGivenBackInTheEnd(t *testing.T) {
	for _, limits := range []string{"100000/d", "100000/d;fixed-window", "90000/d, 100000/d;fixed-window"} {
		t.Run(limits, func(t *testing.T) {
			inBubble(t, single(redistest.Start(t)), 1, func(t *testing.T, s []*redisx.Store) { givesBackAll(t, s[0], core.MustParseLimits(limits)) })
		})
	}
}

// givesBackAll has callers share some keys by leases that end soon, and checks that what was served is charged in the end.
func givesBackAll(t *testing.T, s *redisx.Store, limits []core.Limit) {
	var served atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				c := claimOf(fmt.Sprint((i+g)%5), limits...)
				c.Lease = time.Duration(5+5*(i%2)) * time.Millisecond // and now and then it is another one
				if i%15 > 0 {
					c.Lease = 5 * time.Millisecond
				}
				take(t, s, c)
				served.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
	leasesEnd(t, s)
	used := 0
	for i := range 5 {
		peek := claimOf(fmt.Sprint(i), limits...)
		peek.Peek = true
		r := take(t, s, peek)[0]
		used += r.Limit.Capacity() - r.Remaining
	}
	if used != int(served.Load()) || s.LeaseStats().Returned == 0 {
		t.Errorf("%d requests are charged, %d were served; %+v", used, served.Load(), s.LeaseStats())
	}
}

// Callers that compete for the last requests get them all and no more, because nothing stays in a lease that is too small.
func TestAllOfALimitIsServedAndNoMore(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]connect{"redis": single(redistest.Start(t)), "cluster": clustered(redistest.StartCluster(t))} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, client, 2, func(t *testing.T, stores []*redisx.Store) {
				if n := serveAllOf(t, stores[0], stores[1]); n < 699 || n > 700 {
					t.Errorf("%d requests were served of 700", n)
				}
			})
		})
	}
}

// serveAllOf has callers of two stores use up a limit of 700, and returns how many requests were served.
func serveAllOf(t *testing.T, s, other *redisx.Store) int64 {
	var served atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			from := s
			if g%4 == 0 {
				from = other
			}
			c := claimOf("k", core.MustParseLimits("700/365d")...)
			c.Lease = time.Second
			for denied := 0; denied < 20; {
				if allowed(take(t, from, c)) {
					served.Add(1)
				} else {
					denied++
				}
			}
		})
	}
	wg.Wait()
	for range 2 { // what one gives back the other may get
		for _, from := range []*redisx.Store{s, other} {
			leasesEnd(t, from)
			for allowed(take(t, from, claimOf("k", core.MustParseLimits("700/365d")...))) {
				served.Add(1)
			}
		}
	}
	return served.Load()
}

// behind returns a store behind a proxy, whose client does not give up.
func behind(t *testing.T) (*redisx.Store, *redistest.Proxy) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	return redisx.New(client, options), proxy
}

// While the server is down, requests charged ahead are used up; after that, Take returns an error.
func TestALeaseIsUsedUpWhileTheServerIsAway(t *testing.T) {
	for name, fault := range map[string]redistest.Fault{
		"cut": redistest.CutCommands, "stalled": redistest.SwallowReplies, "loading": {Answer: "LOADING"}, "failing": {Answer: "ERR x"},
	} {
		t.Run(name, func(t *testing.T) {
			s, proxy := behind(t)
			c := leased(claimOf("k", core.PerDay(1000)))
			used := warm(t, s, c)
			proxy.Fault.Store(fault)
			n := 0
			for ; n < 1000; n++ {
				if _, ok := isLocal(s, c); !ok {
					break
				}
			}
			if n == 0 || n >= 1000 {
				t.Fatalf("%d requests were decided from the lease", n)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			if _, err := s.Take(ctx, []core.Claim{c}, nil); err == nil {
				t.Error("a server that is away decided")
			}
			proxy.Fault.Store(redistest.NoFault)
			proxy.Cut() // ends calls that hang
			granted(t, s)
			// Nothing was credited of what got lost: more may be charged than was used, never less.
			var r []core.Result
			redistest.Wait(t, "the server", func() bool {
				got, err := s.Take(context.Background(), []core.Claim{c}, nil)
				r = got
				return err == nil
			})
			if left := 1000 - used - n - 1; r[0].Remaining > left {
				t.Errorf("%d remain, want at most %d", r[0].Remaining, left)
			}
		})
	}
}

// The scripts are sent again to a server that has lost them.
func TestGrantsSurviveAFlushOfTheScripts(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerDay(1000)))
	used := warm(t, s, c)
	for range 300 {
		if used%10 == 0 {
			client.ScriptFlush(context.Background())
		}
		r := take(t, s, c)
		if used++; !allowed(r) || r[0].Remaining != 1000-used {
			t.Fatalf("request %d: %+v", used, r[0])
		}
		granted(t, s)
	}
}

// A failed grant is not asked for again at once.
func TestAFailedGrantIsFollowedByAPause(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := leased(claimOf("k", core.PerDay(1000)))
	warm(t, s, c)
	if err := client.Do(context.Background(), "acl", "setuser", "default", "-hget", "-hmget").Err(); err != nil {
		t.Fatal(err)
	}
	for ok := true; ok; {
		_, ok = isLocal(s, c)
	}
	granted(t, s)
	before := calls(t, client, "fcall")
	for range 20 {
		if _, err := s.Take(context.Background(), []core.Claim{c}, nil); err == nil {
			t.Fatal("decided without a state")
		}
	}
	granted(t, s)
	if n := calls(t, client, "fcall") - before; n > 20 {
		t.Errorf("%d calls for 20 requests", n)
	}
}

// A key whose limits have changed is leased again after a pause.
func TestKeyIsLeasedAgainForOtherLimits(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	for _, limits := range []string{"100000/d", "200000/d"} {
		c := claimOf("k", core.MustParseLimits(limits)...)
		c.Lease = 200 * time.Millisecond
		redistest.Wait(t, "a lease for "+limits, func() bool {
			_, ok := isLocal(s, c)
			if !ok {
				take(t, s, c)
			}
			return ok
		})
	}
}

// TestLeasesWhileTheClockOfTheServerSteps leases a key to three stores while the clock of their server steps forth and
// back. In the end the server has charged the admitted requests, and at most one more for each step.
func TestLeasesWhileTheClockOfTheServerSteps(t *testing.T) {
	for _, limit := range []string{"1000000/80000h", "1000000/1000d;fixed-window", "300/1000h"} {
		t.Run(limit, func(t *testing.T) {
			inBubble(t, single(redistest.Start(t)), 3, func(t *testing.T, stores []*redisx.Store) {
				chargesWhatWasUsed(t, stores, core.MustParseLimits(limit))
			})
		})
	}
}

// chargesWhatWasUsed uses leases of stores for a second, while the clock of their server steps each 50ms, and checks
// that the server has charged the requests that leases decided.
func chargesWhatWasUsed(t *testing.T, stores []*redisx.Store, limits []core.Limit) {
	var step atomic.Int64 // nanoseconds
	r, begun, steps := rand.New(rand.NewPCG(18, 1)), time.Now(), 0
	for _, s := range stores {
		s.SetClock(func() time.Time { return time.Now().Add(time.Duration(step.Load())) })
	}
	claims := []core.Claim{{Rule: "rule", Key: "k", Limits: limits, Cost: 1, Lease: 30 * time.Millisecond}}
	used := 0
	for ; time.Since(begun) < time.Second; time.Sleep(100 * time.Microsecond) {
		if time.Since(begun) > time.Duration(steps)*50*time.Millisecond {
			granted(t, stores...)
			step.Add(int64(r.IntN(20_000)-10_000) * int64(time.Millisecond))
			steps++
		}
		if allowed(takeEither(t, stores[r.IntN(3)], claims)) {
			used++
		}
	}
	for _, s := range stores {
		leasesEnd(t, s)
	}
	claims[0].Peek, claims[0].Lease = true, 0
	if got := limits[0].Capacity() - takeEither(t, stores[0], claims)[0].Remaining; got < used-1 || got > used+steps {
		t.Errorf("%d were used and %d are charged", used, got)
	}
	if decisionsOf(stores) == 0 {
		t.Error("no decision came from a lease")
	}
}

// decisionsOf returns how many decisions of stores came from leases.
func decisionsOf(stores []*redisx.Store) (n uint64) {
	for _, s := range stores {
		n += s.LeaseStats().Decisions
	}
	return n
}

// takeEither decides as a limiter does: locally, or by the server.
func takeEither(t *testing.T, s *redisx.Store, claims []core.Claim) []core.Result {
	t.Helper()
	if results, ok := s.TakeLocal(claims, nil); ok {
		return results
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	results, err := s.Take(ctx, claims, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// TestThousandsOfLeasesEndAtOnce leases many keys that are not asked for again: all is given back, in few calls.
func TestThousandsOfLeasesEndAtOnce(t *testing.T) {
	const keys, asked = 1000, 4
	server := redistest.Start(t)
	admin := server.Client(t)
	inBubble(t, single(server), 1, func(t *testing.T, stores []*redisx.Store) {
		s := stores[0]
		claimsOf := func(i int, lease time.Duration, peek bool) []core.Claim {
			return []core.Claim{{Rule: "rule", Key: fmt.Sprint("k", i), Limits: core.MustParseLimits("1000/1000h"), Lease: lease, Peek: peek}}
		}
		for range asked {
			for i := range keys {
				takeEither(t, s, claimsOf(i, time.Second, false))
			}
			granted(t, s)
		}
		if n := s.LeaseStats().Keys; n < keys*9/10 {
			t.Errorf("%d keys are leased, want most of %d", n, keys)
		}
		before := calls(t, admin, "fcall")
		leasesEnd(t, s)
		if n := calls(t, admin, "fcall") - before; n > keys/10 {
			t.Errorf("%d calls gave back the leases of %d keys", n, keys)
		}
		for i := range keys {
			if n := takeEither(t, s, claimsOf(i, 0, true))[0].Remaining; n != 1000-asked {
				t.Fatalf("key %d: %d remain, want %d", i, n, 1000-asked)
			}
		}
	})
}

// sharedKeys are leased by two stores at once, on several servers.
var sharedKeys = []string{"a", "b", "c", "d"}

// sharedLimit is the limit of each shared key.
var sharedLimit = core.Every(900, ages)

// serveAll has callers of two stores share the keys of a rule until each is used up, and returns how many requests of each were
// served, with what the last leases have given back.
func serveAll(t *testing.T, stores []*redisx.Store, rule string) (served [4]int64) {
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			c := core.Claim{Rule: rule, Key: sharedKeys[g%4], Limits: []core.Limit{sharedLimit}, Lease: 50 * time.Millisecond}
			for denied := 0; denied < 20; time.Sleep(time.Millisecond) { // leases must come and go
				if allowed(takeEither(t, stores[g/8], []core.Claim{c})) {
					atomic.AddInt64(&served[g%4], 1)
				} else {
					denied++
				}
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		leasesEnd(t, s)
	}
	for i, key := range sharedKeys {
		for allowed(take(t, stores[0], core.Claim{Rule: rule, Key: key, Limits: []core.Limit{sharedLimit}})) {
			served[i]++
		}
	}
	return served
}

// checkServed fails the test if a key was served more than all its requests, or less than all but one.
func checkServed(t *testing.T, served [4]int64) {
	t.Helper()
	all := int64(sharedLimit.Rate)
	for i := range served {
		if served[i] > all || served[i] < all-1 {
			t.Errorf("%d requests of %q were served of %d", served[i], sharedKeys[i], all)
		}
	}
}

// bothLease reports whether leases of both stores have decided many requests.
func bothLease(stores []*redisx.Store) bool {
	return min(stores[0].LeaseStats().Decisions, stores[1].LeaseStats().Decisions) >= 100
}

func TestLeasesOnARing(t *testing.T) {
	addrs := map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}
	ring := func(t *testing.T) redis.UniversalClient {
		c := redis.NewRing(&redis.RingOptions{Addrs: addrs, ReadTimeout: time.Minute, PoolSize: redistest.BubblePool})
		redistest.CloseInBubble(t, c)
		return c
	}
	inBubble(t, ring, 2, func(t *testing.T, stores []*redisx.Store) {
		if checkServed(t, serveAll(t, stores, "rule")); !bothLease(stores) {
			t.Errorf("leases have shown little: %+v, %+v", stores[0].LeaseStats(), stores[1].LeaseStats())
		}
	})
}

// abandoned counts calls that a client has given up at their deadline. The server may have executed them.
type abandoned struct{ atomic.Int64 }

func (*abandoned) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*abandoned) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *abandoned) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if ctx.Err() != nil {
			a.Add(1)
		}
		return err
	}
}

// A slot moves to another node while its keys are leased: grants and what is given back follow it. What a process gives
// back in a call without a reply stays charged.
func TestLeasesWhileSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	stores, lost := make([]*redisx.Store, 2), new(abandoned)
	for i := range stores {
		client := cluster.Client(t)
		client.AddHook(lost)
		stores[i] = redisx.New(client, options)
	}
	var done atomic.Bool
	var moved atomic.Int64
	var moves sync.WaitGroup
	moves.Go(func() {
		for i := 0; !done.Load(); i++ {
			key := fmt.Sprintf("{%s}", sharedKeys[i%4])
			slot := cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), key).Val()
			cluster.Move(t, int(slot), (1+i/4)%3)
			moved.Add(1)
		}
	})
	for rule := 0; !bothLease(stores) || moved.Load() < 8; rule++ {
		served := serveAll(t, stores, fmt.Sprint("rule", rule))
		if lost.Load() > 0 {
			for i := range served {
				served[i] = max(served[i], int64(sharedLimit.Rate)-1)
			}
		}
		checkServed(t, served)
	}
	done.Store(true)
	moves.Wait()
}
