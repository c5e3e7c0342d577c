package redisx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
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
		if err := anyKeys.decider.server.run(ctx, jobs); err != nil {
			t.Fatal(err)
		}
		for i, p := range alone {
			if err := apart.decider.server.run(ctx, []*job{p}); err != nil {
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

// A plain request between two that are not sees the charge of the first, and the last sees both.
func TestRequestsOfABatchSeeWhatOthersHaveWritten(t *testing.T) {
	s := frozenStore(t)
	one := core.Claim{Key: "k", Limits: core.MustParseLimits("9/m")}
	two, dry := one, one
	two.Cost, dry.DryRun = 2, true
	jobs := []*job{s.jobOf(t, one, one), s.jobOf(t, two), s.jobOf(t, dry)}
	if err := s.decider.server.run(context.Background(), jobs); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{7, 5, 4} {
		if err := jobs[i].read(); err != nil || jobs[i].usages[0].Remaining != want {
			t.Errorf("request %d, %s: %+v, %v, want %d remaining", i, jobs[i].plan, jobs[i].usages, err, want)
		}
	}
}

// A new key gets an expiry, also if the key before it in the batch needs none.
func TestAllKeysOfABatchExpire(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	for _, limits := range []string{"9/m", "9/m, 90/h"} {
		server.FlushAll()
		of := func(key string) *job { return s.jobOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)}) }
		for _, jobs := range [][]*job{{of("old")}, {of("old")}, {of("old"), of("new")}} {
			if err := s.decider.server.run(context.Background(), jobs); err != nil {
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
			err := s.decider.server.run(context.Background(), jobs)
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

func TestDeniedRequestDeniesNoOtherOfItsBatch(t *testing.T) {
	for _, limits := range []string{"1/m", "1/m, 7/h"} {
		s := frozenStore(t)
		of := func(key string) *job {
			return s.jobOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)})
		}
		jobs := []*job{of("a"), of("a"), of("b"), of("a"), of("c")}
		if err := s.decider.server.run(t.Context(), jobs); err != nil {
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

// A request that is not plain because of one key may charge another one, whose new state later requests must see.
func TestRequestsOfABatchSeeKeysThatOthersChanged(t *testing.T) {
	s := frozenStore(t)
	of := func(limits string, keys ...string) *job {
		var claims []core.Claim
		for _, key := range keys {
			claims = append(claims, core.Claim{Key: key, Limits: core.MustParseLimits(limits)})
		}
		return s.jobOf(t, claims...)
	}
	last := of("100/m", "a", "new")
	for _, jobs := range [][]*job{{of("100/m", "a")}, {of("7/d", "other")}, {of("100/m", "a", "other"), last}} {
		if err := s.decider.server.run(context.Background(), jobs); err != nil {
			t.Fatal(err)
		}
	}
	if err := last.read(); err != nil || last.usages[0].Remaining != 97 || last.usages[1].Remaining != 99 {
		t.Errorf("%+v, %v, want 97 and 99 remaining", last.usages, err)
	}
}
