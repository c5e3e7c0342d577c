package redisx

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

// The script that gives a charge back also reports the state after it, which may include later requests of others.
func TestRefundReportsTheStateAfterIt(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := New(client, Options{Prefix: "p"})
	claim := core.Claim{Key: "k", Limits: []core.Limit{core.PerDay(2), core.PerDay(9).Using(core.SlidingLog)}, Cost: 2}
	if _, err := s.Take(context.Background(), []core.Claim{claim}, nil); err != nil {
		t.Fatal(err)
	}
	claim.Cost = 1
	r, err := s.decider.layout.newTake([]core.Claim{claim})
	if err != nil {
		t.Fatal(err)
	}
	j := &anyKeys.jobsOf(r, s.decider.layout)[0]
	j.at = time.Now().UnixMicro()
	j = s.decider.refund(context.Background(), j, func(int) bool { return false })
	if j.err != nil || j.usages[0].retry <= 0 || j.usages[1].retry != 0 || j.usages[0].Remaining != 0 || j.usages[1].Remaining != 7 {
		t.Errorf("%+v, %v: want a wait for the first, none for the second, and 0 and 7 to remain", j.usages, j.err)
	}
}
