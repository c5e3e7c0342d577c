package redisx_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// fill charges a sliding log n times, at n instants.
func fill(t *testing.T, s *redisx.Store, c core.Claim, n int) (charged []core.Settlement) {
	t.Helper()
	for range n {
		r, err := s.Take(context.Background(), []core.Claim{c}, nil)
		if err != nil || !r[0].Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
		charged = append(charged, settled([]core.Claim{c}, r)...)
		s.Shift(time.Microsecond)
	}
	return charged
}

// A refund of the oldest entry runs no more commands than one of the newest, however many are between them.
func TestRefundCostsTheSameInALongLog(t *testing.T) {
	client := redistest.Start(t).Client(t)
	ctx := context.Background()
	s := redisx.New(client, options)
	c := claimOf("k", core.PerHour(1000).Using(core.SlidingLog))
	charged := fill(t, s, c, 1000)
	for _, i := range []int{0, 1, 70, 500, 980, 999} {
		before := commands(t, client)
		if err := s.Settle(ctx, charged[i:i+1]); err != nil {
			t.Fatal(err)
		}
		if n := commands(t, client) - before; n > 12 {
			t.Errorf("a refund of entry %d took %d commands", i, n)
		}
	}
	c.Peek = true
	if r := take(t, s, c)[0]; r.Remaining != 6 {
		t.Errorf("%d remaining after 6 refunds, want 6", r.Remaining)
	}
}

// commands returns how many commands a server has run, including commands in scripts.
func commands(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	for line := range strings.Lines(c.Info(context.Background(), "commandstats").Val()) {
		var calls int
		if name, stats, ok := strings.Cut(line, ":"); ok && !strings.HasSuffix(name, "_info") {
			_, _ = fmt.Sscanf(stats, "calls=%d,", &calls)
			n += calls
		}
	}
	return n
}

// A decision takes few commands, however many requests a log counts, and drops those that count no longer.
func TestDecisionOfALogTakesFewCommands(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	c := claimOf("k", core.PerHour(1000).Using(core.SlidingLog))
	for range 1000 {
		take(t, s, c)
		s.Shift(2 * time.Second)
	}
	if r := take(t, s, c)[0]; r.Allowed {
		t.Fatalf("%+v, want a denial", r)
	}
	s.Shift(45 * time.Minute) // 16 minutes of the first 33 count no longer
	before := commands(t, client)
	if r := take(t, s, c)[0]; r.Remaining < 500 || r.Remaining > 560 {
		t.Errorf("%d remain, want half and a little", r.Remaining)
	}
	if n := commands(t, client) - before; n > 11 {
		t.Errorf("a decision took %d commands", n)
	}
	if n := client.ZCard(t.Context(), pairKey+":3600000000").Val(); n > 500 {
		t.Errorf("%d members are kept, want half of 1000", n)
	}
}
