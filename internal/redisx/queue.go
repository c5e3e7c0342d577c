package redisx

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
)

// Jobs that arrive while others are in flight wait in a queue and are sent together, because one run of the script for
// many jobs takes the server and this process much less time than one run per job. The caller of one of the jobs leads
// the run: it sends the run, waits for the reply, gives the others their parts of it and wakes the caller that leads the
// next run. A run is in flight for as long as its leader waits, so the caller with the latest deadline leads.
const (
	maxLoad  = 256                   // of a run: the server needs about a millisecond for it
	fewRuns  = 2                     // runs of a queue in flight: one at the server, one on its way
	slow     = 2 * time.Millisecond  // a run in flight for longer does not hold up the next
	together = time.Millisecond      // jobs may share a run if their deadlines are later than the leader's by no more
	alive    = time.Second           // a server that has not answered for longer has failed, however busy this process is
	tooLate  = 10 * time.Millisecond // a timer that fires later than this shows that the process lacks CPU
)

// queues has a queue for each route with jobs.
type queues struct {
	server  *server
	routing atomic.Uint32

	mu      sync.Mutex
	byRoute map[string]*queue
	company bool      // the last run was not alone
	starved time.Time // the last time when a timer or a leader was late, because this process lacks CPU
}

// A queue holds the jobs that may share a run of the script.
type queue struct {
	route    string
	owed     []*job // settlements that wait. They go first: without them, what was held would be charged in full.
	takes    []*job // takes that wait
	load     int    // of all jobs that wait
	open     *run   // the last one in flight, if its leader has not begun it: jobs may still join
	inFlight []*run
	answered time.Time     // the last time when a run was answered
	stall    *breaker.Trip // what runs that are late at the same time share: a stall is one failure, however many were in flight
	stalled  time.Time     // when stall began
	timer    *time.Timer   // dispatches the jobs that wait when the oldest run in flight becomes slow; nil at first
	armed    bool          // timer is running
}

// A run is one run of the script.
type run struct {
	queue *queue
	jobs  []*job
	one   [1]*job // backs jobs of a small run
	load  int     // of all jobs
	lead  *job    // its caller leads the run
	begun bool    // no jobs may join or leave
	sent  time.Time
	trip  breaker.Trip // if the run fails, each caller's breaker counts one failure
}

func newQueues(server *server) *queues {
	s := &queues{server: server, byRoute: make(map[string]*queue)}
	switch server.client.(type) {
	case *redis.ClusterClient:
		s.setRouting(bySlot)
	case *redis.Ring:
		s.setRouting(byIdentity)
	}
	return s
}

func (s *queues) setRouting(how routing) { s.routing.Store(uint32(how)) }

// how returns the routing of the server, which may turn out to be a Redis Cluster.
func (s *queues) how() routing { return routing(s.routing.Load()) }

// do runs j, whose caller has begun to wait at an instant, and returns its error. If ctx ends first, the error is ctx's, or errLate.
func (s *queues) do(ctx context.Context, j *job, begun time.Time) error {
	if j.unsent = ctx.Err() != nil; j.unsent {
		return s.failed(j, ctx.Err())
	}
	alone := deadline.Alone(ctx)
	s.mu.Lock()
	r := s.add(ctx, j, begun, alone)
	if r != nil {
		s.begin(r, begun)
	}
	s.mu.Unlock()
	for r == nil || !alone {
		if r != nil {
			go s.leadDetached(ctx, r)
		}
		select {
		case r = <-j.wake:
		case <-ctx.Done():
			if !s.withdraw(j) {
				return s.failed(j, ctx.Err())
			}
			r = nil
		}
		if r == nil {
			break
		}
		s.mu.Lock()
		s.begin(r, time.Now())
		s.mu.Unlock()
	}
	if r != nil {
		s.lead(ctx, r)
	}
	if err := j.failure; err != nil {
		return s.failed(j, err)
	}
	return j.read()
}

// add adds j to its queue. If the caller of j leads a run, add returns that run. The caller has locked s.mu.
func (s *queues) add(ctx context.Context, j *job, begun time.Time, alone bool) (r *run) {
	j.begun, j.run, j.failure, j.wake, j.left = begun, nil, nil, nil, false
	j.deadline, _ = ctx.Deadline()
	q := s.byRoute[j.route]
	if q == nil {
		q = &queue{route: j.route}
		s.byRoute[j.route] = q
	}
	if q.open != nil && q.open.hasRoomFor(j) {
		q.open.add(j)
	} else {
		list := &q.takes
		if j.owed {
			list = &q.owed
		}
		*list, q.load = append(*list, j), q.load+j.load
		r = s.dispatch(q, j, begun)
	}
	if r == nil || !alone {
		j.wake = make(chan *run, 1)
	}
	return r
}

// newRun returns a run of the jobs that have waited longest.
func (q *queue) newRun(now time.Time) *run {
	r := &run{queue: q, sent: now}
	r.jobs = r.one[:0]
	for _, list := range [...]*[]*job{&q.owed, &q.takes} {
		n := 0
		for ; n < len(*list); n++ {
			j := (*list)[n]
			if j.left {
				continue
			}
			if r.load > 0 && r.load+j.load > maxLoad {
				break
			}
			r.add(j)
			q.load -= j.load
		}
		if *list = slices.Delete(*list, 0, n); len(*list) > 0 {
			break
		}
	}
	return r
}

func (r *run) add(j *job) {
	j.run = r
	r.jobs = append(r.jobs, j)
	r.load += j.load
}

// elect chooses the leader of r: the caller with the latest deadline.
func (r *run) elect() {
	r.lead = r.jobs[0]
	for _, j := range r.jobs[1:] {
		if !isLater(r.lead.deadline, j.deadline) {
			r.lead = j
		}
	}
}

// isLater reports whether a deadline is later than another one. The zero time is the latest.
func isLater(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }

// hasRoomFor reports whether j may join r, whose leader waits for the reply until its deadline.
func (r *run) hasRoomFor(j *job) bool {
	ends := r.lead.deadline
	return r.load+j.load <= maxLoad && (ends.IsZero() || !isLater(j.deadline, ends.Add(together)))
}

// dispatch puts the jobs that wait into runs, as far as q allows, and wakes the callers that lead them. If the caller of
// own leads a run, dispatch returns that run instead.
func (s *queues) dispatch(q *queue, own *job, now time.Time) (leads *run) {
	for q.load > 0 && s.allows(q, now) {
		r := q.newRun(now)
		r.elect()
		q.inFlight, q.open = append(q.inFlight, r), r
		if r.lead == own {
			leads = r
		} else {
			r.lead.wake <- r
		}
	}
	switch n := len(q.inFlight); {
	case n == 0 && s.byRoute[q.route] == q && q.route != "": // there are as many routes as slots or identities
		delete(s.byRoute, q.route)
	case q.load > 0 && n < s.server.maxRuns && !q.armed:
		q.arm(s, now)
	}
	return leads
}

// allows reports whether q may begin another run. If one is in flight, the next waits until as many jobs wait as that
// one has, or until it is slow.
func (s *queues) allows(q *queue, now time.Time) bool {
	n := len(q.inFlight)
	switch {
	case n == 0:
		return true
	case n >= s.server.maxRuns:
		return false
	}
	oldest := q.inFlight[0]
	return n < fewRuns && q.load >= oldest.load || now.Sub(oldest.sent) >= slow
}

// arm starts the timer of q.
func (q *queue) arm(s *queues, now time.Time) {
	q.armed = true
	left := slow - now.Sub(q.inFlight[0].sent)
	if q.timer != nil {
		q.timer.Reset(left)
		return
	}
	q.timer = time.AfterFunc(left, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		q.armed = false
		s.dispatch(q, nil, time.Now())
	})
}

// begin closes r to other jobs, after those whose goroutines are ready have joined it if the last run had company. Its caller has
// locked s.mu.
func (s *queues) begin(r *run, now time.Time) {
	if s.company {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
		now = time.Now()
	}
	if now.Sub(r.sent) > tooLate {
		s.starved = now
	}
	q := r.queue
	if r.begun, r.sent = true, now; q.open == r {
		q.open = nil
	}
	s.company = len(r.jobs) > 1 || q.load > 0 || len(q.inFlight) > 1
}

// lead runs r and gives its jobs their outcome. ctx ends when r.lead's does. If the server needs a run for each job, because their
// keys are in several slots, or in one that is migrating, each job gets one.
func (s *queues) lead(ctx context.Context, r *run) {
	defer s.finish(r) // even if a hook of the client ends the goroutine
	err := s.server.run(ctx, r.jobs)
	if err == nil || len(r.jobs) == 1 {
		return
	}
	apart := hasCode(err, "CROSSSLOT")
	if apart { // a client that wraps one of a Redis Cluster
		s.routing.CompareAndSwap(uint32(anyKeys), uint32(bySlot))
	}
	if apart || hasCode(err, "TRYAGAIN") {
		each(len(r.jobs), func(i int) { _ = s.server.run(ctx, r.jobs[i:i+1]) })
	}
}

// leadDetached is lead for a caller that may give up before the deadline of ctx.
func (s *queues) leadDetached(ctx context.Context, r *run) {
	own, cancel := deadline.Of(ctx)
	defer cancel()
	s.lead(own, r)
}

// finish ends r, begins the runs that have waited for it, and wakes the callers of its jobs.
func (s *queues) finish(r *run) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.queue
	s.drop(r)
	if r.jobs[0].failure == nil {
		q.answered = now
	}
	s.dispatch(q, nil, now)
	for _, j := range r.jobs {
		if j.wake != nil { // otherwise its caller leads r, and has never waited
			j.wake <- nil
		}
	}
}

// withdraw takes j out of its queue, unless it has been sent, for a caller that does not wait any longer. If the caller
// was to lead a run, another one leads it. withdraw reports whether j is already done.
func (s *queues) withdraw(j *job) (done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case r := <-j.wake:
		if r == nil {
			return true
		}
	default:
	}
	switch r := j.run; {
	case r == nil:
		q := s.byRoute[j.route]
		j.unsent, j.left = true, true
		q.load -= j.load
		s.dispatch(q, nil, time.Now())
	case !r.begun:
		j.unsent = true
		s.remove(r, j)
	}
	return false
}

// remove removes j from r, which has not begun. If its caller was to lead r, another one leads it.
func (s *queues) remove(r *run, j *job) {
	r.jobs = slices.DeleteFunc(r.jobs, func(other *job) bool { return other == j })
	if r.load -= j.load; r.lead != j {
		return
	}
	if len(r.jobs) > 0 {
		r.elect()
		r.lead.wake <- r
		return
	}
	if r.queue.open == r {
		r.queue.open = nil
	}
	s.drop(r)
	s.dispatch(r.queue, nil, time.Now())
}

// drop removes r from the runs in flight.
func (s *queues) drop(r *run) {
	r.queue.inFlight = slices.DeleteFunc(r.queue.inFlight, func(other *run) bool { return other == r })
}

// failed returns err, which ended j, as an error that the breaker counts once for all jobs of a run. If j is late, it is
// an overload of this process, and no failure of the server, if the server has not received j, even because its deadline
// had passed when its caller got a CPU, or if meanwhile the server has answered another run or this process lacked CPU.
// Otherwise runs that were in flight at the same time count as one failure.
func (s *queues) failed(j *job, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		if !j.deadline.IsZero() && now.Sub(j.deadline) > tooLate {
			s.starved = now
		}
		if j.unsent {
			return errLate
		}
		q := j.run.queue
		if q.answered.After(j.begun) || s.starved.After(j.begun) && q.answered.After(j.begun.Add(-alive)) {
			return errLate
		}
		if q.stall == nil || j.run.sent.After(q.stalled) {
			q.stall, q.stalled = &j.run.trip, now
		}
		return q.stall.Fail(err)
	}
	if j.unsent {
		return err
	}
	return j.run.trip.Fail(err)
}
