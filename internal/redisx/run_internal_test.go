package redisx

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/deadline"
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
			if !slices.Equal(p.usages, jobs[i].usages) {
				t.Fatalf("request %d, %x of %v: %+v in a batch, %+v alone", i, p.plan, p.keys, jobs[i].usages, p.usages)
			}
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

// A new key gets an expiry even if the key before it in the batch needs none.
func TestAllKeysOfABatchExpire(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	for _, limits := range []string{"9/m", "9/m, 90/h"} {
		server.FlushAll()
		of := func(key string) *job { return s.jobOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)}) }
		for _, jobs := range [][]*job{{of("old")}, {of("old")}, {of("old"), of("new")}} {
			must.Do(t, s.decider.server.run(context.Background(), jobs))
		}
		for _, key := range server.Keys() {
			if server.TTL(key) <= 0 {
				t.Errorf("%s: %s does not expire", limits, key)
			}
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
	// Only the log needs ZREMRANGEBYSCORE.
	s.Shift(2 * time.Hour)
	must.Do(t, client.Do(ctx, "acl", "setuser", "default", "-zremrangebyscore").Err())
	t.Cleanup(func() { client.Do(ctx, "acl", "setuser", "default", "+@all") })
	bad := of("100/m;sliding-log")
	jobs := []*job{of("5/m"), of("5/m, 9/h;fixed-window"), bad, of("5/60000001us"), of("5/60000001us;fixed-window")}
	must.Do(t, s.decider.server.run(ctx, jobs))
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

func TestRunOverSeveralSlotsIsRetriedJobByJob(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t).Client(t)
	s := New(struct{ *redis.ClusterClient }{client}, Options{Prefix: "p"})
	var jobs []*job
	for i := range 8 {
		jobs = append(jobs, s.jobOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m")}))
	}
	queues := s.decider.queues
	r := &run{queue: new(queue), jobs: jobs, lead: jobs[0]}
	queues.lead(context.Background(), r)
	for _, p := range jobs {
		if err := errors.Join(p.failure, p.read()); err != nil || p.usages[0].Remaining != 4 {
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
	if how := routing(queues.routing.Load()); how != bySlot {
		t.Errorf("after CROSSSLOT the routing is %d, want by slot", how)
	}
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
		cancel()
		callers.Wait()
		if synctest.Wait(); !s.isIdle() {
			t.Errorf("calls are left after %d takes", c.takes.Load())
		}
	})
}

// A client that uses the deadline of a context ends a call once no caller waits for it, and leaves no goroutine.
func TestRunEndsAtItsLastDeadline(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, ReadTimeout: time.Hour})
	t.Cleanup(func() { client.Close() })
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
