package redisx

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// reloadEvery is how often a store asks a client of a Redis Cluster to look for new masters.
const reloadEvery = 500 * time.Millisecond

// noteError makes a client of a Redis Cluster look for new masters if err is an error. On its own, the client does so
// once a minute.
func (s *Store) noteError(err error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if err == nil || !ok {
		return
	}
	if s.reloads.due(time.Since(s.begun)) {
		cluster.ReloadState(context.Background())
	}
}

// reloads limits how often something is done. It uses the monotonic clock, because after the wall clock was set back,
// nothing would be done until it has caught up.
type reloads struct{ next atomic.Int64 }

// due reports whether to do it now, an instant since some beginning.
func (r *reloads) due(now time.Duration) bool {
	next := r.next.Load()
	return int64(now) >= next && r.next.CompareAndSwap(next, int64(now+reloadEvery))
}

// warnOfEviction logs a warning if the server removes keys when its memory is full.
func (s *Store) warnOfEviction() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	info := onceText{redis.NewStringCmd(ctx, "info", "memory")}
	if s.client.Process(ctx, info) != nil {
		return
	}
	_, policy, _ := strings.Cut(info.Val(), "maxmemory_policy:")
	policy, _, _ = strings.Cut(policy, "\r\n")
	if policy != "" && policy != "noeviction" {
		slog.Warn("spillgate: Redis may evict keys that still count; use noeviction", "maxmemory-policy", policy)
	}
}
