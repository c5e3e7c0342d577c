package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

func TestBatchDecidesLikeOneRequestAfterTheOther(t *testing.T) {
	testpass.Thorough(t)
	anyKeys, apart := frozenStore(t), frozenStore(t)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		var jobs, alone []*job
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			claims := anyClaims(t, round)
			jobs, alone = append(jobs, anyKeys.jobOf(t, claims...)), append(alone, apart.jobOf(t, claims...))
		}
		ctx := context.Background()
		must.Do(t, anyKeys.decider.server.run(ctx, jobs))
		for i, p := range alone {
			must.Do(t, apart.decider.server.run(ctx, []*job{p}))
			must.Do(t, errors.Join(p.read(), jobs[i].read()))
			must.True(t, slices.Equal(p.usages, jobs[i].usages),
				"request %d, %x of %v: %+v in a batch, %+v alone", i, p.plan, p.keys, jobs[i].usages, p.usages)
		}
	})
}

// anyClaims draws the claims of a request from few keys and limits, so that many requests share state.
func anyClaims(t *rapid.T, round int) (claims []core.Claim) {
	for range rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "claims") {
		claims = append(claims, core.Claim{
			Key:    fmt.Sprint(round, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")),
			Limits: core.MustParseLimits(rapid.SampledFrom([]string{"3/m", "3/m", "5/m, 7/h", "7/h", "4/m;fixed-window", "3/m, 5/m;sliding-log"}).Draw(t, "limits")),
			Cost:   rapid.SampledFrom([]int{1, 1, 2, 9}).Draw(t, "cost"),
			Peek:   rapid.IntRange(0, 9).Draw(t, "peek") == 0,
			DryRun: rapid.IntRange(0, 9).Draw(t, "dry run") == 0,
		})
	}
	return claims
}

// The server replies to a request that it charges at once with the stored states, and to one that it takes apart with what it reports of
// each limit. The results are the same.
func TestStoredStatesSayWhatTheServerWouldReport(t *testing.T) {
	testpass.Sequential(t)
	plain, apart := frozenStore(t), frozenStore(t)
	claim := func(key, limits string) core.Claim { return core.Claim{Key: key, Limits: core.MustParseLimits(limits)} }
	var windows []string
	for i := range 31 {
		windows = append(windows, fmt.Sprintf("9/%dm;sliding-window;buckets=60", i+1))
	}
	requests := map[string][]core.Claim{
		"ticks of 1 µs, 1 ms and 1 s":    {claim("ticks", "10/s, 97/3s;burst=40, 10/3h, 999983/315359999999ms")},
		"several states":                 {claim("states", "7/m, 20/h;fixed-window, 9/d;sliding-window, 8/day;tz=Europe/Berlin")},
		"a sliding window, then others":  {claim("order", "9/m;sliding-window;buckets=7, 9/7s;fixed-window, 6/h")},
		"more words than one pack makes": {claim("words", strings.Join(windows[:16], ", ")), claim("words", strings.Join(windows[16:], ", "))},
		"60 sub-buckets":                 {claim("sub-buckets", "9/m;sliding-window;buckets=60")},
		"a ban":                          {claim("ban", "3/m;ban=1h, 9/d")},
		"a log":                          {claim("log", "5/m;sliding-log, 5/m")},
		"two claims of one pair":         {claim("pair", "5/m"), claim("pair", "9/h, 9/m;fixed-window")},
		"two pairs, one with two claims": {claim("first", "5/m"), claim("second", "9/m;sliding-window"), claim("second", "6/m, 7/h;fixed-window")},
		"a request that may wait":        {{Key: "wait", Limits: core.MustParseLimits("2/s"), MaxWait: time.Second}, claim("beside", "9/h")},
	}
	at := stopped()
	for step, d := range []time.Duration{0, 0, 7 * time.Millisecond, 1300 * time.Millisecond, -time.Second, 1, 20 * time.Second, 41 * time.Second, 61 * time.Second, time.Hour, 25 * time.Hour} {
		at = at.Add(d)
		clock := at
		var batch []*job
		for _, s := range []*Store{plain, apart} {
			s.SetClock(func() time.Time { return clock })
			s.SetLocal(clock)
		}
		names := slices.Sorted(maps.Keys(requests))
		for _, name := range names {
			claims := slices.Clone(requests[name])
			for i := range claims {
				claims[i].Cost, claims[i].Peek = 1+step%2, step == 5
			}
			batch = append(batch, plain.jobOf(t, claims...))
			requests[name] = claims
		}
		plain.mustRun(t, batch...)
		for i, name := range names {
			j := apart.jobOf(t, requests[name]...)
			j.plan = "-" + j.plan.(string)
			apart.mustRun(t, j)
			got, want := batch[i].appendResults(nil, requests[name]), j.appendResults(nil, requests[name])
			expect.True(t, slices.Equal(got, want), "%s, step %d:\n got %+v\nwant %+v", name, step, got, want)
		}
	}
}

// A new key gets an expiry even if the key before it in the batch needs none.
func TestAllKeysOfABatchExpire(t *testing.T) {
	server := miniredis.RunT(t)
	client := redistest.NewClient(t, &redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	s := New(client, Options{Prefix: "p"})
	for _, limits := range []string{"9/m", "9/m, 90/h"} {
		server.FlushAll()
		of := func(key string) *job { return s.jobOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)}) }
		for _, jobs := range [][]*job{{of("old")}, {of("old")}, {of("old"), of("new")}} {
			must.Do(t, s.decider.server.run(context.Background(), jobs))
		}
		for _, key := range server.Keys() {
			expect.True(t, server.TTL(key) > 0, "%s: %s does not expire", limits, key)
		}
	}
}

func TestFailingRequestDoesNotFailTheBatch(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := New(client, Options{Prefix: "p"})
	of := func(limits string) *job {
		return s.jobOf(t, core.Claim{Key: limits, Limits: core.MustParseLimits(limits)})
	}
	for _, limits := range []string{"100/m;sliding-log", "5/m", "5/m, 9/h;fixed-window", "5/60000001us", "5/60000001us;fixed-window"} {
		for range 10 {
			must.Do(t, s.decider.server.run(ctx, []*job{of(limits)}))
		}
	}
	// Only the log needs ZADD.
	s.Shift(2 * time.Hour)
	must.Do(t, client.Do(ctx, "acl", "setuser", "default", "-zadd").Err())
	t.Cleanup(func() { client.Do(ctx, "acl", "setuser", "default", "+@all") })
	bad := of("100/m;sliding-log")
	jobs := []*job{of("5/m"), of("5/m, 9/h;fixed-window"), bad, of("5/60000001us"), of("5/60000001us;fixed-window")}
	must.Do(t, s.decider.server.run(ctx, jobs))
	n := slices.Index(jobs, bad)
	expect.True(t, n != 0 && n != len(jobs)-1, "the bad job is job %d of %d, want jobs before and after it", n, len(jobs))
	for _, p := range jobs {
		switch err := p.read(); {
		case p == bad && err == nil:
			t.Errorf("a request that the server rejects gets %+v", p.usages)
		case p != bad && (err != nil || p.usages[0].Remaining != 4):
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
	if err := s.decider.server.run(ctx, []*job{bad}); err == nil || !regexp.MustCompile("can't run this command|no permissions to run").MatchString(err.Error()) {
		t.Errorf("sent alone, it gets %v, want the server's error", err)
	}
}

func TestRunOverSeveralSlotsIsRetriedIdentityByIdentity(t *testing.T) {
	t.Parallel()
	s := New(struct{ *redis.ClusterClient }{redistest.StartCluster(t).Client(t)}, Options{Prefix: "p"})
	var jobs []*job
	for i := range 8 {
		jobs = append(jobs, must.Get(s.decider.layout.newTake([]core.Claim{{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m")}}))(t))
	}
	for i, err := range each(len(jobs), func(i int) error { return s.decider.do(t.Context(), jobs[i]) }) {
		expect.True(t, err == nil && jobs[i].usages[0].Remaining == 4, "%v: %+v, %v, want 4 remaining", jobs[i].keys, jobs[i].usages, err)
	}
	expect.Equal(t, routing(s.decider.server.routing.Load()), byIdentity, "after CROSSSLOT the routing (by identity)")
}

// The caller that leads a run may give up: the others still get their replies.
func TestRunOutlivesTheContextOfItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, _ := slowStore(t)
		limits := core.MustParseLimits("5/m")
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for i := range 2 * fewRuns {
			callers.Go(func() {
				own := ctx
				if i%2 == 0 {
					own = t.Context()
				}
				_, err := s.Take(own, []core.Claim{{Key: "k", Limits: limits}}, nil)
				if err != nil && (i%2 == 0 || !errors.Is(err, context.Canceled)) {
					t.Errorf("caller %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(30 * time.Millisecond) // the last caller, whose context ends now, leads the second run
		cancel()
		callers.Wait()
		synctest.Wait()
		expect.True(t, s.isIdle(), "calls are left after %d takes", c.takes.Load())
	})
}

// A client that uses the deadline of a context ends a call once no caller waits for it, and leaves no goroutine.
func TestRunEndsAtItsLastDeadline(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, ReadTimeout: time.Hour})
	s := New(client, Options{Prefix: "p"})
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	must.Get(s.Take(context.Background(), claims, nil))(t)
	proxy.Fault.Store(redistest.SwallowReplies)
	for _, alone := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if alone {
			ctx = deadline.Context{Context: ctx}
		}
		if _, err := s.Take(ctx, claims, nil); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, breaker.ErrTooMany) {
			t.Errorf("deadline alone %v: %v, want that no reply arrived in time", alone, err)
		}
		redistest.Wait(t, "the call to end", s.isIdle)
	}
}

// A gatedClient returns from no command until the gate opens, and then with an error. Its server has run functions before:
// otherwise, the store would find out over another connection whether a proxy ended this one because of them.
type gatedClient struct {
	*redis.Client

	mu   sync.Mutex
	gate chan struct{}
	runs int
}

func (c *gatedClient) Process(_ context.Context, cmd redis.Cmder) error {
	c.mu.Lock()
	c.runs++
	gate := c.gate
	c.mu.Unlock()
	<-gate
	cmd.SetErr(io.EOF)
	return io.EOF
}

// open lets all runs so far fail, and none after them.
func (c *gatedClient) open() {
	c.mu.Lock()
	close(c.gate)
	c.gate = make(chan struct{})
	c.mu.Unlock()
	synctest.Wait()
}

// A lost connection, or a missing reply, is one failure, however many callers wait for it: the breaker opens after five.
func TestCallersOfARunShareItsFailure(t *testing.T) {
	for why, row := range map[string]sharedFailure{
		"connections lost":                       {lost: true, mostRuns: 3},
		"no replies":                             {mostRuns: 3},
		"connection of a whole run lost":         {lost: true, behind: true, mostRuns: 1},
		"connections of a run of each slot lost": {lost: true, behind: true, twoSlots: true, mostRuns: 2},
		"a run behind others without replies":    {behind: true, mostRuns: 1},
		"a run of each slot behind others":       {behind: true, twoSlots: true, mostRuns: 2},
	} {
		t.Run(why, func(t *testing.T) { synctest.Test(t, row.test) })
	}
}

type sharedFailure struct {
	lost     bool // else the server hangs
	behind   bool // the callers share a run, behind runs of others
	twoSlots bool // each request has two jobs
	mostRuns int  // with 256 callers
}

func (row sharedFailure) test(t *testing.T) {
	c := &gatedClient{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), gate: make(chan struct{})}
	defer c.Close()
	defer c.open()
	s := New(c, Options{Prefix: "p"})
	s.decider.server.functions.worked.Store(true)
	rule := core.MustParseLimits("1000/h")[0].By(func(*http.Request) (string, error) { return "k", nil })
	rule.OnFailure = core.FailOpen
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(s)))
	claims := []core.Claim{{Key: "k", Limits: rule.Limits}}
	if row.twoSlots {
		s.decider.server.routing.Store(uint32(byIdentity))
		claims = append(claims, core.Claim{Key: "other", Limits: rule.Limits})
	}
	for failed := row.mostRuns; ; failed += row.mostRuns {
		var others, callers sync.WaitGroup
		for range fewRuns {
			if row.behind {
				time.Sleep(slow) // or the second would wait for the first
				others.Go(func() { _, _ = s.Take(context.Background(), claims, nil) })
				synctest.Wait()
			}
		}
		for range 256 {
			callers.Go(func() {
				d, err := l.Take(context.Background(), claims...)
				expect.True(t, err == nil && d.Degraded != nil && !errors.Is(d.Degraded, breaker.ErrTooMany),
					"%+v, %v, want a decision without the store", d, err)
			})
		}
		synctest.Wait()
		if row.lost {
			c.open() // those in flight
			c.open() // those that waited for them
		}
		callers.Wait()
		open := l.StoreHealth().Down
		c.open()
		others.Wait()
		if open {
			expect.AtLeast(t, failed, 5, "the breaker is open after failed runs")
			return
		}
		must.True(t, failed <= 20, "the breaker is closed after %d failed runs", failed)
	}
}

// Requests whose goroutines are ready at the same time share a run, even if nothing was in flight before. On a busy machine a
// goroutine may be interrupted, so this has several attempts.
func TestRequestsThatAreReadyShareARun(t *testing.T) { synctest.Test(t, testReadyRequests) }

func testReadyRequests(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := &gatedClient{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), gate: make(chan struct{})}
	defer c.Close()
	s := New(c, Options{})
	s.decider.server.functions.worked.Store(true)
	for range 20 {
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				_, _ = s.Take(context.Background(), []core.Claim{{Key: strconv.Itoa(i), Limits: core.MustParseLimits("5/m")}}, nil)
			})
		}
		synctest.Wait()
		ready := c.runs
		for range 8 {
			c.open() // those in flight, then those that waited for them
		}
		callers.Wait()
		if ready == 1 && c.runs == 1 {
			return
		}
		c.runs = 0
	}
	t.Error("eight requests took more than one run in each of 20 attempts")
}

// A job that misses its deadline is an overload of this process if it was never sent, if the server has replied to another run
// in the meantime, or if this process was late itself. Otherwise, the server has failed.
func TestLateJobIsAnOverloadOrAFailure(t *testing.T) {
	begun := time.Now()
	for _, row := range []struct {
		why       string
		unsent    bool
		answered  time.Duration // after the job has begun
		elsewhere bool          // in another queue
		past      time.Duration // since its deadline
		starved   time.Duration // when a timer or a leader was late, after the job has begun
		err       error
		overload  bool
	}{
		{why: "no reply in time", err: context.DeadlineExceeded},
		{why: "the last answer came before", answered: -1, err: context.DeadlineExceeded},
		{why: "another answer came meanwhile", answered: 1, err: context.DeadlineExceeded, overload: true},
		{why: "never sent", unsent: true, err: context.DeadlineExceeded, overload: true},
		{why: "the timer was late", answered: -1, past: 2 * tooLate, err: context.DeadlineExceeded, overload: true},
		{why: "the timer was late, and the server is silent", answered: -alive, past: 2 * tooLate, err: context.DeadlineExceeded},
		{why: "the timer was late, and the server has never answered", past: 2 * tooLate, err: context.DeadlineExceeded},
		{why: "something was late meanwhile", answered: -1, starved: 1, err: context.DeadlineExceeded, overload: true},
		{why: "an answer of another queue came meanwhile", answered: 1, elsewhere: true, err: context.DeadlineExceeded},
		{why: "something was late, and another queue has answers", answered: -1, elsewhere: true, starved: 1, err: context.DeadlineExceeded, overload: true},
		{why: "something was late before", answered: -1, starved: -1, err: context.DeadlineExceeded},
		{why: "a wrapped error", answered: 1, err: fmt.Errorf("hook: %w", context.DeadlineExceeded), overload: true},
		{why: "a lost connection is no matter of time", answered: 1, past: 2 * tooLate, err: io.EOF},
		{why: "canceled", answered: 1, err: context.Canceled},
		{why: "canceled before it was sent", unsent: true, err: context.Canceled},
	} {
		all, q := &queues{server: new(server)}, new(queue)
		if row.answered != 0 {
			all.answered = begun.Add(row.answered)
		}
		if !row.elsewhere {
			q.answered = all.answered
		}
		j := &job{begun: begun, deadline: time.Now().Add(time.Hour), queue: q, run: new(run), unsent: row.unsent}
		if row.past > 0 {
			j.deadline = time.Now().Add(-row.past)
		}
		if row.starved != 0 {
			all.starved = begun.Add(row.starved)
		}
		err := all.failed(j, row.err)
		if got := errors.Is(err, breaker.ErrTooMany); got != row.overload || !got && !errors.Is(err, row.err) {
			t.Errorf("%s: %v, want an overload %v", row.why, err, row.overload)
		}
	}
}

// Runs that hang at the same time are one failure of the server, and a run sent after they were late is another.
func TestStallIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, apart := range []bool{false, true} {
			all, q, b, down := &queues{server: new(server)}, new(queue), new(breaker.Breaker), false
			sent := time.Now()
			for range 5 {
				if apart {
					time.Sleep(time.Millisecond)
					sent = time.Now()
				}
				call := must.Get(b.Enter(sent))(t)
				j := &job{begun: sent, queue: q, run: &run{sent: sent}}
				down = call.End(time.Now(), all.failed(j, context.DeadlineExceeded))
			}
			expect.True(t, down == apart, "five runs, sent one after the other %v: the store is down %v", apart, down)
		}
	})
}

// A call whose deadline has passed before its caller got a CPU is an overload, whatever the server does.
func TestDeadlineBeforeACall(t *testing.T) {
	c := &gatedClient{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})}
	defer c.Close()
	s := New(c, Options{Prefix: "p"})
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Microsecond))
	defer cancel()
	limits := core.MustParseLimits("5/m")
	one, other := core.Claim{Key: "k", Limits: limits}, core.Claim{Key: "other", Limits: limits}
	for why, call := range map[string]func() error{
		"take":   func() error { _, err := s.Take(ctx, []core.Claim{one}, nil); return err },
		"settle": func() error { return s.Settle(ctx, []core.Settlement{{Key: "k", Limits: limits, Cost: 1}}) },
		"reset":  func() error { return s.Reset(ctx, []core.Pair{{Key: "k"}}) },
		"run":    func() error { return s.decider.server.run(ctx, []*job{s.jobOf(t, one)}) },
		"two slots": func() error {
			s.decider.server.routing.Store(uint32(byIdentity))
			_, err := s.Take(ctx, []core.Claim{one, other}, nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, breaker.ErrTooMany) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want an overload by its deadline", why, err)
		}
	}
	expect.AtMost(t, c.runs, 0, "the server calls after their deadlines")
}

// The script that refunds a charge reports the state after the refund, which includes later requests of others.
func TestRefundReportsTheStateAfterIt(t *testing.T) {
	s := frozenStore(t)
	claim := core.Claim{Key: "k", Limits: []core.Limit{core.PerDay(2), core.PerDay(9).Using(core.SlidingLog)}, Cost: 2}
	must.Get(s.Take(context.Background(), []core.Claim{claim}, nil))(t)
	claim.Cost = 1
	j := s.jobOf(t, claim)
	s.mustRun(t, j)
	j = s.decider.settlePart(context.Background(), j, false)
	expect.True(t, j.err == nil && j.usages[0].retry > 0 && j.usages[1].retry == 0 && j.usages[0].Remaining == 0 && j.usages[1].Remaining == 7,
		"%+v, %v: want a wait for the first, none for the second, and 0 and 7 to remain", j.usages, j.err)
}

// A job that refunds its charge, because another job was denied, reports what remains after the refund.
func TestJobReportsWhatRemainsAfterItsRefund(t *testing.T) {
	for _, limits := range []string{"9/d", "9/d, 5 at once", "9/d;fixed-window", "9/d, 9/h;sliding-window"} {
		for _, hold := range []bool{true, false} {
			s, c := frozenStore(t), core.Claim{Key: "k", Limits: core.MustParseLimits(limits), Cost: 2, Hold: hold}
			if !hold && len(c.Limits) > 1 {
				c.Limits = c.Limits[:1]
			}
			j := s.jobOf(t, c)
			s.mustRun(t, j)
			before := append([]usage(nil), j.usages...)
			back := s.decider.settlePart(context.Background(), j, false)
			must.True(t, back.err == nil && len(back.usages) == len(before) && !back.held && back.admitted(),
				"%s, held: %v: %v, %+v", limits, hold, back.err, back.usages)
			if got := back.usages[0].Remaining; got != 9 || before[0].Remaining != 7 {
				t.Errorf("%s, held: %v: %d remain after %d, want 9 after 7", limits, hold, got, before[0].Remaining)
			}
		}
	}
}

// A job that refunds its charge reports whether holds of others deny the same request.
func TestJobReportsHoldsOfOthersAfterItsRefund(t *testing.T) {
	s, c := frozenStore(t), core.Claim{Key: "k", Limits: core.MustParseLimits("9/d, 20/h"), Cost: 5, Hold: true}
	other := c
	other.Cost = 4
	j := s.jobOf(t, other)
	s.mustRun(t, j, s.jobOf(t, c))
	more := s.jobOf(t, c)
	s.mustRun(t, more)
	must.True(t, !more.admitted() && more.held, "%+v", more.usages)
	back := s.decider.settlePart(context.Background(), more, false)
	expect.True(t, back.err == nil && back.held && !back.admitted(), "%v, held back: %v, %+v", back.err, back.held, back.usages)
}

// While a slot migrates, the keys of a log and of its pair may be on two nodes. Then its settlement fails at once, and other keys of
// the same settlements are settled.
func TestSettlementInAMigratingSlot(t *testing.T) {
	for _, reply := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "ASK 3118 127.0.0.1:7001"} {
		s, h := frozenStore(t), new(migrating)
		s.decider.server.client.AddHook(h)
		bucket, log := core.Claim{Key: "k", Rule: "a", Limits: core.MustParseLimits("9/d")}, core.Claim{Key: "k", Rule: "b", Limits: core.MustParseLimits("9/d;sliding-log")}
		s.mustRun(t, s.jobOf(t, bucket, log))
		h.reply = reply
		var settlements []core.Settlement
		for _, c := range []core.Claim{bucket, log} {
			settlements = append(settlements, core.Settlement{Rule: c.Rule, Key: c.Key, Limits: c.Limits, At: stopped(), Cost: 1})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := s.Settle(ctx, settlements)
		cancel()
		expect.True(t, replyOf(err) == reply, "the settlement of a log: %v, want %s", err, reply)
		h.reply = ""
		a, b := s.remains(t, bucket), s.remains(t, log)
		expect.True(t, a == 9 && b == 8, "%s: %d remain of the bucket and %d of the log, want 9 and 8", reply, a, b)
	}
}

// A request of which a part may have been charged is not tried again because another part is in a migrating slot.
func TestLostReplyBesideAMigratingSlot(t *testing.T) {
	s, limits := frozenStore(t), core.MustParseLimits("9/d")
	s.DecideInParts(false)
	claims := []core.Claim{{Key: "k", Rule: "a", Limits: limits}, {Key: "k", Rule: "b", Limits: limits}, {Key: "other", Limits: limits}}
	s.remains(t, claims[0]) // from then on, the store uses scripts
	s.decider.server.client.AddHook(&migrating{failing: failing{err: io.EOF}, reply: "TRYAGAIN Multiple keys request during rehashing of slot"})
	_, err := s.Take(t.Context(), claims, nil)
	expect.ErrorIs(t, err, io.EOF, "the request")
}

// A hook that ends the goroutine of a run or of a part, or panics, fails the call and nothing else. In particular, jobs that use the memory
// of earlier ones do not read their replies.
func TestHooksThatDoNotReturn(t *testing.T) {
	newServer(nil).warnOfEviction() // nobody waits for it, so a panic would end the process
	s, h := frozenStore(t), new(failing)
	s.decider.server.inline = true
	s.decider.server.client.AddHook(h)
	for why, row := range map[string]struct {
		hook func()
		want error
	}{"ends its goroutine": {runtime.Goexit, errLost}, "panics": {func() { panic("ouch") }, core.ErrInvalid}} {
		j := s.jobOf(t, core.Claim{Key: "k", Limits: core.MustParseLimits("9/d")})
		s.mustRun(t, j)
		h.meanwhile = row.hook
		errs := each(2, func(i int) error {
			if i == 0 {
				return nil
			}
			return s.decider.server.run(t.Context(), []*job{j})
		})
		expect.True(t, errors.Is(j.failure, row.want) && errors.Is(errs[1], row.want), "a hook %s: %v, %v, want %v", why, j.failure, errs[1], row.want)
	}
	for range 2 {
		must.Get(s.Take(t.Context(), []core.Claim{{Key: "l", Limits: core.MustParseLimits("9/d"), Lease: time.Second}}, nil))(t)
		h.meanwhile = runtime.Goexit // of the refill that the next request waits for
	}
	expect.Equal(t, s.leases.RefillsInFlight(), 0, "after a refill whose goroutine a hook has ended: refills in flight")
}

// A settlement over a client that wraps one of a Redis Cluster is done in the slot of each key, and so is what follows.
func TestSettlementOverSeveralSlots(t *testing.T) {
	s, h := frozenStore(t), &migrating{reply: "CROSSSLOT Keys in request don't hash to the same slot"}
	s.decider.server.client.AddHook(h)
	var settlements []core.Settlement
	claims := []core.Claim{{Key: "a", Limits: core.MustParseLimits("9/d")}, {Key: "b", Limits: core.MustParseLimits("9/d")}}
	for _, c := range claims {
		s.mustRun(t, s.jobOf(t, c))
		settlements = append(settlements, core.Settlement{Key: c.Key, Limits: c.Limits, At: stopped(), Cost: 1})
	}
	must.Do(t, s.Settle(t.Context(), settlements))
	expect.Equal(t, routing(s.decider.server.routing.Load()), byIdentity, "after CROSSSLOT the routing (by identity)")
	for _, c := range claims {
		expect.Equal(t, s.remains(t, c), 9, "%s: remaining", c.Key)
	}
}

// A migrating hook answers as a node of a Redis Cluster does in a slot that migrates: it runs no script with several keys.
type migrating struct {
	failing
	reply string // to such a script; "" if the node runs it
}

func (h *migrating) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); h.reply != "" && cmd.Name() == "evalsha" && args[2] != 1 {
			err := errorReply(h.reply)
			cmd.SetErr(err)
			return err
		}
		return h.failing.ProcessHook(next)(ctx, cmd)
	}
}
