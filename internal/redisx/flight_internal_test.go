package redisx

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

// In one run, a request that is not plain, a plain one and another that is not find each what the one before has charged.
func TestRequestsOfAFlightSeeWhatOthersHaveWritten(t *testing.T) {
	s := frozenStore(t)
	one := core.Claim{Key: "k", Limits: core.MustParseLimits("9/m")}
	two, dry := one, one
	two.Cost, dry.DryRun = 2, true
	parts := []*part{s.partOf(t, one, one), s.partOf(t, two), s.partOf(t, dry)} // in the order of their plans
	if err := s.takeParts(context.Background(), parts); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{7, 5, 4} {
		if err := parts[i].read(); err != nil || parts[i].usages[0].remaining != want {
			t.Errorf("request %d, %s: %+v, %v, want %d remaining", i, parts[i].plan, parts[i].usages, err, want)
		}
	}
}

// A key that is new gets an expiry, whatever the one before in the same run has.
func TestAllKeysOfAFlightExpire(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	for _, limits := range []string{"9/m", "9/m, 90/h"} {
		server.FlushAll()
		of := func(key string) *part { return s.partOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)}) }
		for _, parts := range [][]*part{{of("old")}, {of("old")}, {of("old"), of("new")}} {
			if err := s.takeParts(context.Background(), parts); err != nil {
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

// Some of the keys of a plain flight are new, some come twice, and one holds other limits besides, so that it is decided
// as if it were not plain.
func TestAFlightGivesEachKeyItsOwn(t *testing.T) {
	for _, limits := range []string{"100/m", "100/m, 6000/h"} {
		s := frozenStore(t)
		fly := func(limits string, keys ...string) (remaining []int64) {
			var parts []*part
			for _, key := range keys {
				parts = append(parts, s.partOf(t, core.Claim{Key: key, Limits: core.MustParseLimits(limits)}))
			}
			err := s.takeParts(context.Background(), parts)
			for _, p := range parts {
				if err = errors.Join(err, p.read()); err == nil {
					remaining = append(remaining, p.usages[0].remaining)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			return remaining
		}
		fly("7/d", "other")
		for _, row := range []struct {
			keys []string
			want []int64
		}{
			{[]string{"a", "b", "b"}, []int64{99, 99, 98}},
			{[]string{"a", "other", "b", "a", "a", "new"}, []int64{98, 99, 97, 97, 96, 99}},
			{[]string{"new", "b", "other", "a"}, []int64{98, 96, 98, 95}},
		} {
			if got := fly(limits, row.keys...); !slices.Equal(got, row.want) {
				t.Errorf("%s: %v remain of %v, want %v", limits, got, row.keys, row.want)
			}
		}
	}
}
