package redisx

import (
	"context"
	"errors"
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
	"github.com/spillgate/spillgate/internal/redistest"
)

// A gatedClient answers no command until the gate opens, and then with an error.
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

// A connection that is lost is one failure, however many callers wait for it: the breaker opens after five. So is a reply that
// never comes, and a batch whose callers give up before it is sent.
func TestCallersOfARunShareItsFailure(t *testing.T) {
	for why, row := range map[string]sharedFailure{
		"connections lost":                           {lost: true, mostRuns: 3},
		"no replies":                                 {mostRuns: 3},
		"connection of a whole batch lost":           {lost: true, behind: true, mostRuns: 1},
		"connections of a batch of each slot lost":   {lost: true, behind: true, twoSlots: true, mostRuns: 2},
		"a batch that is not sent in time":           {behind: true, mostRuns: 1},
		"a batch of each slot, neither sent in time": {behind: true, twoSlots: true, mostRuns: 2},
	} {
		t.Run(why, func(t *testing.T) { synctest.Test(t, row.test) })
	}
}

type sharedFailure struct {
	lost     bool // else the server hangs
	behind   bool // the callers share a batch, behind runs of others
	twoSlots bool // each request has two jobs
	mostRuns int  // with 256 callers
}

func (row sharedFailure) test(t *testing.T) {
	c := &gatedClient{Client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), gate: make(chan struct{})}
	defer c.Close()
	defer c.open()
	s := New(c, Options{Prefix: "p"})
	rule := core.MustParseLimits("1000/h")[0].By(func(*http.Request) (string, error) { return "k", nil })
	rule.OnFailure = core.FailOpen
	l := core.Must(core.New([]core.Rule{rule}, core.WithStore(s)))
	claims := []core.Claim{{Key: "k", Limits: rule.Limits}}
	if row.twoSlots {
		s.decider.batcher.routing.Store(uint32(bySlot))
		claims = append(claims, core.Claim{Key: "other", Limits: rule.Limits})
	}
	for failed := row.mostRuns; ; failed += row.mostRuns {
		var others, callers sync.WaitGroup
		for range maxInFlight {
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

// Jobs that leave the queue at their deadline count as one failure for each batch.
func TestDeadlineOfAWaitingJob(t *testing.T) {
	s, q := busy(t)
	s.decider.batcher.routing.Store(uint32(bySlot))
	var b breaker.Breaker
	ctx, cancel := context.WithCancel(context.Background())
	limits := core.MustParseLimits("5/m")
	queues := []*queue{{route: routeOf(s, "k"), inFlight: q.inFlight}, {route: routeOf(s, "other"), inFlight: q.inFlight}}
	for _, q := range queues {
		s.decider.batcher.queues[q.route] = q
	}
	var callers sync.WaitGroup
	for i := range 100 {
		callers.Go(func() {
			claims := []core.Claim{{Key: "k", Limits: limits}, {Key: "other", Limits: limits}}[:1+i%2]
			_, err := s.Take(ctx, claims, nil)
			if !errors.Is(err, context.Canceled) || errors.Is(err, breaker.ErrTooMany) {
				t.Error(err)
			}
			if call, withheld := b.Enter(time.Now()); withheld == nil {
				call.Fail(time.Now(), err)
			}
		})
	}
	redistest.Wait(t, "the jobs to be enqueued", func() bool {
		s.decider.batcher.mu.Lock()
		defer s.decider.batcher.mu.Unlock()
		return waitingJobs(queues[0]) == 100 && waitingJobs(queues[1]) == 50
	})
	cancel()
	callers.Wait()
	if down, err := b.Down(); down {
		t.Errorf("two batches of 100 callers opened the breaker: %v", err)
	}
}

func waitingJobs(q *queue) (n int) {
	for _, b := range q.waiting {
		n += len(b.jobs)
	}
	return n
}

func routeOf(s *Store, identity string) string {
	return bySlot.nameOf(s.decider.layout.key("", identity), s.decider.layout)
}
