package redisstore_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/core/storetest"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestContract(t *testing.T) {
	var s *miniredis.Miniredis
	var now time.Time
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T) core.Store {
			s, now = miniredis.RunT(t), time.Now()
			s.SetTime(now)
			client := redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: time.Minute}) // miniredis is slow under -race
			t.Cleanup(func() { client.Close() })
			return redisstore.New(client, redisstore.WithPrefix("test:a"), redisstore.WithKeySecret(make([]byte, 16)))
		},
		Quick: true,
		Advance: func(d time.Duration) {
			now = now.Add(d)
			s.SetTime(now)
			s.FastForward(d)
		},
	})
}

func TestMistakesSurfaceInEveryCall(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	var noClient *redis.Client
	for want, s := range map[string]*redisstore.Store{
		"client is nil":                          redisstore.New(nil),
		"redisstore: client is nil":              redisstore.New(noClient),
		"option is nil":                          redisstore.New(client, nil),
		"prefix is empty":                        redisstore.New(client, redisstore.WithPrefix("")),
		`prefix "a{b" must be printable`:         redisstore.New(client, redisstore.WithPrefix("a{b")),
		`prefix "a}b" must be printable`:         redisstore.New(client, redisstore.WithPrefix("a}b")),
		`prefix "a\nb" must be printable`:        redisstore.New(client, redisstore.WithPrefix("a\nb")),
		`prefix "a b" must be printable`:         redisstore.New(client, redisstore.WithPrefix("a b")),
		`prefix "a\x7f" must be printable`:       redisstore.New(client, redisstore.WithPrefix("a\x7f")),
		"at least 16 bytes, got 15":              redisstore.New(client, redisstore.WithKeySecret(make([]byte, 15))),
		"must not be negative, got -1":           redisstore.New(client, redisstore.WithDenyCache(-1)),
		"leave the option out\nspillgate: inval": redisstore.New(client, redisstore.WithPrefix(""), redisstore.WithDenyCache(-1)),
	} {
		ctx := context.Background()
		claims := []core.Claim{{Key: "k", Limits: []core.Limit{core.PerMinute(1)}}}
		results, take := s.Take(ctx, claims, make([]core.Result, 2))
		if len(results) != 2 {
			t.Errorf("%s: %d results, want those given", want, len(results))
		}
		_, inNew := core.New([]core.Rule{core.PerMinute(1).By(nil)}, core.WithStore(s))
		for name, err := range map[string]error{
			"Validate": s.Validate(), "Take": take, "Settle": s.Settle(ctx, nil), "Reset": s.Reset(ctx, nil), "core.New": inNew,
		} {
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q, want %q", name, err, want)
			}
		}
		if s.Repaired() != 0 {
			t.Errorf("%s: repaired %d", want, s.Repaired())
		}
	}
}

// Further requests of a denied client do not reach Redis, unless the cache is turned off.
func TestDenialsAreRememberedByDefault(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	for name, row := range map[string]struct {
		opts []redisstore.Option
		want bool
	}{
		"by default":     {nil, true},
		"size 1":         {[]redisstore.Option{redisstore.WithDenyCache(1)}, true},
		"off, by size 0": {[]redisstore.Option{redisstore.WithDenyCache(0)}, false},
	} {
		s := redisstore.New(client, append(row.opts, redisstore.WithPrefix(strings.ReplaceAll(name, " ", "-")))...)
		claims := []core.Claim{{Rule: "r", Key: "k", Limits: []core.Limit{core.PerHour(1)}}}
		for i := range 2 {
			if results, err := s.Take(context.Background(), claims, nil); err != nil || results[0].Allowed != (i == 0) {
				t.Fatalf("%s: take %d: %+v, %v", name, i, results, err)
			}
		}
		results, ok := s.TakeLocal(claims, nil)
		if ok != row.want || ok && results[0].Allowed {
			t.Errorf("%s: TakeLocal gives %+v, %v, want a denial: %v", name, results, ok, row.want)
		}
	}
}

// Twice as many denials as the cache has slots leave a tenth of them empty, since two denials may share a slot.
func TestDenyCacheHas4096SlotsByDefault(t *testing.T) {
	testpass.Thorough(t)
	const slots, denials, lasts = 4096, 2 * 4096, 900 * time.Millisecond // a denial is remembered for a second
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute})
	defer client.Close()
	s := redisstore.New(client)
	now := time.Now()
	s.SetClock(func() time.Time { return now })
	denied := func(i int) []core.Claim {
		return []core.Claim{{Rule: "r", Key: strconv.Itoa(i), Limits: []core.Limit{core.PerHour(0)}}}
	}
	asked := make([]time.Time, denials)
	var callers sync.WaitGroup
	const each = 8 // a batch that is too large exhausts the Lua of miniredis
	for first := range each {
		callers.Go(func() {
			for i := first; i < denials; i += each {
				asked[i] = time.Now()
				if _, err := s.Take(context.Background(), denied(i), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	remembered := 0
	for i := range denials {
		if _, ok := s.TakeLocal(denied(i), nil); ok {
			remembered++
		}
	}
	recent, counted := 0, time.Now()
	for _, at := range asked {
		if counted.Sub(at) < lasts {
			recent++
		}
	}
	filled := slots * (1 - math.Exp(-float64(recent)/slots)) // keys fall into slots at random
	if n := float64(remembered); n < 0.9*filled || n > slots {
		t.Errorf("%d of %d recent denials are remembered, want some %.0f and at most %d", remembered, recent, filled, slots)
	}
}
