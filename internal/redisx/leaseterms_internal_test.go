package redisx

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
)

// A key whose limits have changed is not leased for a while: requests that ask for the old ones may be under way.
func TestAChangeOfTermsIsFollowedByAPause(t *testing.T) {
	s, c := busyEntry(t)
	s.withEntry(t, func(e *leaseEntry) { e.left[0] = 5 })
	c.Limits = core.MustParseLimits("200000/d")
	s.takeOne(t, c)
	if n := s.GrantsInFlight(); n > 0 {
		t.Errorf("after a change: %d grants in flight", n)
	}
	s.withEntry(t, func(e *leaseEntry) {
		if e.pause != pauseSpans || e.available() > 0 {
			t.Errorf("after a change: a pause of %d, %d left", e.pause, e.available())
		}
		if !e.terms.fit(&c) {
			t.Error("the lease has the old limits")
		}
	})
	for range 10 {
		s.takeOne(t, c)
	}
	s.withEntry(t, func(e *leaseEntry) {
		if n := e.available(); n > 0 {
			t.Errorf("%d were granted in the pause", n)
		}
	})
}

// A duringReset calls do before a client sends the script that resets.
type duringReset struct{ do func() }

func (h *duringReset) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *duringReset) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *duringReset) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if do := h.do; do != nil && slices.Contains(cmd.Args(), any("r")) {
			h.do = nil
			do()
		}
		return next(ctx, cmd)
	}
}

// What is charged ahead while a reset is under way may have been charged before it: it is not used after it.
func TestAGrantDuringAResetIsNotUsedAfterIt(t *testing.T) {
	server := miniredis.RunT(t)
	server.SetTime(time.Unix(1_800_000_000, 0))
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	c := core.Claim{Key: "k", Limits: core.MustParseLimits("100000/d"), Lease: 10 * time.Second}
	client.AddHook(&duringReset{do: func() {
		for range 20 {
			s.takeOne(t, c)
		}
		s.withEntry(t, func(*leaseEntry) {})
	}})
	if err := s.Reset(context.Background(), []core.Pair{{Rule: c.Rule, Key: c.Key}}); err != nil {
		t.Fatal(err)
	}
	if s.LeaseStats().Decisions == 0 {
		t.Error("nothing was leased during the reset")
	}
	if r, ok := s.TakeLocal([]core.Claim{c}, nil); ok {
		t.Errorf("after the reset a lease from before decided: %+v", r)
	}
}
