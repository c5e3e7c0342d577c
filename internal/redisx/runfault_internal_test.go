package redisx

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
)

func TestFailingRequestDoesNotFailTheBatch(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := New(client, Options{Prefix: "p"})
	of := func(limits string) *job {
		return s.jobOf(t, core.Claim{Key: limits, Limits: core.MustParseLimits(limits)})
	}
	for _, limits := range []string{"100/m;sliding-log", "5/m", "5/m, 9/h;fixed-window", "5/60000001us", "5/60000001us;fixed-window"} {
		for range 10 {
			if err := s.decider.server.run(ctx, []*job{of(limits)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Only the log needs HDEL now: it had more entries than its record has room for, and all have ended.
	s.Shift(2 * time.Hour)
	if err := client.Do(ctx, "acl", "setuser", "default", "-hdel").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Do(ctx, "acl", "setuser", "default", "+@all") })
	bad := of("100/m;sliding-log")
	jobs := []*job{of("5/m"), of("5/m, 9/h;fixed-window"), bad, of("5/60000001us"), of("5/60000001us;fixed-window")}
	if err := s.decider.server.run(ctx, jobs); err != nil {
		t.Fatal(err)
	}
	if n := slices.Index(jobs, bad); n == 0 || n == len(jobs)-1 {
		t.Errorf("the bad job is job %d of %d, want jobs before and after it", n, len(jobs))
	}
	for _, p := range jobs {
		switch err := p.read(); {
		case p == bad && err == nil:
			t.Errorf("a request that the server refuses gets %+v", p.usages)
		case p != bad && (err != nil || p.usages[0].Remaining != 4):
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
	if err := s.decider.server.run(ctx, []*job{bad}); err == nil || !regexp.MustCompile("can't run this command|no permissions to run").MatchString(err.Error()) {
		t.Errorf("sent alone, it gets %v, want the server's error", err)
	}
}

func TestBatchOverSeveralSlotsIsRetriedJobByJob(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t).Client(t)
	s := New(struct{ *redis.ClusterClient }{client}, Options{Prefix: "p"})
	b := &batch{queue: new(queue), ctx: context.Background(), done: make(chan struct{})}
	for i := range 8 {
		b.jobs = append(b.jobs, s.jobOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m")}))
	}
	s.decider.batcher.running <- struct{}{}
	s.decider.batcher.run(b)
	for _, p := range b.jobs {
		if err := errors.Join(p.err, p.read()); err != nil || p.usages[0].Remaining != 4 {
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
	if how := routing(s.decider.batcher.routing.Load()); how != bySlot {
		t.Errorf("after CROSSSLOT the routing is %d, want by slot", how)
	}
}

// The context of the first job may be cancelled, or have an earlier deadline than the others.
func TestBatchOutlivesTheContextOfItsFirstJob(t *testing.T) {
	s := frozenStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := s.jobOf(t, core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")})
	s.decider.batcher.running <- struct{}{}
	s.decider.batcher.run(&batch{queue: new(queue), ctx: ctx, jobs: []*job{p}, done: make(chan struct{})})
	if err := errors.Join(p.err, p.read()); err != nil {
		t.Error(err)
	}
}

// A client that uses the deadline of a context ends a call once no caller waits for it.
func TestBatchEndsAtItsLastDeadline(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, ReadTimeout: time.Hour})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}
	if _, err := s.Take(context.Background(), claims, nil); err != nil {
		t.Fatal(err)
	}
	proxy.Fault.Store(redistest.SwallowReplies)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Take(ctx, claims, nil); err == nil {
		t.Error("a swallowed reply arrived")
	}
	redistest.Wait(t, "the call to end", func() bool { return len(s.decider.batcher.running) == 0 })
}
