package redisx

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/lease"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/testpass"
)

// leasedJob returns a job that decides a claim, charges requests ahead for it and gives back others.
func (s *Store) leasedJob(t *testing.T, c core.Claim, want int64, b lease.Portions) *job {
	r, err := s.decider.layout.newTake([]core.Claim{c})
	if err != nil {
		t.Fatal(err)
	}
	r.lease(0, want, b)
	return &anyKeys.jobsOf(r, s.decider.layout)[0]
}

// ahead charges n requests ahead without deciding any, and returns how many the server allowed.
func (s *Store) ahead(t *testing.T, c core.Claim, n int64) (at, granted int64) {
	t.Helper()
	j := s.leasedJob(t, c, n, lease.Portions{})
	j.request.free(0)
	j.prepare(false)
	s.mustRun(t, j)
	return j.at, j.request.leases[0].granted
}

func (s *Store) mustRun(t *testing.T, jobs ...*job) {
	t.Helper()
	if err := s.decider.server.run(context.Background(), jobs); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if err := j.read(); err != nil {
			t.Fatal(err)
		}
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

func TestGrantIsAtMostHalfOfWhatRemains(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, row := range []struct {
			why, limits string
			used        int
			want        int64
			granted     int64
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
			_, granted := s.ahead(t, c, row.want)
			if after := s.remains(t, c); granted != row.granted || before-after != granted {
				t.Errorf("%s: granted %d of %d and charged %d, want %d", row.why, granted, before, before-after, row.granted)
			}
		}
	})
}

func TestGrantReportsWhatItLeaves(t *testing.T) {
	s := frozenStore(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d, 90/h")}
	j := s.leasedJob(t, c, 30, lease.Portions{})
	j.request.free(0)
	j.prepare(false)
	s.mustRun(t, j)
	if j.usages[0].Remaining != 70 || j.usages[1].Remaining != 60 || j.usages[0].retry != 0 || j.request.leases[0].granted != 30 {
		t.Errorf("got %+v, granted %d", j.usages, j.request.leases[0].granted)
	}
}

func TestNothingIsGrantedBesideABanOrAHold(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		held := core.Claim{Key: "held", Limits: core.MustParseLimits("100/d"), Hold: true, Cost: 90}
		s.mustRun(t, s.jobOf(t, held))
		held.Hold = false
		if _, granted := s.ahead(t, held, 30); granted != 5 {
			t.Errorf("granted %d of 10 that are not held, want 5", granted)
		}
		banned := core.Claim{Key: "banned", Limits: held.Limits}
		if err := s.Settle(context.Background(), []core.Settlement{{Key: "banned", Ban: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		if _, granted := s.ahead(t, banned, 30); granted != 0 {
			t.Errorf("granted %d of a banned pair, want 0", granted)
		}
	})
}

// A process is never denied because of what it gives back in the same call.
func TestWhatIsGivenBackCountsForTheRequestThatGivesItBack(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, limits := range []string{"100/d", "100/d;fixed-window", "100/d, 100/d;fixed-window"} {
			c := core.Claim{Key: limits, Limits: core.MustParseLimits(limits)}
			at1, _ := s.ahead(t, c, 50)
			at2, _ := s.ahead(t, c, 25)
			b := lease.Portions{{At: at1, Count: 10}, {At: at2, Count: 5}}
			c.Cost = 41
			denied := s.leasedJob(t, c, 0, b)
			s.mustRun(t, denied)
			if denied.admitted() || denied.usages[0].Remaining != 40 {
				t.Errorf("%s: 41 of 25 and 15 given back: %+v, want a denial and 40 remaining", limits, denied.usages)
			}
			c.Cost = 40
			b = lease.Portions{{At: at1, Count: 0}, {At: at2, Count: 0}}
			admitted := s.leasedJob(t, c, 0, b)
			s.mustRun(t, admitted)
			if !admitted.admitted() || admitted.usages[0].Remaining != 0 {
				t.Errorf("%s: 40 of 40: %+v, want none remaining", limits, admitted.usages)
			}
		}
	})
}

func TestWhatWasChargedBeforeAResetIsNotGivenBack(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d")}
		at, _ := s.ahead(t, c, 50)
		s.Shift(time.Millisecond)
		if err := s.Reset(context.Background(), []core.Pair{{Key: c.Key}}); err != nil {
			t.Fatal(err)
		}
		s.Shift(time.Millisecond)
		c.Cost = 60
		s.mustRun(t, s.jobOf(t, c))
		c.Cost = 1
		s.mustRun(t, s.leasedJob(t, c, 0, lease.Portions{{At: at, Count: 50}}))
		if n := s.remains(t, c); n != 39 {
			t.Errorf("%d remain of 100 after a reset and 61 requests, want 39", n)
		}
	})
}

func TestEachClaimOfARequestHasALeaseOfItsOwn(t *testing.T) {
	for _, limits := range []string{"100/d", "100/d;fixed-window"} {
		checkLeasesOfARequest(t, limits)
	}
}

func checkLeasesOfARequest(t *testing.T, limits string) {
	s, one := frozenStore(t), core.MustParseLimits(limits)
	claims := []core.Claim{
		{Key: "a", Limits: core.MustParseLimits(limits + ", 90/h")}, {Key: "other", Limits: one},
		{Key: "b", Limits: core.MustParseLimits(limits + ", 80/h")}, {Key: "rest", Limits: one},
	}
	r, err := s.decider.layout.newTake(claims)
	if err != nil {
		t.Fatal(err)
	}
	r.lease(0, 10, lease.Portions{})
	r.lease(2, 20, lease.Portions{})
	s.mustRun(t, &anyKeys.jobsOf(r, s.decider.layout)[0])
	if r.leases[0].granted != 10 || r.leases[1].granted != 20 {
		t.Errorf("granted %+v", r.leases)
	}
	for i, want := range []int64{89, 99, 79, 99} {
		if got := s.remains(t, claims[i]); got != want {
			t.Errorf("%d remain for claim %d, want %d", got, i+1, want)
		}
	}
	r, _ = s.decider.layout.newTake(claims)
	r.lease(0, 0, lease.Portions{{At: s.now(t), Count: 4}})
	r.lease(2, 0, lease.Portions{{At: s.now(t), Count: 6}})
	s.mustRun(t, &anyKeys.jobsOf(r, s.decider.layout)[0])
	for i, want := range []int64{92, 98, 84, 98} {
		if got := s.remains(t, claims[i]); got != want {
			t.Errorf("%d remain for claim %d after a return, want %d", got, i+1, want)
		}
	}
}

// now returns the instant of the server.
func (s *Store) now(t *testing.T) int64 {
	j := s.jobOf(t, core.Claim{Key: "clock", Limits: core.MustParseLimits("1/d")})
	s.mustRun(t, j)
	return j.at
}

// Leased and other requests of one run are decided in turn, each with its own words.
func TestLeasedRequestsShareARunWithOthers(t *testing.T) {
	for _, limits := range []string{"100/d", "100/d;fixed-window"} {
		checkSharedRun(t, frozenStore(t), limits)
	}
}

func checkSharedRun(t *testing.T, s *Store, limits string) {
	of := func(key string) core.Claim { return core.Claim{Key: key, Limits: core.MustParseLimits(limits)} }
	jobs := []*job{
		s.jobOf(t, of("a")), s.leasedJob(t, of("a"), 10, lease.Portions{}), s.leasedJob(t, of("b"), 20, lease.Portions{}),
		s.jobOf(t, of("b")), s.leasedJob(t, of("a"), 30, lease.Portions{}),
	}
	all := append([]*job(nil), jobs...)
	s.mustRun(t, jobs...)
	for i, want := range []int64{10, 20, 30} {
		if got := all[[]int{1, 2, 4}[i]].request.leases[0].granted; got != want {
			t.Errorf("grant %d: %d, want %d", i+1, got, want)
		}
	}
	if a, b := s.remains(t, of("a")), s.remains(t, of("b")); a != 100-3-40 || b != 100-2-20 {
		t.Errorf("%d and %d remain", a, b)
	}
}

// A denied leased request leaves those behind it in the run their replies.
func TestADeniedLeaseSharesARunWithOthers(t *testing.T) {
	for _, limits := range []string{"10/d", "10/d;fixed-window", "10/d, 90/h"} {
		s := frozenStore(t)
		of := func(key string, cost int) core.Claim {
			return core.Claim{Key: key, Limits: core.MustParseLimits(limits), Cost: cost}
		}
		s.mustRun(t, s.jobOf(t, of("a", 10)))
		jobs := []*job{s.leasedJob(t, of("a", 1), 5, lease.Portions{}), s.leasedJob(t, of("b", 3), 2, lease.Portions{}), s.leasedJob(t, of("c", 4), 2, lease.Portions{})}
		s.mustRun(t, append([]*job(nil), jobs...)...)
		for i, want := range []struct{ remaining, granted int64 }{{0, 0}, {5, 2}, {4, 2}} {
			if j := jobs[i]; j.usages[0].Remaining != want.remaining || j.request.leases[0].granted != want.granted || j.admitted() != (i > 0) {
				t.Errorf("%s: request %d: %+v, granted %d", limits, i+1, j.usages[0], j.request.leases[0].granted)
			}
		}
	}
}

// If two claims of a request are of one pair, at most half of what both leave is charged ahead.
func TestGrantIsAtMostHalfOfWhatTheRequestLeaves(t *testing.T) {
	s := frozenStore(t)
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d"), Cost: 10}
	r, err := s.decider.layout.newTake([]core.Claim{c, c})
	if err != nil {
		t.Fatal(err)
	}
	r.lease(0, 99, lease.Portions{})
	s.mustRun(t, &anyKeys.jobsOf(r, s.decider.layout)[0])
	if r.leases[0].granted != 40 || s.remains(t, c) != 40 {
		t.Errorf("granted %d of 80, and %d remain", r.leases[0].granted, s.remains(t, c))
	}
}

// An anyState compares requests of the pair k with requests of the pair o, which come with a peek and so are never plain.
type anyState struct {
	t      *testing.T
	server *miniredis.Miniredis
	store  *Store
}

const anyField = "b60000000"

func (a *anyState) keyOf(key string) string {
	return string(a.store.decider.layout.appendKey(nil, "", key))
}

// stored returns the bucket of a pair without its first word, the expiry.
func (a *anyState) stored(key string) string {
	value := a.server.HGet(a.keyOf(key), anyField)
	return value[min(len(value), 8):]
}

// try decides a request that finds these fields, with a lease and without.
func (a *anyState) try(fields ...string) {
	a.t.Helper()
	peek := core.Claim{Key: "x", Limits: core.MustParseLimits("10/m"), Peek: true}
	for _, want := range []int64{-1, 10, 30} { // 24 is half of what may remain
		a.server.FlushAll()
		for _, key := range []string{"k", "o"} {
			a.server.HSet(a.keyOf(key), fields...)
		}
		c := core.Claim{Key: "k", Limits: core.MustParseLimits("50/m"), Cost: 1}
		alone := leasedPair(a.t, a.store, want, lease.Portions{}, false, c)
		c.Key = "o"
		other := leasedPair(a.t, a.store, want, lease.Portions{}, false, c, peek)
		if alone.usages[0] != other.usages[0] || !slices.Equal(alone.request.leases, other.request.leases) {
			a.t.Errorf("%x, ahead %d:\n got %+v, %+v\nwant %+v, %+v", fields, want, alone.usages[0], alone.request.leases, other.usages[0], other.request.leases)
		}
		if a.stored("k") != a.stored("o") {
			a.t.Errorf("%x, ahead %d:\nstored %x\n  want %x", fields, want, a.stored("k"), a.stored("o"))
		}
	}
}

// TestRequestsReadAnyLeasedBucketLikeOthers checks what requests alone, leased and not, do with a bucket that has
// drained and may have a low: its state may be corrupt, from the future, of another rate or of another size, and the
// pair may have other fields.
func TestRequestsReadAnyLeasedBucketLikeOthers(t *testing.T) {
	testpass.Thorough(t)
	start := time.Unix(1_800_000_000, 0)
	server := miniredis.RunT(t)
	server.SetTime(start)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	a, now := &anyState{t, server, New(client, Options{Prefix: "p"})}, uint64(start.UnixMicro())
	words := func(numbers ...uint64) string {
		var b []byte
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		return string(b)
	}
	const drained = 50_000_000 // in the second since the bucket was charged
	good := []uint64{now/1000 + 100_000, drained, now - 1_000_000, now - 2_000_000, 50, 0, now - 1_000_000, 20_000_000}
	values := []uint64{0, 1, drained - 1, drained, drained + 1, 2 * drained, now - 1, now, now + 1, 1 << 53, 1<<53 + 2}
	for _, level := range []uint64{drained, drained + 90_000_000} {
		good[1] = level
		for i := range good {
			for _, v := range append(values, good[i]-1, good[i]+1) {
				bad := slices.Clone(good)
				bad[i] = v
				a.try(anyField, words(bad...))
				a.try(anyField, words(bad[:6]...))
			}
		}
		for size := range len(good) + 1 {
			a.try(anyField, words(good[:size]...))
		}
		a.try(anyField, words(append(good, now, 30_000_000)...))
		a.try(anyField, words(good...), "ban", words(now/1000+100_000, now+30_000_000))
		a.try(anyField, words(good[:6]...), "hold", words(now/1000+70_000, 3, 1, now-now%6_000_000, 3, 1))
	}
	a.try("ban", words(now/1000+100_000, now+30_000_000))
}

// Leased requests that run together each get what they asked for ahead.
func TestLeasedRequestsOfARunAreAnsweredApart(t *testing.T) {
	s := frozenStore(t)
	one := core.Claim{Key: "a", Limits: core.MustParseLimits("50/m"), Cost: 1}
	two := core.Claim{Key: "b", Limits: core.MustParseLimits("60/m"), Cost: 3}
	first, second := s.leasedJob(t, one, 10, lease.Portions{}), s.leasedJob(t, two, 4, lease.Portions{})
	s.mustRun(t, first, second)
	for i, j := range []*job{first, second} {
		ahead, remaining := []int64{10, 4}[i], []int64{49, 57}[i]
		if got := j.request.leases[0].granted; got != ahead || !j.admitted() {
			t.Errorf("request %d: %d charged ahead, want %d: %+v", i, got, ahead, j.usages)
		}
		if got := s.remains(t, []core.Claim{one, two}[i]); got != remaining-ahead {
			t.Errorf("request %d: %d remain, want %d", i, got, remaining-ahead)
		}
	}
}

// A slowServer answers in place of a server: buckets are always empty, and a run takes a time that no machine changes. It counts
// the requests, grants and settlements that it is sent.
type slowServer struct {
	perRun, perJob time.Duration
	free           chan struct{} // has room if nothing runs
	jobs
}

type jobs struct {
	asked   int // requests that are not leased
	grants  int
	settled int
}

func (s *slowServer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowServer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *slowServer) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(once); ok {
			s.free <- struct{}{}
			c.SetVal(textOf(s.answer(cmd.Args())))
			<-s.free
		}
		return nil
	}
}

// answer answers a call of the script: see lua/run.lua.
func (s *slowServer) answer(words []any) []int64 {
	reply := []int64{time.Now().UnixMicro(), 0}
	keys, args := words[2].(int), words[3+words[2].(int):]
	for len(args) > 0 {
		plan, numbers, places := args[0].(string), "", 1
		for i, head := range strings.Fields(plan)[1:] {
			if n, _ := strconv.Atoi(head); i%8 == 0 {
				places = max(places, n/64)
			}
		}
		if args = args[1:]; plan[0] == 's' || strings.HasPrefix(plan, "t 81 ") { // its first limit is leased
			numbers, args = args[0].(string), args[1:]
		}
		n := keys / places
		if len(args) > 0 {
			n, args = args[0].(int), args[1:]
		}
		if keys -= n * places; numbers != "" {
			n = len(numbers) / (5 * 8)
		}
		switch {
		case plan[0] == 's':
			s.settled, reply = s.settled+n, append(reply, make([]int64, n)...)
		case numbers == "":
			s.asked, reply = s.asked+n, append(reply, slices.Repeat([]int64{0, 0, 0}, n)...)
		default:
			s.grants += n
			for ; len(numbers) > 0; numbers = numbers[5*8:] {
				reply = append(reply, 0, 0, 0, int64(binary.LittleEndian.Uint64([]byte(numbers))))
			}
		}
		time.Sleep(time.Duration(n) * s.perJob)
	}
	time.Sleep(s.perRun)
	return reply
}

func noConnection(context.Context, string, string) (net.Conn, error) {
	return nil, net.ErrClosed
}

// byZipf has 64 callers ask for keys by Zipf, each with a pause of that mean after an answer. It returns how often they asked
// in a second, and what the server did from its beginning on until all was given back.
func byZipf(t *testing.T, keys uint64, pause time.Duration) (asked int, done jobs) {
	server := &slowServer{perRun: 200 * time.Microsecond, perJob: 5 * time.Microsecond, free: make(chan struct{}, 1)}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: noConnection})
	defer client.Close()
	client.AddHook(server)
	s := New(client, Options{Prefix: "p"})
	s.decider.server.first.Do(func() {})
	limits := []core.Limit{core.PerSecond(1_000_000)}
	begun := time.Now()
	var since atomic.Int64
	for i := range 64 {
		random := rand.New(rand.NewSource(int64(i)))
		draw := rand.NewZipf(random, 1.1, 1, keys-1)
		go func() {
			for time.Since(begun) < 1200*time.Millisecond {
				c := core.Claim{Key: strconv.FormatUint(draw.Uint64(), 10), Limits: limits, Lease: 100 * time.Millisecond}
				if _, ok := s.TakeLocal([]core.Claim{c}, nil); !ok {
					if _, err := s.Take(context.Background(), []core.Claim{c}, nil); err != nil {
						t.Error(err)
					}
				}
				since.Add(1)
				time.Sleep(time.Duration(random.ExpFloat64() * float64(pause)))
			}
		}()
	}
	time.Sleep(200 * time.Millisecond)
	server.free <- struct{}{}
	server.jobs = jobs{}
	<-server.free
	since.Store(0)
	time.Sleep(time.Second)
	asked = int(since.Load())
	time.Sleep(time.Second)
	server.free <- struct{}{}
	defer func() { <-server.free }()
	return asked, server.jobs
}

// TestKeysByZipfTakeFewJobs counts what the server does for keys of which most are asked for only a few times within a
// lease: grants that nobody uses, and calls beside a grant, would be more than what the leases save.
func TestKeysByZipfTakeFewJobs(t *testing.T) {
	for pause, most := range map[time.Duration]float64{500 * time.Microsecond: 0.24, time.Millisecond: 0.31, 4 * time.Millisecond: 0.46} {
		synctest.Test(t, func(t *testing.T) {
			asked, s := byZipf(t, 3000, pause)
			if jobs := s.asked + s.grants + s.settled; float64(jobs) > most*float64(asked) {
				t.Errorf("a pause of %v: %d requests take %d jobs: %d requests, %d grants and %d settlements; want at most %.2f of them",
					pause, asked, jobs, s.asked, s.grants, s.settled, most)
			}
		})
	}
}

// A tap counts the scripts that a client runs, and may do something before the next one, or instead of it.
type tap struct {
	runs   atomic.Int64
	before atomic.Pointer[func() error]
	last   []any // the arguments of the last script
}

// tapped returns a store like frozenStore's, and a tap of its client.
func tapped(t *testing.T) (*Store, *tap) {
	s, h := frozenStore(t), new(tap)
	s.decider.server.client.AddHook(h)
	return s, h
}

// next sets a function that runs before the next script. If f returns an error, the script is not sent.
func (h *tap) next(f func() error) { h.before.Store(&f) }

func (h *tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" { // miniredis has no functions
			return next(ctx, cmd)
		}
		h.runs.Add(1)
		h.last = cmd.Args()
		if f := h.before.Swap(nil); f != nil {
			if err := (*f)(); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// An errorReply is what a server answers that does not do what it is asked.
type errorReply string

func (e errorReply) Error() string { return string(e) }
func (errorReply) RedisError()     {}

// The store knows what became of the requests that a call should give back if the call was answered or not sent. If it is
// not known, they are lost: if they were given back again, the limit would be exceeded.
func TestOutcomesOfReturns(t *testing.T) {
	calls := map[string]func(context.Context, *Store, core.Claim, *lease.Loan) error{
		"a grant": func(ctx context.Context, s *Store, _ core.Claim, l *lease.Loan) error {
			loans := []lease.Loan{*l}
			loans[0].Want = 10
			_, _, err := lender{s.decider}.Lend(ctx, nil, loans, nil)
			*l = loans[0]
			return err
		},
		"a return": func(ctx context.Context, s *Store, _ core.Claim, l *lease.Loan) error {
			loans := []lease.Loan{*l}
			_, _, err := lender{s.decider}.Lend(ctx, nil, loans, nil)
			*l = loans[0]
			return err
		},
		"a decision": func(ctx context.Context, s *Store, c core.Claim, l *lease.Loan) error {
			loans := []lease.Loan{*l}
			_, _, err := lender{s.decider}.Lend(ctx, []core.Claim{c}, loans, nil)
			*l = loans[0]
			return err
		},
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls {
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
			s, h := tapped(t)
			c := core.Claim{Key: "k", Limits: core.MustParseLimits("100/d"), Cost: 1}
			at, n := s.ahead(t, c, 20)
			limits, _ := c.Compile()
			l := lease.Loan{Pair: core.Pair{Rule: "default", Key: "k"}, Compiled: limits, Unused: lease.Portions{{At: at, Count: n}}}
			if row.failure != nil {
				h.next(func() error { return row.failure })
			}
			err := call(row.ctx, s, c, &l)
			if l.Return != row.want || (err == nil) != (row.want == lease.Returned) {
				t.Errorf("%s, %s: %d, %v, want %d", name, why, l.Return, err, row.want)
			}
			if got, want := s.remains(t, c), int64(80); row.want != lease.Returned && got != want || row.want == lease.Returned && got < 89 {
				t.Errorf("%s, %s: %d remain", name, why, got)
			}
		}
	}
}

func TestLeasesAreLookedForIfThereAreAny(t *testing.T) {
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
		if _, err := s.Take(t.Context(), []core.Claim{c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if s.leasesFor([]core.Claim{other}) != table {
		t.Error("what is leased is not looked for")
	}
}
