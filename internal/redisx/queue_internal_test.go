package redisx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

func TestRunBeginsWhenItsQueueAllows(t *testing.T) { synctest.Test(t, testQueueAllows) }

func testQueueAllows(t *testing.T) {
	now := time.Now()
	inFlight := func(load int, age time.Duration) *run { return &run{load: load, sent: now.Add(-age)} }
	s := &queues{server: &server{maxRuns: 3}}
	for _, row := range []struct {
		why      string
		inFlight []*run
		load     int
		want     bool
	}{
		{"none is in flight", nil, 1, true},
		{"as large as the one in flight", []*run{inFlight(8, 0)}, 8, true},
		{"smaller", []*run{inFlight(8, 0)}, 7, false},
		{"smaller, but that one is slow", []*run{inFlight(8, slow)}, 7, true},
		{"two are in flight", []*run{inFlight(1, slow-1), inFlight(1, 0)}, 100, false},
		{"only the older of two is slow", []*run{inFlight(8, slow), inFlight(8, slow-1)}, 100, false},
		{"both are slow", []*run{inFlight(8, 2*slow), inFlight(8, slow)}, 1, true},
		{"as many as may be are in flight", []*run{inFlight(8, time.Hour), inFlight(8, time.Hour), inFlight(8, time.Hour)}, 100, false},
	} {
		expect.Equal(t, s.allows(&queue{inFlight: row.inFlight, load: row.load}, now), row.want, "%s", row.why)
	}
}

// A server that is 40 ms away decides within 50 ms whenever a request arrives, though half the pool of connections is few.
func TestFarServerDecidesSteadyRequestsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newSlowClient(t)
		c.delay = 40 * time.Millisecond
		take := func(n int, timeout time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := s.Take(ctx, []core.Claim{{Key: strconv.Itoa(n), Limits: core.MustParseLimits("100/h")}}, nil)
			expect.NoError(t, err, "request %d", n)
		}
		take(0, time.Second) // from then on, the store knows how far the server is
		var callers sync.WaitGroup
		for n := range 500 {
			callers.Go(func() { take(1+n, 50*time.Millisecond) })
			time.Sleep(time.Millisecond)
		}
		callers.Wait()
	})
}

// busy returns a store and a queue with runs in flight that never finish.
func busy(t *testing.T) (*Store, *queue) {
	s := frozenStore(t)
	q := new(queue)
	for range fewRuns {
		q.inFlight = append(q.inFlight, &run{sent: time.Now().Add(time.Hour)})
	}
	s.decider.queues.byRoute[q.route] = q
	return s, q
}

func TestRunsAreBounded(t *testing.T) {
	for _, row := range []struct {
		limits   string
		requests int
		want     []int // requests of each run
	}{
		{"5/m", 300, []int{256, 44}},
		{"5/m, 9/h", 200, []int{128, 72}},
		{"5/m, 9/h;fixed-window", 200, []int{128, 72}},
		{"5/m;sliding-log", 70, []int{64, 6}},
		{"5/m;sliding-window", 70, []int{64, 6}},
		{"640/m;sliding-log", 30, []int{18, 12}},
		{"1000/h;sliding-log", 20, []int{13, 7}},
		{"1000/h;sliding-log, 5/m", 20, []int{12, 8}},
	} {
		s, q := busy(t)
		for i := range row.requests {
			j := s.jobOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits(row.limits)})
			must.True(t, !s.decider.queues.add(t.Context(), j, time.Now(), true), "a run began though two are in flight")
		}
		var got []int
		for q.load > 0 {
			q.lead = q.elect()
			got = append(got, len(q.take(time.Now()).jobs))
		}
		expect.Elements(t, got, row.want, "%s: runs of requests", row.limits)
	}
}

func TestSettlementsGoFirst(t *testing.T) {
	s, q := busy(t)
	for i := range 300 {
		s.decider.queues.add(t.Context(), s.jobOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m")}), time.Now(), true)
	}
	owed := s.decider.layout.newJob(true)
	owed.addSettlements([]core.Settlement{{Key: "k", Limits: core.MustParseLimits("5/m"), Cost: 2, Final: 1}})
	owed.prepare(false)
	s.decider.queues.add(t.Context(), owed, time.Now(), true)
	q.lead = q.elect()
	if jobs := q.take(time.Now()).jobs; jobs[0] != owed || len(jobs) < 200 {
		t.Errorf("a run of %d jobs, want the settlement first and takes after it", len(jobs))
	}
}

func TestJobWithdrawnBeforeItIsSentIsNotDecided(t *testing.T) {
	s, q := busy(t)
	ctx, cancel := context.WithCancel(context.Background())
	claim := core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")}
	other := s.jobOf(t, core.Claim{Key: "other", Limits: core.MustParseLimits("5/m, 50/h")})
	queues := s.decider.queues
	queues.add(t.Context(), other, time.Now(), false)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, []core.Claim{claim}, nil)
		failed <- err
	}()
	waits := func(load int) func() bool {
		return func() bool {
			queues.mu.Lock()
			defer queues.mu.Unlock()
			return q.load == load
		}
	}
	redistest.Wait(t, "the job to wait", waits(3))
	cancel()
	expect.ErrorIs(t, <-failed, context.Canceled, "that the context was canceled")
	expect.True(t, waits(2)(), "a load of %d waits with the two limits that are left", q.load)
	expect.True(t, !queues.withdraw(other) && waits(0)(), "a load of %d waits though no job does", q.load)
	queues.mu.Lock()
	q.inFlight = nil
	queues.mu.Unlock()
	claim.Peek = true
	results := must.Get(s.Take(context.Background(), []core.Claim{claim}, nil))(t)
	expect.Equal(t, results[0].Remaining, 5, "%+v (all 5 to remain)", results)
}

func TestTooManyCallsFailAtOnce(t *testing.T) {
	s := frozenStore(t)
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	running := s.decider.server.running
	for range 4096 {
		running <- struct{}{}
	}
	_, err := s.Take(t.Context(), claims, nil)
	expect.True(t, errors.Is(err, breaker.ErrTooMany) && !errors.Is(err, core.ErrInvalid), "%v, want %v", err, breaker.ErrTooMany)
	for range 4096 {
		<-running
	}
	expect.Equal(t, must.Get(s.Take(context.Background(), claims, nil))(t)[0].Remaining, 4, "remaining")
}

func TestTakeWithAContextThatHasEndedIsNotDecided(t *testing.T) {
	s := frozenStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	for range 20 {
		expect.ErrorIs(t, expect.ErrorOf(s.Take(ctx, claims, nil)), context.Canceled, "s.Take(ctx, claims, nil))")
	}
	expect.Equal(t, must.Get(s.Take(context.Background(), claims, nil))(t)[0].Remaining, 4, "remaining")
}

func TestCallerWithTheLatestDeadlineLeads(t *testing.T) {
	now := time.Now()
	at := func(millis int) time.Time { return now.Add(time.Duration(millis) * time.Millisecond) }
	never := time.Time{}
	for _, row := range []struct {
		why       string
		deadlines []time.Time
		want      int
	}{
		{"the latest of all", []time.Time{at(1), at(3), at(2)}, 1},
		{"the last of the latest", []time.Time{at(1), at(3), at(3)}, 2},
		{"the first may have none", []time.Time{never, at(2)}, 0},
		{"the last may have none", []time.Time{at(1), never}, 1},
	} {
		q := new(queue)
		for _, d := range row.deadlines {
			q.waiting = append(q.waiting, &job{deadline: d, load: 1})
		}
		expect.Equal(t, slices.Index(q.waiting, q.elect()), row.want, "%s: job leads", row.why)
	}
	for _, row := range []struct {
		why        string
		lead, next time.Time
		load       int
		want       bool
	}{
		{"an earlier deadline", at(50), at(20), 1, true},
		{"a little later", at(50), at(60), 1, true},
		{"later than the leader waits", at(50), at(61), 1, false},
		{"none", at(50), never, 1, false},
		{"the leader waits for ever", never, at(50), 1, true},
		{"too large", at(50), at(50), maxLoad, false},
	} {
		lead, next := &job{deadline: row.lead, load: 1}, &job{deadline: row.next, load: row.load}
		q := &queue{lead: lead, waiting: []*job{lead, next}, load: 1 + row.load}
		got := len(q.take(now).jobs) == 2
		expect.True(t, got == row.want && (q.load == 0) == row.want, "%s: may join %v, want %v", row.why, got, row.want)
	}
}

// A job that fills a run by itself has its turn, though smaller ones with later deadlines arrive behind it.
func TestLargeJobIsNotPassed(t *testing.T) {
	now := time.Now()
	q := new(queue)
	for i, load := range []int{1, maxLoad, 1, 1} {
		q.waiting, q.load = append(q.waiting, &job{load: load, deadline: now.Add(time.Duration(i))}), q.load+load
	}
	var got []int
	for q.load > 0 {
		q.lead = q.elect()
		got = append(got, len(q.take(now).jobs))
	}
	expect.Elements(t, got, []int{1, 1, 2}, "runs of jobs")
}

// A caller that gives up before it leads its run passes the lead on. If it is the last caller, none leads.
func TestLeadIsPassedOn(t *testing.T) { synctest.Test(t, testLeadIsPassedOn) }

func testLeadIsPassedOn(t *testing.T) {
	s := &queues{server: &server{maxRuns: fewRuns}, byRoute: make(map[string]*queue)}
	add := func(load int) (j *job, leads bool) {
		j = &job{load: load}
		return j, s.add(t.Context(), j, time.Now(), false)
	}
	first, leads := add(3)
	must.True(t, leads, "the first caller does not lead a run")
	s.begin(first)
	q := s.byRoute[""]
	add(1)
	add(1)
	j, leads := add(1)
	must.True(t, leads && q.lead == j, "%+v leads, want the last caller", q.lead)
	for left := 2; left >= 0; left-- {
		lead := q.lead
		s.withdraw(lead)
		must.True(t, lead.unsent && lead.run == nil, "a caller gave up before it led its run, but its job was sent")
		if s.finish(q.inFlight[0]); left == 0 {
			break
		}
		must.True(t, q.lead != nil && q.lead != lead && q.load == left && <-q.lead.wake, "%+v leads, with a load of %d", q.lead, q.load)
		q.inFlight = append(q.inFlight, &run{jobs: []*job{{queue: q}}, load: 3, sent: time.Now()})
	}
	expect.True(t, q.lead == nil && q.load == 0, "%+v leads, though no caller is left", q.lead)
}

// wantLead fails t unless the caller of j, which waits, has been told that it leads a run.
func wantLead(t *testing.T, j *job) {
	t.Helper()
	select {
	case leads := <-j.wake:
		expect.True(t, leads, "the job that waits is done")
	default:
		t.Error("the job that waits does not lead a run")
	}
}

// A caller that gives up while nothing is in flight passes the lead on itself: no run ends that would.
func TestLeadIsPassedOnWhileNothingIsInFlight(t *testing.T) {
	s := &queues{server: &server{maxRuns: fewRuns}, byRoute: make(map[string]*queue)}
	first, next := &job{load: 1}, &job{load: 1}
	s.add(t.Context(), first, time.Now(), false)
	s.add(t.Context(), next, time.Now(), false)
	s.withdraw(first)
	wantLead(t, next)
}

// The caller that ends a run hands the lead to one that waits, at once.
func TestEndOfARunBeginsTheNext(t *testing.T) {
	s := &queues{server: &server{maxRuns: fewRuns}, byRoute: make(map[string]*queue)}
	first, next := &job{load: 2}, &job{load: 1}
	s.add(t.Context(), first, time.Now(), true)
	r := s.begin(first)
	must.True(t, !s.add(t.Context(), next, time.Now(), true), "a smaller run began while another was in flight")
	s.finish(r)
	wantLead(t, next)
}

// Jobs that arrive before the leader begins its run join it, even if the leader has waited for a CPU.
func TestJobsJoinUntilTheRunBegins(t *testing.T) { synctest.Test(t, testJobsJoin) }

func testJobsJoin(t *testing.T) {
	s := &queues{server: &server{maxRuns: fewRuns}, byRoute: make(map[string]*queue)}
	add := func() (j *job, leads bool) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		j = &job{load: 1}
		return j, s.add(ctx, j, time.Now(), true)
	}
	lead, _ := add()
	for range 5 {
		time.Sleep(together / 5)
		_, leads := add()
		must.True(t, !leads, "a second caller leads a run before the first has begun")
	}
	expect.Equal(t, len(s.begin(lead).jobs), 6, "a run of jobs")
}

// A leader that begins its run late shows that this process lacks CPU: jobs that are late then are no failures of the server.
func TestLateLeaderShowsALackOfCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for late, want := range map[time.Duration]bool{tooLate: false, tooLate + 1: true} {
			s := &queues{server: &server{maxRuns: fewRuns}, byRoute: make(map[string]*queue)}
			lead := &job{load: 1}
			s.add(t.Context(), lead, time.Now(), true)
			time.Sleep(late)
			if s.begin(lead); s.starved.Equal(time.Now()) != want {
				t.Errorf("a leader that is %v late: %v, want a lack of CPU %v", late, s.starved, want)
			}
		}
	})
}

// Callers begin and give up at any time. No lead is lost: each caller gets a reply or its own error, and nothing is left behind.
// Some clients end calls at the deadline, and contexts are canceled or end at a deadline.
func TestNoLeadIsLost(t *testing.T) {
	for _, inline := range []bool{false, true} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("inline %v, deadline alone %v", inline, alone), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { floodAndGiveUp(t, inline, alone) })
			})
		}
	}
}

func floodAndGiveUp(t *testing.T, inline, alone bool) {
	_, s := newSlowClient(t)
	s.decider.server.inline = inline
	s.decider.server.warming.Store(true) // there is no server to connect to
	limits := core.MustParseLimits("100/h")
	var all sync.WaitGroup
	for i := range 3000 {
		all.Go(func() {
			time.Sleep(time.Duration(i%701) * 137 * time.Microsecond)
			wait := time.Duration(i%97) * 531 * time.Microsecond
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			if alone {
				ctx = deadline.Context{Context: ctx}
			}
			begun := time.Now()
			_, err := s.Take(ctx, []core.Claim{{Key: fmt.Sprint(i % 7), Limits: limits}}, nil)
			late := inline && alone // slowClient does not end calls at a deadline
			if past := time.Since(begun) - wait; past > 0 && !late || past > 20*time.Millisecond {
				t.Errorf("returned %v after the deadline", past)
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, breaker.ErrTooMany) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	time.Sleep(time.Second)
	results := must.Get(s.Take(t.Context(), []core.Claim{{Key: "last", Limits: limits}}, nil))(t)
	expect.Equal(t, len(results), 1, "%+v after the callers have given up", results)
	synctest.Wait()
	expect.True(t, s.isIdle(), "calls are left")
}

// The timer of a queue that has ended may still fire when its route has another queue, which stays.
func TestTimerOfAnEndedQueueLeavesTheNextQueue(t *testing.T) { synctest.Test(t, testTimerOfEndedQueue) }

func testTimerOfEndedQueue(t *testing.T) {
	s := &queues{server: &server{maxRuns: fewRuns}, byRoute: make(map[string]*queue)}
	add := func(load int) *job {
		j := &job{route: "1", load: load}
		s.add(t.Context(), j, time.Now(), false)
		return j
	}
	first := add(2)
	r := s.begin(first)
	second := add(1) // waits, and has the queue start its timer
	s.finish(r)
	<-second.wake // it leads
	s.finish(s.begin(second))
	third := add(2)
	time.Sleep(slow / 2)
	s.mu.Lock() // for the race detector
	if got := s.byRoute["1"]; got != third.queue || first.queue == third.queue || !first.queue.armed {
		t.Fatalf("the queue of the route is %p before the timer fires, want %p", got, third.queue)
	}
	s.mu.Unlock()
	time.Sleep(slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	expect.Equal(t, s.byRoute["1"], third.queue, "the queue of the route is after the timer has fired")
}

// A server caches a bounded number of plans, so requests that differ only in their costs and waits share a plan.
func TestCostsAndWaitsShareAPlan(t *testing.T) {
	s := frozenStore(t)
	three := core.MustParseLimits("100/s, 1000/m, 5000/h")
	claimsOf := func(cost int, wait time.Duration) []core.Claim {
		return []core.Claim{
			{Rule: "api", Key: "a", Limits: three, Cost: cost, MaxWait: wait},
			{Rule: "all", Key: "b", Limits: core.MustParseLimits("9/m;fixed-window, 9 at once"), Cost: cost + 1, Hold: true},
			{Rule: "api", Key: "a", Limits: three, Cost: cost, DryRun: true},
		}
	}
	settlementsOf := func(cost int, wait time.Duration) []core.Settlement {
		return []core.Settlement{{Rule: "api", Key: "a", Limits: three, Cost: cost, Final: cost / 2, At: time.Now().Add(-wait), MaxWait: wait, Wait: wait / 2}}
	}
	var jobs []*job
	for _, how := range []routing{anyKeys, byKey} {
		for cost := range 5 {
			wait := time.Duration(cost) * time.Second
			take := must.Get(s.decider.layout.newTake(claimsOf(2+1000*cost, wait)))(t)
			settle := s.decider.layout.newJob(true)
			settle.addSettlements(settlementsOf(2+1000*cost, wait))
			for _, j := range []*job{take, settle} {
				if how != anyKeys {
					how.split(j)
				}
				if len(j.parts) == 0 {
					jobs = append(jobs, j)
				}
				jobs = append(jobs, j.parts...)
			}
		}
	}
	plans := make(map[any]bool)
	for _, j := range jobs {
		j.prepare(false)
		plans[j.plan] = true
	}
	if len(plans) != 4 { // of all claims, of the claims of each key, and of the settlement
		t.Errorf("%d plans, want 4: %v", len(plans), plans)
	}
	for range 10 { // the jobs of a call stay in their order, and a plan that follows itself is sent once
		rand.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
		words, last := appendCall(nil, 0, jobs), any(nil)
		args := words[3+words[2].(int):]
		for i, j := range jobs {
			plan, numbers := args[2*i], args[2*i+1]
			if want := j.plan; j.plan == last && plan != "" || j.plan != last && plan != want || numbers != j.words {
				t.Fatalf("job %d after %q: sent %q, want %q", i, last, plan, want)
			}
			last = j.plan
		}
	}
}

// A job that only peeks still decides for the sum of its claims.
func TestPeekingJobDecidesForAllItsClaims(t *testing.T) {
	servers(t, func(t *testing.T, s *Store) {
		for _, limits := range []string{"9/d", "9/d;fixed-window", "9/d;sliding-window", "9/d;sliding-log"} {
			c := core.Claim{Key: limits, Limits: core.MustParseLimits(limits), Cost: 5}
			peek := c
			peek.Peek = true
			dry := c
			dry.DryRun = true
			for _, row := range []struct {
				claims []core.Claim
				want   bool
			}{
				{[]core.Claim{c, c}, false},
				{[]core.Claim{c}, true},
				{[]core.Claim{c, peek}, true},
				{[]core.Claim{c, dry}, true},
			} {
				j := s.jobOf(t, row.claims...)
				j.prepare(true)
				s.mustRun(t, j)
				expect.True(t, j.admitted() == row.want && s.remains(t, c) == 9,
					"%s: %d claims: %+v, want %v, and nothing charged", limits, len(row.claims), j.usages, row.want)
			}
		}
	})
}

// A slowClient is a server that takes delay for a batch, denies all takes and makes all settlements. While it hangs it answers nothing.
type slowClient struct {
	*redis.Client
	delay          time.Duration
	hangs          atomic.Bool
	takes, settles atomic.Int64
}

func (c *slowClient) Process(ctx context.Context, cmd redis.Cmder) error {
	run, ok := cmd.(*once)
	if !ok || run.name.text == nil { // it is no run
		return io.EOF
	}
	time.Sleep(c.delay)
	if errors.Is(ctx.Err(), context.Canceled) {
		cmd.SetErr(ctx.Err())
		return ctx.Err()
	}
	if c.hangs.Load() {
		time.Sleep(time.Minute)
		cmd.SetErr(io.EOF)
		return io.EOF
	}
	keys := cmd.Args()[2].(int)
	args, plan, reply := cmd.Args()[3+keys:], "", []int64{time.Now().UnixMicro(), 0}
	for ; len(args) > 0; args = args[2:] { // a plan, empty if it is the one before, and words
		if text := args[0].(string); text != "" {
			plan = text
		}
		if strings.HasPrefix(plan, string(binary.AppendUvarint([]byte("t"), 1<<6|uint64(adjust)<<2|1))) {
			reply = append(reply, rare*-algorithm.MaxExact, 0)
			c.settles.Add(1)
		} else {
			reply = append(reply, rare*-algorithm.MaxExact, 36e6, 0, 36e6, 3600e6, grantZero)
			c.takes.Add(1)
		}
	}
	run.SetVal(textOf(reply))
	return nil
}

// slowStore returns a store on a slowClient, and a limiter with a rule that fails open.
func slowStore(t *testing.T) (*slowClient, *Store, *core.Limiter) {
	c, s := newSlowClient(t)
	return c, s, withRule(s, core.FailOpen)
}

func newSlowClient(t *testing.T) (*slowClient, *Store) {
	c := &slowClient{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), delay: 20 * time.Millisecond}
	t.Cleanup(func() { c.Close() })
	return c, New(c, Options{Prefix: "p"})
}

// withRule returns a limiter on s with a rule whose local limits admit 100 requests.
func withRule(s *Store, mode core.FailureMode) *core.Limiter {
	rule := core.MustParseLimits("100/h")[0].By(func(*http.Request) (string, error) { return "k", nil })
	rule.OnFailure = mode
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(s)))
}

// flooding requests at once are far too many for a slowClient, which decides some 2,000 before the deadline.
const flooding = 10_000

// flood makes n requests at once and returns how many are admitted, and how many of them because the store failed.
func flood(t *testing.T, l *core.Limiter, n int) (admitted, failed int64) {
	var callers sync.WaitGroup
	var admits, fails atomic.Int64
	for range n {
		callers.Go(func() {
			d, err := l.Take(context.Background(), core.Claim{Key: "k"})
			expect.NoError(t, err, "unexpected error")
			if d.Allowed {
				admits.Add(1)
			}
			if d.Degraded != nil && !errors.Is(d.Degraded, breaker.ErrTooMany) {
				fails.Add(1)
			}
		})
	}
	callers.Wait()
	return admits.Load(), fails.Load()
}

// A flood that a slow server cannot decide in time is an overload. The breaker stays closed, whatever the failure mode, and the
// server keeps deciding.
func TestLongQueueIsAnOverload(t *testing.T) {
	for name, mode := range map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed} {
		t.Run(name, func(t *testing.T) { testLongQueue(t, mode) })
	}
}

func testLongQueue(t *testing.T, mode core.FailureMode) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newSlowClient(t)
		l := withRule(s, mode)
		var all int64
		for i, n := range []int{flooding, 4000, flooding} {
			before := c.takes.Load()
			admitted, failed := flood(t, l, n)
			all += admitted
			must.True(t, failed <= 0 && all <= 100, "flood %d: %d requests were admitted so far, and %d failed", i, all, failed)
			expect.AtLeast(t, c.takes.Load()-before, 2*maxLoad, "flood %d: the server decided requests (two full runs at least)", i)
			time.Sleep(10 * time.Millisecond)
		}
		h := l.StoreHealth()
		expect.True(t, !h.Down && h.Err == nil && h.Overloads >= flooding, "%+v after overloads", h)
	})
}

// If the server hangs in the middle of a flood, the breaker opens as it does without one.
func TestHangDuringAnOverloadIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, l := slowStore(t)
		flood(t, l, flooding)
		c.hangs.Store(true)
		begun := time.Now()
		for !l.StoreHealth().Down {
			if flood(t, l, 5000); time.Since(begun) > 250*time.Millisecond {
				t.Fatalf("%+v after %v without an answer", l.StoreHealth(), time.Since(begun))
			}
		}
		time.Sleep(2 * time.Minute) // until the calls in flight end
	})
}

// A queue that is too long for takes is not too long for settlements.
func TestSettlementsAreNotTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, l := slowStore(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { flood(t, l, flooding) })
			synctest.Wait()
			for range 300 {
				all.Go(func() {
					st := core.Settlement{Key: "k", Limits: core.MustParseLimits("100/h"), At: time.Now(), Cost: 2, Final: 1}
					expect.NoError(t, s.Settle(ctx, []core.Settlement{st}), "Settle")
				})
			}
			time.Sleep(25 * time.Millisecond)
		}
		all.Wait()
		expect.Equal(t, c.settles.Load(), 900, "settlements made")
		time.Sleep(time.Second) // until the calls for takes that gave up end
		synctest.Wait()
		expect.True(t, s.isIdle(), "calls are left")
	})
}
