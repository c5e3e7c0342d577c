package redisx_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
	"github.com/spillgate/spillgate/internal/testpass"
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

// leasesEnd waits until nothing is leased any more and all is returned.
func leasesEnd(t *testing.T, s *redisx.Store) {
	t.Helper()
	for range 2 { // a call may be about to begin
		redistest.Wait(t, "the leases to end", s.LeasesEnded)
		time.Sleep(time.Millisecond)
	}
}

func TestStoreWithLeasesKeepsTheContract(t *testing.T) {
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

func ringOf(servers ...*redistest.Server) connect {
	addrs := make(map[string]string)
	for i, s := range servers {
		addrs[fmt.Sprint(i)] = s.Addr
	}
	return func(t *testing.T) redis.UniversalClient {
		c := redis.NewRing(&redis.RingOptions{Addrs: addrs, ReadTimeout: time.Minute, PoolSize: redistest.BubblePool})
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

func refilled(t *testing.T, stores ...*redisx.Store) {
	t.Helper()
	for _, s := range stores {
		redistest.Wait(t, "the refills", func() bool { return s.RefillsInFlight() == 0 })
	}
}

// warm takes c until its lease is likely to have some requests left, and returns how often that was.
func warm(t *testing.T, s *redisx.Store, c core.Claim) int {
	t.Helper()
	for n := 1; ; n++ {
		must.True(t, n <= 100, "nothing is leased")
		must.True(t, allowed(take(t, s, c)), "denied while warming up")
		refilled(t, s)
		if s.LeaseStats().Decisions > 4 {
			return n
		}
	}
}

// TestSettleAndResetReachLeases checks that settlements and resets change the leases of this process, not only the server.
func TestSettleAndResetReachLeases(t *testing.T) {
	s, _ := frozen(t)
	c := leased(claimOf("k", core.PerDay(300)))
	c.Cost = 3
	used := 3 * warm(t, s, c)
	r, ok := s.TakeLocal([]core.Claim{c}, nil)
	must.True(t, ok && s.Settle(t.Context(), settled([]core.Claim{c}, r)) == nil, "not decided from the lease: %+v", r)
	refilled(t, s)
	peek := c
	peek.Peek, peek.Lease, peek.Cost = true, 0, 1
	if n := take(t, s, peek)[0].Remaining; n != 300-used && n != 300-used-1 { // a part may have drained in a Lease
		t.Errorf("after a refund: %d remain, want %d", n, 300-used)
	}
	must.Do(t, s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Ban: time.Hour}}))
	if r := take(t, s, c)[0]; r.Allowed || r.RetryAfter != time.Hour {
		t.Errorf("banned: %+v", r)
	}
	s, server := frozen(t)
	warm(t, s, c)
	server.SetTime(start.Add(time.Second))
	must.Do(t, s.Reset(t.Context(), pairsOf(c)))
	if r := take(t, s, c)[0]; r.Remaining != 297 {
		t.Errorf("after a reset: %+v, want 297 remaining", r)
	}
	s, _ = frozen(t)
	used = 3 * warm(t, s, c)
	grant(t, s, c, 2)
	if n := take(t, s, peek)[0].Remaining; n != 302-used && n != 301-used { // likewise
		t.Errorf("after a grant: %d remain, want %d", n, 302-used)
	}
}

// Callers of two processes compete for the last requests of a limit and get all of them, because no lease keeps some unused. A
// server that has lost the library gets it again.
func TestAllOfALimitIsServedAndNoMore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for name, row := range map[string]struct {
		client    connect
		meanwhile func() // each millisecond
	}{
		"redis":   {single(server), func() { expect.NoError(t, admin.FunctionFlush(context.Background()).Err(), "FunctionFlush") }},
		"cluster": {clustered(redistest.StartCluster(t)), func() {}},
		"ring":    {ringOf(redistest.Start(t), redistest.Start(t)), func() {}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, row.client, 2, func(t *testing.T, stores []*redisx.Store) {
				var done atomic.Bool
				var meanwhile sync.WaitGroup
				meanwhile.Go(func() {
					for ; !done.Load(); time.Sleep(time.Millisecond) {
						row.meanwhile()
					}
				})
				defer meanwhile.Wait() // a bubble whose test fails must end too
				defer done.Store(true)
				checkServed(t, serveAll(t, stores, "rule"))
				expect.True(t, bothLease(stores), "few decisions came from leases: %+v, %+v", stores[0].LeaseStats(), stores[1].LeaseStats())
			})
		})
	}
}

// sharedKeys are leased by two stores at once, on several servers.
var sharedKeys = []string{"a", "b", "c", "d"}

// sharedLimit is the limit of each shared key.
var sharedLimit = core.Every(900, ages)

// serveAll has callers of two stores share the keys of a rule until each is used up, and returns how many requests of each were
// served, with what the last leases have returned.
func serveAll(t *testing.T, stores []*redisx.Store, rule string) (served [4]int64) {
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			c := core.Claim{Rule: rule, Key: sharedKeys[g%4], Limits: []core.Limit{sharedLimit}, Lease: 50 * time.Millisecond}
			for denied := 0; denied < 20; time.Sleep(time.Millisecond) { // leases must come and go
				if allowed(take(t, stores[g/8], c)) {
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
		expect.True(t, served[i] <= all && served[i] >= all-1, "%d requests of %q were served of %d", served[i], sharedKeys[i], all)
	}
}

// bothLease reports whether leases of both stores have decided many requests.
func bothLease(stores []*redisx.Store) bool {
	return min(stores[0].LeaseStats().Decisions, stores[1].LeaseStats().Decisions) >= 100
}

// behind returns a store behind a proxy, whose client does not give up.
func behind(t *testing.T) (*redisx.Store, *redistest.Proxy) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute})
	return redisx.New(client, options), proxy
}

// While the server is down, requests charged ahead are used up; after that, Take returns an error.
func TestLeaseIsUsedUpDuringAnOutage(t *testing.T) {
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
				if _, ok := s.TakeLocal([]core.Claim{c}, nil); !ok {
					break
				}
			}
			must.True(t, n != 0 && n < 1000, "%d requests were decided from the lease", n)
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			expect.Fails(t, expect.ErrorOf(s.Take(ctx, []core.Claim{c}, nil)), "a server that is away decided")
			proxy.Fault.Store(redistest.NoFault)
			proxy.Cut() // ends calls that hang
			refilled(t, s)
			// Nothing was credited of what got lost: more may be charged than was used, never less.
			var r []core.Result
			redistest.Wait(t, "the server", func() bool {
				got, err := s.Take(context.Background(), []core.Claim{c}, nil)
				r = got
				return err == nil
			})
			expect.AtMost(t, r[0].Remaining, 1000-used-n-1, "remaining")
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
			refilled(t, stores...)
			step.Add(int64(r.IntN(20_000)-10_000) * int64(time.Millisecond))
			steps++
		}
		if allowed(take(t, stores[r.IntN(3)], claims...)) {
			used++
		}
	}
	for _, s := range stores {
		leasesEnd(t, s)
	}
	claims[0].Peek, claims[0].Lease = true, 0
	got := limits[0].Capacity() - take(t, stores[0], claims...)[0].Remaining
	expect.True(t, got >= used-1 && got <= used+steps, "%d were used and %d are charged", used, got)
	expect.NotEqual(t, decisionsOf(stores), 0, "no decision came from a lease")
}

func decisionsOf(stores []*redisx.Store) (n uint64) {
	for _, s := range stores {
		n += s.LeaseStats().Decisions
	}
	return n
}

// abandoned counts calls that a client has given up at their deadline. The server may have executed them.
type abandoned struct {
	redistest.Hook
	atomic.Int64
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

// A slot moves to another node while its keys are leased: refills and what is returned follow it. What a process
// returns in a call without a reply stays charged.
func TestLeasesWhileSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	stores, lost := make([]*redisx.Store, 2), new(abandoned)
	for i := range stores {
		client := cluster.Client(t)
		client.AddHook(lost)
		stores[i] = redisx.New(client, options)
	}
	moved, stop := moveSlots(t, cluster, sharedKeys)
	for rule := 0; !bothLease(stores) || moved.Load() < 8; rule++ {
		served := serveAll(t, stores, fmt.Sprint("rule", rule))
		if lost.Load() > 0 {
			for i := range served {
				served[i] = max(served[i], int64(sharedLimit.Rate)-1)
			}
		}
		checkServed(t, served)
	}
	stop()
}

// Two processes whose clocks differ by less than a day agree on the window: the server's clock picks it.
func TestProcessesWithOtherClocksOpenOneWindow(t *testing.T) {
	testpass.Sequential(t)
	for _, limit := range []core.Limit{core.PerDay(10).In("Europe/Berlin"), core.PerMonth(10).In("America/Havana").From(31), core.PerWeek(10), core.PerYear(10)} {
		for _, off := range []time.Duration{time.Hour, -time.Hour, 24*time.Hour - time.Minute, time.Minute - 24*time.Hour} {
			one, server := frozen(t)
			client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
			defer client.Close()
			other := redisx.New(client, options)
			_, turn := limit.Calendar.Window(start)
			for at := turn.Add(-2 * time.Second); at.Before(turn.Add(2 * time.Second)); at = at.Add(time.Second) {
				server.SetTime(at)
				one.SetLocal(at)
				other.SetLocal(at.Add(off))
				admitted := 0
				for range 8 {
					for i, s := range []*redisx.Store{one, other, other, one} { // either may open the window
						results := must.Get(s.Take(t.Context(), []core.Claim{{Key: []string{"k", "j"}[i/2], Limits: []core.Limit{limit}}}, nil))(t)
						if results[0].Allowed {
							admitted++
						}
					}
				}
				want := 0
				if at.Equal(turn.Add(-2*time.Second)) || at.Equal(turn) {
					want = 20
				}
				expect.Equal(t, admitted, want, "%v, clocks %v apart, %v after the turn: admitted", limit, off, at.Sub(turn))
			}
		}
	}
}

func TestClockMoreThanADayOffIsAMistake(t *testing.T) {
	store, server := frozen(t)
	server.SetTime(start)
	month := core.Claim{Rule: "plan", Key: "k", Limits: []core.Limit{core.PerMonth(5)}}
	for _, off := range []time.Duration{25 * time.Hour, -25 * time.Hour} {
		store.SetLocal(start.Add(off))
		if _, err := store.Take(context.Background(), []core.Claim{month}, nil); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "differ by more than a day") {
			t.Errorf("%v off: got %v", off, err)
		}
		grant := core.Settlement{Rule: "plan", Key: "k", Limits: month.Limits, Grant: 5}
		expect.ErrorIs(t, store.Settle(context.Background(), []core.Settlement{grant}), core.ErrInvalid, "a grant, %v off", off)
		_, err := store.Take(context.Background(), []core.Claim{{Key: "k", Limits: []core.Limit{core.PerMinute(5)}}}, nil)
		expect.NoError(t, err, "a limit without a calendar, %v off", off)
	}
	store.SetLocal(start)
	results := must.Get(store.Take(context.Background(), []core.Claim{month}, nil))(t)
	expect.Equal(t, results[0].Remaining, 4, "%+v: a call that failed has changed something", results)
}

// TestLeasesAcrossTheTurnOfACalendarMonth leases a key to three stores until the month is over: neither month admits more than the rate.
func TestLeasesAcrossTheTurnOfACalendarMonth(t *testing.T) {
	limit := core.PerMonth(3_000).In("Europe/Berlin").From(15)
	_, turn := limit.Calendar.Window(start)
	inBubble(t, single(redistest.Start(t, redistest.KeepKeys...)), 3, func(t *testing.T, stores []*redisx.Store) {
		begun := time.Now()
		for _, s := range stores {
			s.SetClock(func() time.Time { return turn.Add(time.Since(begun) - 30*time.Millisecond) })
			s.SetLocal(turn.Add(20 * time.Hour))
		}
		claims := []core.Claim{{Rule: "plan", Key: "k", Limits: []core.Limit{limit}, Cost: 1, Lease: 3 * time.Millisecond}}
		var admitted [2]int
		for at := turn.Add(-time.Second); at.Before(turn.Add(30 * time.Millisecond)); time.Sleep(200 * time.Microsecond) {
			for _, s := range stores {
				for range 20 {
					r := take(t, s, claims...)[0]
					window := 0
					if at = r.At; !at.Before(turn) {
						window = 1
					}
					if r.Allowed {
						admitted[window]++
					}
				}
			}
		}
		for _, s := range stores {
			leasesEnd(t, s)
		}
		claims[0].Peek, claims[0].Lease = true, 0
		charged := limit.Rate - take(t, stores[0], claims...)[0].Remaining
		t.Logf("admitted %v, charged %d, %d decisions from leases", admitted, charged, decisionsOf(stores))
		expect.True(t, admitted[0] <= limit.Rate && admitted[0]+admitted[1] <= limit.Rate+charged,
			"%v were admitted before the turn and after it, and %d are charged in the new month", admitted, charged)
		expect.True(t, decisionsOf(stores) != 0 && admitted[0] != 0 && admitted[1] != 0,
			"%d decisions from leases, admitted %v", decisionsOf(stores), admitted)
	})
}

// A stored calendar window that makes no sense counts as used up, until the current window ends at the latest.
func TestCorruptCalendarWindowDeniesUntilTheTurnAtMost(t *testing.T) {
	limit := core.PerMonth(5).In("Europe/Berlin").From(31)
	_, turn := limit.Calendar.Window(start)
	micros := uint64(turn.UnixMicro())
	for name, spoil := range map[string]func(w []uint64) []uint64{
		"too large a count":      func(w []uint64) []uint64 { w[2] = 1 << 60; return w },
		"no exact count":         func(w []uint64) []uint64 { w[2] = 1<<53 + 2; return w },
		"all bits of the count":  func(w []uint64) []uint64 { w[2] = 1<<64 - 1; return w },
		"a window of the future": func(w []uint64) []uint64 { w[2], w[3], w[4] = 5, 2*micros, 2*micros+9; return w },
		"no end":                 func(w []uint64) []uint64 { return w[:4] },
		"no window":              func(w []uint64) []uint64 { return w[:3] },
	} {
		s, server := frozen(t)
		s.SetLocal(start)
		c := claimOf("k", limit)
		take(t, s, c)
		stored := parseWords(server.HGet(pairKey, "s"))
		must.True(t, len(stored) == 5 && stored[2] == 1, "stored %v, want an expiry, a kind, a count and a window", stored)
		server.HSet(pairKey, "s", words(spoil(stored)...))
		if r := take(t, s, c)[0]; r.Allowed || r.Remaining != 0 || r.RetryAfter != turn.Sub(start) {
			t.Errorf("%s: got %+v, want a denial until %v", name, r, turn)
		}
		server.SetTime(turn)
		s.SetLocal(turn)
		r := take(t, s, c)[0]
		expect.True(t, r.Allowed && r.Remaining == 4, "%s: after the turn, got %+v", name, r)
	}
}
