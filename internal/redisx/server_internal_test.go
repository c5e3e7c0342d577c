package redisx

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

func TestReloadsAreBounded(t *testing.T) {
	var r reloads
	for _, step := range []struct {
		at  time.Duration
		due bool
	}{{0, true}, {0, false}, {reloadEvery - 1, false}, {reloadEvery, true}, {2*reloadEvery - 1, false}, {time.Hour, true}, {time.Hour + reloadEvery, true}} {
		if got := r.due(step.at); got != step.due {
			t.Errorf("at %v: got %v, want %v", step.at, got, step.due)
		}
	}
}

// The wall clock may be set: what is between two instants is monotonic.
func TestBeginningHasAMonotonicReading(t *testing.T) {
	if begun := New(nil, Options{}).decider.server.begun.String(); !strings.Contains(begun, " m=") {
		t.Errorf("the store knows only the wall time of its beginning, %s", begun)
	}
}

// Without the store's help, go-redis looks for new masters only after ten seconds.
func TestErrorMakesTheClientLookForNewMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		client := redis.NewClusterClient(&redis.ClusterOptions{
			MaxRedirects: -1,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				loads.Add(1)
				return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: "127.0.0.1:1"}}}}, nil
			},
		})
		defer client.Close()
		s := New(client, Options{Prefix: "p"})
		if _, err := s.Take(t.Context(), []core.Claim{{Key: "k", Limits: core.MustParseLimits("5/m")}}, nil); err == nil {
			t.Error("a server that is not there decided")
		}
		time.Sleep(5 * time.Second)
		if n := loads.Load(); n != 2 {
			t.Errorf("the nodes were looked up %d times, want once for the request and once for its error", n)
		}
	})
}
