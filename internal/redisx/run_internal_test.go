package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"pgregory.net/rapid"
)

func TestBatchDecidesLikeOneRequestAfterTheOther(t *testing.T) {
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
		if err := anyKeys.run(ctx, &takeScript, jobs); err != nil { // sorts jobs by plan
			t.Fatal(err)
		}
		slices.SortStableFunc(alone, func(a, b *job) int { return strings.Compare(a.plan, b.plan) })
		for i, p := range alone {
			if err := apart.run(ctx, &takeScript, []*job{p}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.read(), jobs[i].read()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.usages, jobs[i].usages) {
				t.Fatalf("request %d, %x of %v: %+v in a batch, %+v alone", i, p.plan, p.keys, jobs[i].usages, p.usages)
			}
		}
	})
}

// anyClaims returns the claims of a request. Few keys and limits make many requests meet.
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

// maxEntries is that of lua/block.lua.
const maxEntries = 64

func TestFailingRequestDoesNotFailTheBatch(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := New(client, Options{Prefix: "p"})
	of := func(limits string) *job {
		return s.jobOf(t, core.Claim{Key: limits, Limits: core.MustParseLimits(limits)})
	}
	for range maxEntries + 1 {
		if err := s.run(ctx, &takeScript, []*job{of("100/m;sliding-log")}); err != nil {
			t.Fatal(err)
		}
	}
	// Only the log needs HGET: its first entries are a field of their own.
	if err := client.Do(ctx, "acl", "setuser", "default", "-hget").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Do(ctx, "acl", "setuser", "default", "+@all") })
	bad := of("100/m;sliding-log")
	jobs := []*job{of("5/m"), of("5/m, 9/h;fixed-window"), bad, of("5/60000001us"), of("5/60000001us;fixed-window")}
	if err := s.run(ctx, &takeScript, jobs); err != nil { // sorts jobs by plan
		t.Fatal(err)
	}
	if n := slices.Index(jobs, bad); n == 0 || n == len(jobs)-1 {
		t.Errorf("the bad one is job %d of %d, with none before or after it", n, len(jobs))
	}
	for _, p := range jobs {
		switch err := p.read(); {
		case p == bad && err == nil:
			t.Errorf("a request that the server refuses gets %+v", p.usages)
		case p != bad && (err != nil || p.usages[0].Remaining != 4):
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
	if err := s.run(ctx, &takeScript, []*job{bad}); err == nil || !strings.Contains(err.Error(), "can't run this command") {
		t.Errorf("alone, it gets %v, want what the server says", err)
	}
}

func TestBatchOverSeveralSlotsIsRetriedJobByJob(t *testing.T) {
	client := redistest.StartCluster(t).Client(t)
	s := New(struct{ *redis.ClusterClient }{client}, Options{Prefix: "p"})
	b := &batch{queue: &queue{id: queueID{script: &takeScript}}, ctx: context.Background(), done: make(chan struct{})}
	for i := range 8 {
		b.jobs = append(b.jobs, s.jobOf(t, core.Claim{Key: fmt.Sprint(i), Limits: core.MustParseLimits("5/m")}))
	}
	s.batcher.running <- struct{}{}
	s.runBatch(b)
	for _, p := range b.jobs {
		if err := errors.Join(p.err, p.read()); err != nil || p.usages[0].Remaining != 4 {
			t.Errorf("%v: %+v, %v, want 4 remaining", p.keys, p.usages, err)
		}
	}
	if how := routing(s.routing.Load()); how != bySlot {
		t.Errorf("after CROSSSLOT the routing is %d, want by slot", how)
	}
}

// In one run, a request that is not plain, a plain one and another that is not find each what the one before has charged.
func TestRequestsOfABatchSeeWhatOthersHaveWritten(t *testing.T) {
	s := frozenStore(t)
	one := core.Claim{Key: "k", Limits: core.MustParseLimits("9/m")}
	two, dry := one, one
	two.Cost, dry.DryRun = 2, true
	jobs := []*job{s.jobOf(t, one, one), s.jobOf(t, two), s.jobOf(t, dry)} // in the order of their plans
	if err := s.run(context.Background(), &takeScript, jobs); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{7, 5, 4} {
		if err := jobs[i].read(); err != nil || jobs[i].usages[0].Remaining != want {
			t.Errorf("request %d, %s: %+v, %v, want %d remaining", i, jobs[i].plan, jobs[i].usages, err, want)
		}
	}
}

// A key that is new gets an expiry, whatever the one before in the same run has.
func TestAllKeysOfABatchExpire(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	for _, limits := range []string{"9/m", "9/m, 90/h"} {
		server.FlushAll()
		of := func(key string) *job { return s.jobOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)}) }
		for _, jobs := range [][]*job{{of("old")}, {of("old")}, {of("old"), of("new")}} {
			if err := s.run(context.Background(), &takeScript, jobs); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range server.Keys() {
			if server.TTL(key) <= 0 {
				t.Errorf("%s: %s does not expire", limits, key)
			}
		}
	}
}

// Some of the keys of a batch are new, some come twice, and one has other limits besides.
func TestBatchDecidesEachKeyByItself(t *testing.T) {
	for _, limits := range []string{"100/m", "100/m, 6000/h"} {
		s := frozenStore(t)
		run := func(limits string, keys ...string) (remaining []int64) {
			var jobs []*job
			for _, key := range keys {
				jobs = append(jobs, s.jobOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)}))
			}
			err := s.run(context.Background(), &takeScript, jobs)
			for _, p := range jobs {
				if err = errors.Join(err, p.read()); err == nil {
					remaining = append(remaining, p.usages[0].Remaining)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			return remaining
		}
		run("7/d", "other")
		for _, row := range []struct {
			keys []string
			want []int64
		}{
			{[]string{"a", "b", "b"}, []int64{99, 99, 98}},
			{[]string{"a", "other", "b", "a", "a", "new"}, []int64{98, 99, 97, 97, 96, 99}},
			{[]string{"new", "b", "other", "a"}, []int64{98, 96, 98, 95}},
		} {
			if got := run(limits, row.keys...); !slices.Equal(got, row.want) {
				t.Errorf("%s: %v remain of %v, want %v", limits, got, row.keys, row.want)
			}
		}
	}
}

// The caller of the first job may hang up, or have less time than the others.
func TestBatchDoesNotEndWithItsFirstJob(t *testing.T) {
	s := frozenStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := s.jobOf(t, core.Claim{Key: "k", Limits: core.MustParseLimits("5/m")})
	s.batcher.running <- struct{}{}
	s.runBatch(&batch{queue: &queue{id: queueID{script: &takeScript}}, ctx: ctx, jobs: []*job{p}, done: make(chan struct{})})
	if err := errors.Join(p.err, p.read()); err != nil {
		t.Error(err)
	}
}

// A client that heeds deadlines ends a call when no caller waits for it.
func TestACallEndsAtTheLastDeadline(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true, ReadTimeout: time.Minute})
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
	redistest.Wait(t, "the call to end", func() bool { return len(s.batcher.running) == 0 })
}

func TestDeniedRequestDeniesNoOtherOfItsBatch(t *testing.T) {
	for _, limits := range []string{"1/m", "1/m, 7/h"} {
		s := frozenStore(t)
		of := func(key string) *job {
			return s.jobOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)})
		}
		jobs := []*job{of("a"), of("a"), of("b"), of("a"), of("c")}
		if err := s.run(t.Context(), &takeScript, jobs); err != nil {
			t.Fatal(err)
		}
		var admitted []bool
		for _, p := range jobs {
			if err := p.read(); err != nil {
				t.Fatal(err)
			}
			if n := p.usages[0].Remaining; n != 0 {
				t.Errorf("%s: %d remain for %v, want none", limits, n, p.keys)
			}
			admitted = append(admitted, p.admitted())
		}
		if want := []bool{true, false, true, false, true}; !slices.Equal(admitted, want) {
			t.Errorf("%s: admitted %v, want %v", limits, admitted, want)
		}
	}
}
