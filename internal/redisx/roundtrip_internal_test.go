package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
)

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
		s.decider.queues.routing.Store(uint32(bySlot))
		claims = append(claims, core.Claim{Key: "other", Limits: rule.Limits})
	}
	for failed := row.mostRuns; ; failed += row.mostRuns {
		var others, callers sync.WaitGroup
		for range fewRuns {
			if row.behind {
				others.Go(func() { _, _ = s.Take(context.Background(), claims, nil) })
				synctest.Wait()
			}
		}
		for range 256 {
			callers.Go(func() {
				d, err := l.Take(context.Background(), claims...)
				if err != nil || d.Degraded == nil || errors.Is(d.Degraded, breaker.ErrTooMany) {
					t.Errorf("%+v, %v, want a decision without the store", d, err)
				}
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
			if failed < 5 {
				t.Errorf("the breaker is open after %d failed runs", failed)
			}
			return
		}
		if failed > 20 {
			t.Fatalf("the breaker is closed after %d failed runs", failed)
		}
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
		why      string
		unsent   bool
		answered time.Duration // after the job has begun
		past     time.Duration // since its deadline
		starved  time.Duration // when a timer or a leader was late, after the job has begun
		err      error
		overload bool
	}{
		{why: "no reply in time", err: context.DeadlineExceeded},
		{why: "the last answer came before", answered: -1, err: context.DeadlineExceeded},
		{why: "another answer came meanwhile", answered: 1, err: context.DeadlineExceeded, overload: true},
		{why: "never sent", unsent: true, err: context.DeadlineExceeded, overload: true},
		{why: "the timer was late", answered: -1, past: 2 * tooLate, err: context.DeadlineExceeded, overload: true},
		{why: "the timer was late, and the server is silent", answered: -alive, past: 2 * tooLate, err: context.DeadlineExceeded},
		{why: "the timer was late, and the server has never answered", past: 2 * tooLate, err: context.DeadlineExceeded},
		{why: "something was late meanwhile", answered: -1, starved: 1, err: context.DeadlineExceeded, overload: true},
		{why: "something was late before", answered: -1, starved: -1, err: context.DeadlineExceeded},
		{why: "a wrapped error", answered: 1, err: fmt.Errorf("hook: %w", context.DeadlineExceeded), overload: true},
		{why: "a lost connection is no matter of time", answered: 1, past: 2 * tooLate, err: io.EOF},
		{why: "canceled", answered: 1, err: context.Canceled},
		{why: "canceled before it was sent", unsent: true, err: context.Canceled},
	} {
		q := new(queue)
		if row.answered != 0 {
			q.answered = begun.Add(row.answered)
		}
		j := &job{begun: begun, deadline: time.Now().Add(time.Hour), run: &run{queue: q}, unsent: row.unsent}
		if row.past > 0 {
			j.deadline = time.Now().Add(-row.past)
		}
		all := new(queues)
		if row.starved != 0 {
			all.starved = begun.Add(row.starved)
		}
		err := all.failed(j, row.err)
		if got := errors.Is(err, breaker.ErrTooMany); got != row.overload || !got && !errors.Is(err, row.err) {
			t.Errorf("%s: %v, want an overload %v", row.why, err, row.overload)
		}
	}
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
			s.decider.queues.setRouting(bySlot)
			_, err := s.Take(ctx, []core.Claim{one, other}, nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, breaker.ErrTooMany) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want an overload by its deadline", why, err)
		}
	}
	if c.runs > 0 {
		t.Errorf("the server got %d calls after their deadlines", c.runs)
	}
}

// Jobs that are not sent before their deadlines leave the queue. They are not failures of the server.
func TestDeadlineOfAWaitingJob(t *testing.T) {
	s, q := busy(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			if _, err := s.Take(ctx, []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}, nil); !errors.Is(err, breaker.ErrTooMany) {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if q.load != 0 {
		t.Errorf("a load of %d waits for nobody", q.load)
	}
}
