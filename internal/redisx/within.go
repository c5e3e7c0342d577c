package redisx

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

// within runs f and returns what it returns, or the error of ctx as soon as that is done. A client with the default
// options does not watch ctx, so f may go on for as long as its timeouts say; no more than maxRunning do.
func within[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	select {
	case s.running <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-s.running }()
		var r result
		defer func() {
			if v := recover(); v != nil {
				r.err = panicked(v)
			}
			done <- r
		}()
		r.value, r.err = f(ctx)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		s.failed(ctx.Err())
		return none, ctx.Err()
	}
}

// panicked returns the error for a panic of the client, with value v.
func panicked(v any) error {
	return fmt.Errorf("%w: the Redis client panicked: %v", core.ErrInvalid, v)
}

// reloadEvery is how often a store asks a client of a Redis Cluster to look for new masters.
const reloadEvery = 500 * time.Millisecond

// failed takes note of an error of the client. A ClusterClient by itself would look for a new master once a minute.
func (s *Store) failed(err error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if err == nil || !ok {
		return
	}
	now, last := time.Now().UnixNano(), s.reloaded.Load()
	if now-last >= int64(reloadEvery) && s.reloaded.CompareAndSwap(last, now) {
		cluster.ReloadState(context.Background())
	}
}

// countRepairs takes note of states that a script has repaired.
func (s *Store) countRepairs(n int64) {
	if n > 0 {
		s.repaired.Add(uint64(n))
		slog.Warn("spillgate: stored states made no sense and count as used up", "states", n)
	}
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
