package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/redistest"
)

func TestBatchIsSentWhenItsQueueAllows(t *testing.T) { synctest.Test(t, testQueueAllows) }

func testQueueAllows(t *testing.T) {
	now := time.Now()
	inFlight := func(load int, age, left time.Duration) *batch {
		b := &batch{load: load, sent: now.Add(-age)}
		if left != 0 {
			b.deadline = now.Add(left)
		}
		return b
	}
	for _, row := range []struct {
		why      string
		inFlight []*batch
		load     int
		want     bool
	}{
		{"none is in flight", nil, 1, true},
		{"as large as the one in flight", []*batch{inFlight(8, 0, 0)}, 8, true},
		{"smaller", []*batch{inFlight(8, 0, 0)}, 7, false},
		{"smaller, but that one is late", []*batch{inFlight(8, slow+1, 0)}, 7, true},
		{"two are in flight", []*batch{inFlight(1, time.Hour, 0), inFlight(1, time.Hour, 0)}, 100, false},
		{"one of two is overdue", []*batch{inFlight(9, 0, -1), inFlight(8, 0, time.Second)}, 8, true},
		{"one of two is overdue, and smaller", []*batch{inFlight(7, 0, -1), inFlight(8, 0, time.Second)}, 7, false},
		{"one of two is due soon", []*batch{inFlight(1, time.Hour, time.Nanosecond), inFlight(1, time.Hour, 0)}, 1, false},
	} {
		q := queue{inFlight: row.inFlight}
		q.dropOverdue()
		if got := q.allows(&batch{load: row.load}); got != row.want {
			t.Errorf("%s: %v, want %v", row.why, got, row.want)
		}
	}
}

// busy returns a store and a queue with batches in flight that never finish.
func busy(t *testing.T) (*Store, *queue) {
	s := frozenStore(t)
	q := new(queue)
	for range maxInFlight {
		q.inFlight = append(q.inFlight, &batch{queue: q})
	}
	s.decider.batcher.queues[q.route] = q
	return s, q
}

func TestBatchesAreBounded(t *testing.T) {
	for _, row := range []struct {
		limits   string
		requests int
		want     []int // requests of each batch
	}{
		{"5/m", 300, []int{256, 44}},
		{"5/m, 9/h", 200, []int{128, 72}},
		{"5/m, 9/h;fixed-window", 200, []int{128, 72}},
		{"5/m;sliding-log", 70, []int{64, 6}},
		{"5/m;sliding-window", 70, []int{51, 19}},
		{"64/m;sliding-log", 30, []int{21, 9}},
		{"1000000/h;sliding-window;buckets=3600", 30, []int{17, 13}},
		{"10000/h;sliding-log", 20, []int{12, 8}},
		{"10000/h;sliding-log, 5/m", 20, []int{11, 9}},
	} {
		s, q := busy(t)
		for i := range row.requests {
			s.decider.batcher.enqueue(t.Context(), s.jobOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits(row.limits)}))
		}
		var got []int
		for _, b := range q.waiting {
			got = append(got, len(b.jobs))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: batches of %d requests, want %d", row.limits, got, row.want)
		}
	}
}

func TestJobWithdrawnBeforeItIsSentIsNotDecided(t *testing.T) {
	s, q := busy(t)
	ctx, cancel := context.WithCancel(context.Background())
	claim := core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")}
	other := s.jobOf(t, core.Claim{Key: "other", Limits: core.MustParseLimits("5/m, 50/h")})
	b := s.decider.batcher.enqueue(t.Context(), other)
	failed := make(chan error, 1)
	go func() {
		_, err := s.Take(ctx, []core.Claim{claim}, nil)
		failed <- err
	}()
	redistest.Wait(t, "the job to be enqueued", func() bool {
		s.decider.batcher.mu.Lock()
		defer s.decider.batcher.mu.Unlock()
		return len(b.jobs) > 1
	})
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the context was canceled", err)
	}
	if b.load != 2 {
		t.Errorf("a batch has a load of %d with the two limits that are left", b.load)
	}
	if !s.decider.batcher.withdraw(b, other) || len(q.waiting) > 0 {
		t.Errorf("%d batches wait though no job does", len(q.waiting))
	}
	q.inFlight = nil
	claim.Peek = true
	results, err := s.Take(context.Background(), []core.Claim{claim}, nil)
	if err != nil || results[0].Remaining != 5 {
		t.Errorf("%+v, %v, want all 5 to remain", results, err)
	}
	redistest.Wait(t, "the batch without jobs, the queue and the call to be removed", func() bool { // the caller is woken first
		s.decider.batcher.mu.Lock()
		defer s.decider.batcher.mu.Unlock()
		return len(q.waiting)+len(s.decider.batcher.queues)+len(s.decider.batcher.running) == 0
	})
}

// If a caller gives up on a batch that hangs, the waiting batches are sent, even if no other caller arrives.
func TestGivingUpOnASentBatchDispatchesTheNext(t *testing.T) {
	s, q := busy(t)
	j := s.jobOf(t, core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")})
	b := s.decider.batcher.enqueue(t.Context(), j)
	for _, hangs := range q.inFlight {
		hangs.deadline = time.Now().Add(-time.Millisecond)
	}
	if s.decider.batcher.withdraw(q.inFlight[0], new(job)) {
		t.Error("a job was withdrawn from a batch in flight")
	}
	<-b.done
	if err := j.read(); err != nil || j.usages[0].Remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", j.usages, err)
	}
}

func TestTooManyCallsFailAtOnce(t *testing.T) {
	s := frozenStore(t)
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	for range maxRunning {
		s.decider.batcher.running <- struct{}{}
	}
	if _, err := s.Take(t.Context(), claims, nil); !errors.Is(err, breaker.ErrTooMany) || errors.Is(err, core.ErrInvalid) {
		t.Errorf("%v, want %v", err, breaker.ErrTooMany)
	}
	if n := len(s.decider.batcher.queues); n > 0 {
		t.Errorf("%d queues are left", n)
	}
	for range maxRunning {
		<-s.decider.batcher.running
	}
	if results, err := s.Take(context.Background(), claims, nil); err != nil || results[0].Remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", results, err)
	}
}

func TestTakeWithAContextThatHasEndedIsNotDecided(t *testing.T) {
	s := frozenStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	for range 20 {
		if _, err := s.Take(ctx, claims, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want %v", err, context.Canceled)
		}
	}
	if results, err := s.Take(context.Background(), claims, nil); err != nil || results[0].Remaining != 4 {
		t.Errorf("%+v, %v, want 4 remaining", results, err)
	}
}

func TestBatchHasTheLatestDeadlineOfItsJobs(t *testing.T) {
	early, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	late, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	want, _ := late.Deadline()
	never := context.Background()
	for _, row := range []struct {
		why  string
		ctxs []context.Context
		want time.Time
	}{
		{"the latest of all", []context.Context{early, late, early}, want},
		{"the first may have none", []context.Context{never, late}, time.Time{}},
		{"the last may have none", []context.Context{early, never}, time.Time{}},
	} {
		var b batch
		for _, ctx := range row.ctxs {
			b.add(ctx, &job{request: new(request)})
		}
		if !b.deadline.Equal(row.want) {
			t.Errorf("%s: %v, want %v", row.why, b.deadline, row.want)
		}
	}
}
