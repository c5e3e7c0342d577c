package redisx

import (
	"context"
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
