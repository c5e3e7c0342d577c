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
