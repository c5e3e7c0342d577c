package main

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/bench/peers"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// five is a limit that does not refill while a test runs.
var five = peers.Limit{Rate: 5, Period: 10 * time.Hour}

// limits fails t unless take admits five for each key and no more: comparing with a contestant that limits nothing is pointless.
func limits(t *testing.T, take peers.Take) {
	t.Helper()
	for _, key := range []string{"ann", "bob"} {
		admitted := 0
		for range 3 * five.Rate {
			if take(key) {
				admitted++
			}
		}
		expect.Equal(t, admitted, five.Rate, "how often %s was admitted", key)
	}
}

func TestMemoryContestantsLimit(t *testing.T) {
	for _, m := range takers() {
		s := m.open(five)
		defer s.Stop()
		t.Run(s.Name, func(t *testing.T) { limits(t, s.Worker()) })
	}
}

func TestMemoryContestantsShareState(t *testing.T) {
	for _, m := range takers() {
		s := m.open(five)
		defer s.Stop()
		one, other := s.Worker(), s.Worker()
		for range five.Rate {
			one("ann")
		}
		expect.True(t, !other("ann"), "%s: a second goroutine was admitted what the first had used", s.Name)
	}
}

func TestSpillgateCountsEveryLimit(t *testing.T) {
	s := peers.SpillgateRedisMany([]peers.Limit{{Rate: 100, Period: time.Hour}, five}, testClient(t))
	limits(t, s.Worker())
}

func TestSpillgateCountsEveryRule(t *testing.T) {
	client := testClient(t)
	rule := func(name string, n int) core.Rule {
		return core.Rule{Name: name, Key: keyfunc.RemoteIP, Limits: []core.Limit{core.Every(n, five.Period)}}
	}
	limits(t, peers.SpillgateRedisRules([]core.Rule{rule("a", 100), rule("b", five.Rate)}, 1, client).Worker())
}

func TestRedisContestantsLimit(t *testing.T) {
	client := testClient(t)
	for _, r := range redisStores {
		if r.role == baseline {
			continue
		}
		s := r.open(five, client)
		t.Run(r.name, func(t *testing.T) {
			client.FlushAll(t.Context())
			limits(t, s.Worker())
		})
	}
	client.FlushAll(t.Context())
	t.Run("no deny cache", func(t *testing.T) { limits(t, peers.SpillgateNoDenyCache(five, client).Worker()) })
}

func TestSixCallsLimit(t *testing.T) {
	client := testClient(t)
	for _, r := range redisStores {
		if r.role != peer {
			continue
		}
		client.FlushAll(t.Context())
		s := sixCalls(r.open, []peers.Limit{{Rate: 100, Period: 3 * time.Hour}, five, {Rate: 100, Period: time.Hour}}, client)
		t.Run(r.name, func(t *testing.T) { limits(t, s.Worker()) })
	}
}

func testClient(t *testing.T) *redis.Client {
	t.Helper()
	s := must.Get(startServer(context.WithoutCancel(t.Context())))(t)
	t.Cleanup(s.stop)
	c := s.client()
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestMiddlewaresLimit(t *testing.T) {
	lists := map[string][]served{"net/http": netHTTP(), "gin": ginLimiters(), "echo": echoLimiters(), "echo v5": echo5Limiters()}
	for framework, list := range lists {
		for _, s := range list {
			t.Run(framework+", "+s.name, func(t *testing.T) {
				const clients = 3
				traffic := requests(s.router(five), clients)
				traffic.exhaust(3 * five.Rate)
				expect.True(t, traffic.ran == clients*five.Rate && traffic.w.status == http.StatusTooManyRequests,
					"served %d, then status %d, want %d and 429", traffic.ran, traffic.w.status, clients*five.Rate)
			})
		}
	}
}

// The loops must notice a contestant that decides otherwise than a row needs it.
func TestWrongDecisionsAreErrors(t *testing.T) {
	e := newEnv(t.Context(), 1, true, io.Discard)
	never := &peers.Store{Worker: func() peers.Take { return func(string) bool { return false } }}
	expect.Fails(t, expect.ErrorOf(e.decisions(overKeys(never.Worker(), []string{"a"}), admitted)()), "a loop that admits nothing passed for one that admits all")
	expect.Fails(t, expect.ErrorOf(e.load(never, 2, uniform(1), admitted, throughput)()), "a load that admits nothing passed for one that admits all")
	expect.NoError(t, expect.ErrorOf(e.decisions(overKeys(never.Worker(), []string{"a"}), denied)()), "decisions")
}
