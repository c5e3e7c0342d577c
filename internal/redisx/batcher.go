package redisx

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/internal/breaker"
)

// Jobs that arrive while others are in flight wait in a queue and are sent together, because one run of the script for
// many jobs takes the server and this process much less time than one run per job. A job that finds its queue idle is
// sent as soon as all goroutines that are ready have run: those of a busy process bring more jobs for the same batch.
//
// If more than one batch waits, takes that would be late fail at once with breaker.ErrTooMany: that is an overload, not
// a failure of the server. If less than a batch waits, the server itself is slow. Settlements never fail that way,
// because without them the held costs would be charged in full.
const (
	maxInFlight = 2                    // batches of a queue: one at the server, one on its way
	maxLoad     = 256                  // of a batch: the server needs about a millisecond for it
	slow        = 2 * time.Millisecond // a batch in flight for longer does not hold up the next
)

// A batcher has a queue for each route with jobs.
type batcher struct {
	server  *server
	routing atomic.Uint32
	running running
	mu      sync.Mutex
	queues  map[string]*queue
}

// A queue holds the batches of jobs that may share a run of the script.
type queue struct {
	route    string
	waiting  []*batch
	inFlight []*batch                // except batches that no caller waits for
	room     [1 + maxInFlight]*batch // backs both of a short queue
	took     time.Duration           // by the server for a batch, recently; 0 if unknown
}

// A batch is one run of the script.
type batch struct {
	ctx      context.Context // context of the first job
	queue    *queue
	jobs     []*job
	one      [1]*job   // backs jobs of a small batch
	load     int       // of all jobs
	deadline time.Time // the latest of all jobs; zero if one has none
	open     bool      // in flight, but more jobs may still be added
	sent     time.Time
	done     chan struct{}
	inTime   bool          // the server did it before the deadline; set when done is closed
	shed     chan struct{} // closed when its takes are turned away; nil if it does not wait
	trip     breaker.Trip  // if it fails, each caller's breaker counts one failure
}

func newBatcher(server *server) *batcher {
	s := &batcher{server: server, running: make(running, maxRunning), queues: make(map[string]*queue)}
	switch server.client.(type) {
	case *redis.ClusterClient:
		s.setRouting(bySlot)
	case *redis.Ring:
		s.setRouting(byIdentity)
	}
	return s
}

func (s *batcher) setRouting(how routing) { s.routing.Store(uint32(how)) }

// how returns the routing of the server, which may turn out to be a Redis Cluster.
func (s *batcher) how() routing { return routing(s.routing.Load()) }

// do runs j and returns its error, or ctx's error if ctx ends first. If stay is set and j has been sent, do still waits
// for j, to know what was charged.
func (s *batcher) do(ctx context.Context, j *job, stay bool) error {
	if j.unsent = false; ctx.Err() != nil {
		j.unsent = true
		return ctx.Err()
	}
	b := s.enqueue(ctx, j)
	if b == nil {
		j.unsent = true
		return breaker.ErrTooMany
	}
	select {
	case <-b.done:
	case <-j.shed:
		j.unsent = true
		return breaker.ErrTooMany
	case <-ctx.Done():
		j.unsent = s.withdraw(b, j)
		if isClosed(j.shed) {
			j.unsent = true
			return breaker.ErrTooMany
		}
		if j.unsent || !stay && !b.isAnswered() { // otherwise only this goroutine is late, because it has waited for a CPU
			return s.late(&b.trip, ctx.Err())
		}
		<-b.done
	}
	if j.err != nil {
		return b.trip.Fail(j.err)
	}
	j.err = j.read()
	return j.err
}

// late returns err, which ended a call of a trip, as an error that the breaker counts once for all callers of the trip.
func (s *batcher) late(trip *breaker.Trip, err error) error {
	s.server.noteError(err)
	if trip == nil {
		return err
	}
	return trip.Fail(err)
}

// tripOf returns the trip of the last job of r, or nil if none was put into a batch.
func (s *batcher) tripOf(r *request) *breaker.Trip {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.trip
}

// isAnswered reports whether the server did b in time.
func (b *batch) isAnswered() bool { return isClosed(b.done) && b.inTime }

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// enqueue puts j into a batch, which is sent as soon as its queue allows. It returns nil if that would be too late for j.
func (s *batcher) enqueue(ctx context.Context, j *job) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[j.route]
	if q == nil {
		q = &queue{route: j.route}
		q.waiting, q.inFlight = q.room[:0:1], q.room[1:1]
		s.queues[j.route] = q
	}
	b := q.next(j)
	deadline, _ := ctx.Deadline()
	if last := len(q.waiting) - 1; last > 0 && !j.isOwed() && q.isLate(last, deadline, time.Now()) {
		return nil
	}
	b.add(ctx, j)
	j.request.trip = &b.trip
	s.dispatch(q)
	return b
}

// next returns a batch of q with room for j.
func (q *queue) next(j *job) *batch {
	hasRoom := func(b *batch) bool { return b.load+j.load <= maxLoad }
	if n := len(q.waiting); n > 0 && hasRoom(q.waiting[n-1]) {
		return q.waiting[n-1]
	}
	if n := len(q.inFlight); n > 0 && q.inFlight[n-1].open && hasRoom(q.inFlight[n-1]) {
		return q.inFlight[n-1]
	}
	q.dropOverdue()
	b := &batch{queue: q, done: make(chan struct{})}
	b.jobs = b.one[:0]
	if len(q.inFlight) > 0 { // about as many will come
		b.jobs = make([]*job, 0, len(q.inFlight[0].jobs))
	}
	if len(q.inFlight)+len(q.waiting) > 0 {
		b.shed = make(chan struct{})
	}
	q.waiting = append(q.waiting, b)
	return b
}

func (b *batch) add(ctx context.Context, j *job) {
	deadline, _ := ctx.Deadline()
	switch {
	case len(b.jobs) == 0:
		b.ctx, b.deadline = ctx, deadline
	case deadline.IsZero():
		b.deadline = deadline
	case !b.deadline.IsZero() && deadline.After(b.deadline):
		b.deadline = deadline
	}
	b.jobs = append(b.jobs, j)
	b.load += j.load
	if !j.isOwed() {
		j.shed = b.shed
	}
}

// isLate reports whether waiting batch i will be done after a deadline, if each batch takes the server as long as
// recent ones.
func (q *queue) isLate(i int, deadline, now time.Time) bool {
	if q.took == 0 || deadline.IsZero() {
		return false
	}
	before, start := len(q.inFlight)+i, now
	if k := before % maxInFlight; k < len(q.inFlight) { // it follows that one
		before -= maxInFlight
		if ends := q.inFlight[k].sent.Add(q.took); ends.After(now) {
			start = ends
		}
	}
	return start.Add(q.took * time.Duration(1+before/maxInFlight)).After(deadline)
}

// answered records that the server did b in time. If the queue is long, it also fails the waiting takes that have
// become late. This happens only after an answer: if the server hangs, waiting jobs fail at their deadlines.
func (q *queue) answered(b *batch, now time.Time) {
	took := now.Sub(b.sent)
	q.took = max(took, (3*q.took+took)/4)
	if len(q.waiting) < 2 {
		return
	}
	waiting := q.waiting[:0]
	for _, b := range q.waiting {
		if q.isLate(len(waiting), b.deadline, now) {
			b.remove(func(j *job) bool { return !j.isOwed() })
			close(b.shed)
			b.shed = make(chan struct{}) // of those that come from now on
		}
		if len(b.jobs) > 0 {
			waiting = append(waiting, b)
		}
	}
	clear(q.waiting[len(waiting):])
	q.waiting = waiting
}

// remove removes the jobs of a waiting batch for which is reports true.
func (b *batch) remove(is func(*job) bool) {
	b.jobs = slices.DeleteFunc(b.jobs, is)
	b.load = 0
	for _, j := range b.jobs {
		b.load += j.load
	}
}

// withdraw takes j out of a batch that has not been sent, and reports whether it did.
func (s *batcher) withdraw(b *batch, j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isWaiting := slices.Contains(b.queue.waiting, b)
	if isWaiting {
		b.remove(func(other *job) bool { return other == j })
	}
	b.queue.dropOverdue()
	s.dispatch(b.queue)
	return isWaiting
}

// dispatch sends the batches of q that may be sent. An idle queue is removed: there are as many as slots or identities.
func (s *batcher) dispatch(q *queue) {
	for len(q.waiting) > 0 {
		b := q.waiting[0]
		if len(b.jobs) > 0 && !q.allows(b) {
			return
		}
		q.waiting = slices.Delete(q.waiting, 0, 1)
		if len(b.jobs) > 0 { // otherwise all callers have given up
			s.send(b)
		}
	}
	if len(q.inFlight) == 0 && s.queues[q.route] == q {
		delete(s.queues, q.route)
	}
}

func (s *batcher) send(b *batch) {
	select {
	case s.running <- struct{}{}:
		b.sent, b.open = time.Now(), true
		b.queue.inFlight = append(b.queue.inFlight, b)
		go s.run(b)
	default:
		b.fail(breaker.ErrTooMany)
		close(b.done)
	}
}

// run sends the jobs of b to the server. If the client continues after the deadline of b, so does run.
func (s *batcher) run(b *batch) {
	defer s.finish(b)
	runtime.Gosched()
	s.mu.Lock()
	b.open = false
	s.mu.Unlock()
	growStack(b.load)
	ctx := context.WithoutCancel(b.ctx)
	if !b.deadline.IsZero() {
		limited, cancel := context.WithDeadline(ctx, b.deadline)
		defer cancel()
		ctx = limited
	}
	if s.server.runAll(ctx, b.jobs) { // a client that wraps one of a Redis Cluster
		s.routing.CompareAndSwap(uint32(anyKeys), uint32(bySlot))
	}
}

// growStack grows the stack of a new goroutine in one step to the size that a client needs. Otherwise it grows in
// several steps, each of which copies the frames so far.
//
//go:noinline
func growStack(n int) byte {
	var room [4 << 10]byte
	return room[n%len(room)]
}

// allows reports whether b may be sent. If another batch is in flight, b waits until it is as large as that one.
func (q *queue) allows(b *batch) bool {
	switch len(q.inFlight) {
	case 0:
		return true
	case maxInFlight:
		return false
	}
	first := q.inFlight[0]
	return b.load >= first.load || time.Since(first.sent) > slow
}

// dropOverdue forgets the batches in flight that no caller waits for any more because their server hangs, so that they
// do not delay other batches. It is called when a caller gives up and when a batch begins.
func (q *queue) dropOverdue() {
	now := time.Now()
	q.inFlight = slices.DeleteFunc(q.inFlight, func(b *batch) bool { return !b.deadline.IsZero() && !now.Before(b.deadline) })
}

func (b *batch) fail(err error) {
	for _, j := range b.jobs {
		j.err, j.unsent = err, true
	}
}

// finish wakes the callers of a batch and sends the batches that have waited for it.
func (s *batcher) finish(b *batch) {
	now := time.Now()
	b.inTime = b.jobs[0].err == nil && (b.deadline.IsZero() || now.Before(b.deadline))
	close(b.done)
	<-s.running
	s.mu.Lock()
	defer s.mu.Unlock()
	b.queue.inFlight = slices.DeleteFunc(b.queue.inFlight, func(other *batch) bool { return other == b })
	if b.inTime {
		b.queue.answered(b, now)
	}
	s.dispatch(b.queue)
}

// maxRunning bounds the calls of a store in flight, including those whose callers have given up.
const maxRunning = 4096

// running has an element for each call in flight.
type running chan struct{}

// within runs f and returns its error. If ctx ends first, it returns ctx's error, through late. A client with the default
// options does not watch ctx, so f may go on for as long as the timeouts of the client say; at most maxRunning calls do.
func (r running) within(ctx context.Context, late func(error) error, f func(context.Context) error) error {
	select {
	case r <- struct{}{}:
	case <-ctx.Done():
		return breaker.ErrTooMany
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-r }()
		var err error
		defer func() {
			if v := recover(); v != nil {
				err = panicked(v)
			}
			done <- err
		}()
		err = f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return late(ctx.Err())
	}
}
