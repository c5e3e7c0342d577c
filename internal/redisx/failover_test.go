package redisx_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// isMaster returns a function that reports whether c is a master.
func isMaster(c *redis.Client) func() bool {
	return func() bool { return strings.Contains(c.Info(context.Background(), "replication").Val(), "role:master") }
}

// recovers takes until s decides. It returns when the last request began that failed, from the call on, and the results.
func recovers(t *testing.T, s *redisx.Store, claims []core.Claim) (failed time.Duration, results []core.Result) {
	t.Helper()
	begun := time.Now()
	redistest.Wait(t, "Redis to decide again", func() bool {
		asked := time.Since(begun)
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		var err error
		if results, err = s.Take(ctx, claims, nil); err != nil {
			failed = asked
		}
		return err == nil
	})
	return failed, results
}

// soon is a time after which only a fault can keep a store from finding a new master.
const soon = 30 * time.Second

func TestNewMasterIsFoundSoon(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Failover(2000)...)
	s := redisx.New(cluster.Client(t), options)
	c := []core.Claim{claimOf("k", core.PerDay(1000))}
	recovers(t, s, c)
	slot := int(cluster.Nodes[0].Client(t).ClusterKeySlot(context.Background(), "{k}").Val())
	owner := cluster.Owner(t, slot)
	replica := cluster.Nodes[owner+3].Client(t)
	cluster.Nodes[owner].Kill()
	stop := keepAsking(s, c)
	redistest.Wait(t, "the replica to take over", isMaster(replica))
	stop()
	if d, _ := recovers(t, s, c); d > soon {
		t.Errorf("a request failed that began %v after the new master took over", d)
	}
}

// keepAsking takes until stop is called.
func keepAsking(s *redisx.Store, claims []core.Claim) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			one, done := context.WithTimeout(ctx, 50*time.Millisecond)
			_, _ = s.Take(one, claims, nil)
			done()
			time.Sleep(time.Millisecond)
		}
	})
	return func() {
		cancel()
		asking.Wait()
	}
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	s := redisx.New(sentinel.Client(t), options)
	c := []core.Claim{claimOf("k", core.Every(1000, ages))}
	recovers(t, s, c)
	replica := sentinel.Replica.Client(t)
	redistest.Wait(t, "the replica to have the key", func() bool {
		return replica.Exists(context.Background(), pairKey).Val() == 1
	})
	sentinel.Master.Kill()
	redistest.Wait(t, "the sentinels to name the new master", func() bool { return sentinel.Names(sentinel.Replica) })
	d, results := recovers(t, s, c)
	if d > soon {
		t.Errorf("a request failed that began %v after the sentinels named the new master", d)
	}
	if results[0].Remaining > 998 {
		t.Errorf("%d remaining, want 998 or less: what was charged before the failover counts", results[0].Remaining)
	}
}
