package redisx

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
)

// Jobs that arrive while others are in flight wait in a queue and are sent together, because one run of the script for
// many jobs takes the server and this process much less time than one run per job. The caller of one of the jobs leads
// the run: it takes the jobs that wait, sends the run, waits for the reply, gives the others their parts of it and wakes the
// caller that leads the next run. A run is in flight for as long as its leader waits, so the caller with the latest deadline leads.
const (
	maxLoad  = 256                   // of a run: the server needs about a millisecond for it
	fewRuns  = 2                     // runs of a queue in flight: one at the server, one on its way
	slow     = 2 * time.Millisecond  // a run in flight for longer does not hold up the next, unless the server is far away
	lonely   = 8                     // after so many runs of one job, the leader does not wait for company
	together = 10 * time.Millisecond // jobs may share a run if their deadlines are later than the leader's by no more
	alive    = time.Second           // a server that has not answered for longer has failed, however busy this process is
	tooLate  = 10 * time.Millisecond // a timer that fires later than this shows that the process lacks CPU
)

// queues has a queue for each route with jobs.
type queues struct {
	server  *server
	company atomic.Int32 // how many more runs of one job it takes until leaders expect no company

	mu       sync.Mutex
	byRoute  map[string]*queue
	starved  time.Time     // the last time when a timer or a leader was late, because this process lacks CPU
	answered time.Time     // the last time when a run of any queue was answered: a queue of one identity is gone once it is idle
	took     time.Duration // by that run
}

// A queue holds the jobs that may share a run of the script.
type queue struct {
	route    string
	waiting  []*job    // settlements, because without them what was held would be charged in full, then takes; each in their order
	load     int       // of all jobs that wait
	lead     *job      // one of them, whose caller is about to begin the next run; nil if that must not begin yet
	led      time.Time // when lead was chosen
	inFlight []*run
	answered time.Time     // the last time when a run was answered
	stall    *breaker.Trip // what runs that are late at the same time share: a stall is one failure, however many were in flight
	stalled  time.Time     // when stall began
	armed    bool          // a timer will dispatch the jobs that wait
}

// A run is one run of the script.
type run struct {
	jobs []*job
	one  [1]*job // backs jobs of a small run
	load int     // of all jobs
	sent time.Time
	trip breaker.Trip // if the run fails, each caller's breaker counts one failure
}

// do runs j and returns its error. If ctx ends first, the error is ctx's, or errLate.
func (s *queues) do(ctx context.Context, j *job) error {
	if j.unsent = ctx.Err() != nil; j.unsent {
		return s.failed(j, ctx.Err())
	}
	alone := deadline.Alone(ctx)
	leads := s.add(ctx, j, time.Now(), alone)
	for done := false; !done; {
		if leads && ctx.Err() == nil { // otherwise another caller leads, which still has time
			r := s.begin(j)
			if alone {
				s.run(ctx, r)
				break
			}
			own, cancel := deadline.Of(ctx) // the caller may give up before its deadline
			go func() { defer cancel(); s.run(own, r) }()
		}
		select {
		case leads = <-j.wake:
			done = !leads
		case <-ctx.Done():
			if done = s.withdraw(j); !done {
				return s.failed(j, ctx.Err())
			}
		}
	}
	if err := j.failure; err != nil {
		return s.failed(j, err)
	}
	return j.read()
}

// add adds j to its queue, and reports whether its caller leads the next run.
func (s *queues) add(ctx context.Context, j *job, begun time.Time, alone bool) (leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byRoute[j.route]
	if q == nil {
		q = &queue{route: j.route}
		s.byRoute[j.route] = q
	}
	j.queue, j.begun, j.run, j.failure, j.wake = q, begun, nil, nil, nil
	j.deadline, _ = ctx.Deadline()
	at := len(q.waiting)
	for j.owed && at > 0 && !q.waiting[at-1].owed {
		at--
	}
	q.waiting, q.load = slices.Insert(q.waiting, at, j), q.load+j.load
	if leads = s.dispatch(q, j, begun); !leads || !alone {
		j.wake = make(chan bool, 1)
	}
	return leads
}

// dispatch chooses the caller that leads the next run, if q allows one, and wakes it, unless its job is own. It reports whether
// it is. The caller of dispatch has locked s.mu.
func (s *queues) dispatch(q *queue, own *job, now time.Time) (leads bool) {
	if q.lead == nil && q.load > 0 && s.allows(q, now) {
		q.lead, q.led = q.elect(), now
		if leads = q.lead == own; !leads {
			q.lead.wake <- true
		}
	}
	switch n := len(q.inFlight); {
	case n == 0 && q.load == 0 && q.route != "" && s.byRoute[q.route] == q: // there are as many routes as identities
		delete(s.byRoute, q.route)
	case q.load > 0 && q.lead == nil && n < s.server.maxRuns && !q.armed:
		q.arm(s, now)
	}
	return leads
}

// interval returns how long after a run the next one may begin, however few jobs wait. Runs to a server that is far away are spread
// over the time that one takes, because a job that found as many in flight as may be would wait until one of them ends.
func (s *queues) interval() time.Duration { return max(slow, s.took/time.Duration(s.server.maxRuns)) }

// allows reports whether q may begin another run. If one is in flight, the next waits until as many jobs wait as that
// one has, or for the interval.
func (s *queues) allows(q *queue, now time.Time) bool {
	n := len(q.inFlight)
	switch {
	case n == 0:
		return true
	case n >= s.server.maxRuns:
		return false
	}
	return now.Sub(q.inFlight[n-1].sent) >= s.interval() || n < fewRuns && q.load >= q.inFlight[0].load
}

// elect returns the job with the latest deadline among those that have waited longest and fit into a run.
func (q *queue) elect() (lead *job) {
	load := 0
	for _, j := range q.waiting {
		if load += j.load; lead != nil && load > maxLoad {
			break
		}
		if lead == nil || !isLater(lead.deadline, j.deadline) {
			lead = j
		}
	}
	return lead
}

// isLater reports whether a deadline is later than another one. The zero time is the latest.
func isLater(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }

// arm starts a timer that dispatches the jobs that wait once the interval is over.
func (q *queue) arm(s *queues, now time.Time) {
	q.armed = true
	left := s.interval() - now.Sub(q.inFlight[len(q.inFlight)-1].sent)
	time.AfterFunc(left, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		q.armed = false
		s.dispatch(q, nil, time.Now())
	})
}

// begin begins the run that the caller of j leads. If the last runs had company, jobs whose goroutines are ready join it first.
func (s *queues) begin(j *job) *run {
	if s.company.Load() > 0 {
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	q := j.queue
	if now.Sub(q.led) > tooLate {
		s.starved = now
	}
	r := q.take(now)
	q.lead, q.inFlight = nil, append(q.inFlight, r)
	if len(r.jobs) > 1 || q.load > 0 || len(q.inFlight) > 1 {
		s.company.Store(lonely)
	} else if n := s.company.Load(); n > 0 {
		s.company.Store(n - 1)
	}
	s.dispatch(q, nil, now)
	return r
}

// take takes the job that leads and those that have waited longest out of q, for a run that begins now. Once one does not fit, those
// behind it wait too, or smaller ones would pass it again and again.
func (q *queue) take(now time.Time) *run {
	r := &run{sent: now}
	r.jobs = r.one[:0]
	ends, room := q.lead.deadline, maxLoad-q.lead.load
	q.waiting = slices.DeleteFunc(q.waiting, func(j *job) bool {
		switch {
		case j == q.lead:
		case !ends.IsZero() && isLater(j.deadline, ends.Add(together)):
			return false
		case j.load > room:
			room = 0
			return false
		default:
			room -= j.load
		}
		j.run, r.jobs, r.load = r, append(r.jobs, j), r.load+j.load
		return true
	})
	q.load -= r.load
	return r
}

// run runs r and gives its jobs their outcome. ctx ends at the latest deadline of the jobs. If their keys are in a slot that is migrating,
// each job gets a run of its own.
func (s *queues) run(ctx context.Context, r *run) {
	defer s.finish(r) // even if a hook of the client ends the goroutine
	if err := s.server.run(ctx, r.jobs); len(r.jobs) > 1 && isMigrating(err) {
		each(len(r.jobs), func(i int) error { return s.server.run(ctx, r.jobs[i:i+1]) })
	}
}

// finish ends r, begins the run that has waited for it, and wakes the callers of its jobs.
func (s *queues) finish(r *run) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.jobs[0].queue
	q.inFlight = slices.DeleteFunc(q.inFlight, func(other *run) bool { return other == r })
	if r.jobs[0].failure == nil {
		q.answered, s.answered, s.took = now, now, now.Sub(r.sent)
	}
	s.dispatch(q, nil, now)
	for _, j := range r.jobs {
		if j.wake != nil { // otherwise its caller leads r, and has never waited
			j.wake <- false
		}
	}
}

// withdraw takes j out of its queue, unless it is in a run, for a caller that does not wait any longer. If the caller was to lead the
// next run, another one leads it. withdraw reports whether j is already done.
func (s *queues) withdraw(j *job) (done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case leads := <-j.wake:
		if !leads {
			return true
		}
	default:
	}
	if j.run != nil {
		return false
	}
	q, at := j.queue, slices.Index(j.queue.waiting, j)
	j.unsent, q.waiting = true, slices.Delete(q.waiting, at, at+1)
	if q.load -= j.load; q.lead == j {
		q.lead = nil
	}
	s.dispatch(q, nil, time.Now())
	return false
}

// failed returns err, which ended j, as an error that the breaker counts once for all jobs of a run. If j is late, it is
// an overload of this process, and no failure of the server, if the server has not received j, even because its deadline
// had passed when its caller got a CPU, or if meanwhile the server has answered another run of its queue or this process lacked CPU.
// Otherwise runs that were in flight at the same time count as one failure.
func (s *queues) failed(j *job, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		if !j.deadline.IsZero() && now.Sub(j.deadline) > tooLate {
			s.starved = now
		}
		q := j.queue
		if j.unsent || q.answered.After(j.begun) || s.starved.After(j.begun) && s.answered.After(j.begun.Add(-alive)) {
			return errLate
		}
		if q.stall == nil || j.run.sent.After(q.stalled) {
			q.stall, q.stalled = &j.run.trip, now
		}
		return q.stall.Fail(s.server.withCause(err))
	}
	if j.unsent {
		return err
	}
	return j.run.trip.Fail(err)
}
