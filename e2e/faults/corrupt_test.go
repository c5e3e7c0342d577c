package faults

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// A key that another program has overwritten counts as just used up: it denies now and has recovered after one period.
func TestKeysThatOthersWroteTo(t *testing.T) {
	const period = time.Second
	const future = "\xff\xff\xff\xff\xff\xff\xff\x7f" // until when the key is kept
	spoil := map[string][]any{
		"garbage":          {"set", "garbage"},
		"infinity":         {"set", "1e300"},
		"another type":     {"lpush", "x"},
		"a distant future": {"hset", "s", future},
	}
	s := newScene(t)
	t.Cleanup(func() {
		n, want := s.log.count("made no sense"), int(core.InFlight)*len(spoil)
		expect.True(t, n == want, "%d lines about %d spoiled keys", n, want)
	})
	for a := core.TokenBucket; a < core.InFlight; a++ {
		for name, args := range spoil {
			key := a.String() + "/" + strings.ReplaceAll(name, " ", "-")
			at := "spillgate:7:{" + key + "}:closed"
			command := append([]any{args[0], at}, args[1:]...)
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				recovers(t, s, core.Every(5, period).Using(a), key, func() {
					s.do("del", at)
					s.do(command...)
				})
			})
		}
	}
}

// recovers checks that a spoiled key is denied now and has recovered after a period.
func recovers(t *testing.T, s *scene, limit core.Limit, key string, spoil func()) {
	store := redisstore.New(s.client)
	g := newGuard(t, store, "closed", limit, longDeadline)
	g.take(key)
	spoil()
	begun := time.Now()
	d := g.take(key)
	if d.Degraded != nil || d.Allowed && time.Since(begun) < limit.Period/10 { // later some may be admitted again
		t.Errorf("got %v from a state that makes no sense, want a denial by Redis", d)
	}
	expect.Equal(t, store.Repaired(), 1, "states repaired")
	charged := time.Now()
	var denied time.Duration // after which the last peek began that was denied
	redistest.Wait(t, "the key to be as good as new", func() bool {
		asked := time.Since(charged)
		d, err := g.Take(context.Background(), core.Claim{Rule: "closed", Key: key, Peek: true, Cost: 5})
		if err == nil && !d.Allowed {
			denied = asked
		}
		return err == nil && d.Allowed
	})
	expect.True(t, denied <= limit.Period+limit.Width(), "the key was denied after %v, want as good as new after %v", denied, limit.Period)
	h := g.StoreHealth()
	expect.True(t, !h.Down, "%+v from a healthy store", h)
}

// A process in the year 2000 shares a limit with one in the present.
func TestClockOfAProcessIsWrong(t *testing.T) {
	for _, limit := range []core.Limit{
		slowly(10), slowly(10).Using(core.FixedWindow), slowly(10).Using(core.SlidingWindow), slowly(10).Using(core.SlidingLog),
	} {
		t.Run(limit.Algorithm.String(), func(t *testing.T) {
			server := redistest.Start(t)
			here := newGuard(t, redisstore.New(server.Client(t)), "closed", limit, longDeadline)
			for range 3 {
				here.take("k")
			}
			now := time.Now()
			synctest.Test(t, func(t *testing.T) {
				age := time.Until(now)
				must.True(t, age >= 20*365*24*time.Hour, "the clock is wrong by %v only", age)
				there := newGuard(t, redisstore.New(server.Client(t)), "closed", limit)
				for i := range 8 {
					d := there.take("k")
					expect.True(t, d.Allowed == (i < 7) && d.Degraded == nil && d.At.Sub(now).Abs() <= time.Minute,
						"request %d in the year 2000: got %v, want 7 admitted, at the server's time", i, d)
				}
			})
			d := here.take("k")
			expect.True(t, !d.Allowed && d.Degraded == nil, "got %v in the present, want a denial", d)
		})
	}
}
