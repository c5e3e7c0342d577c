package redisx

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A server runs the script. It is a single server, or all servers of a Redis Cluster or a Ring.
type server struct {
	client      redis.UniversalClient
	script      *script
	noFunctions atomic.Bool // the server has none, or the user may not load them

	clock    testClock     // of the server
	repaired atomic.Uint64 // invalid states found
	reloads  reloads       // of the state of the cluster
	begun    time.Time
	first    sync.Once
}

func newServer(client redis.UniversalClient) *server {
	return &server{client: client, script: theScript, begun: time.Now()}
}

// call sends c to the server and returns the reply. If the server does not have the function or the script, it has not
// run it; only that error leads to another attempt.
func (s *server) call(ctx context.Context, c *call) ([]int64, error) {
	if s.noFunctions.Load() {
		return c.sendScript(ctx, s.client, s.script)
	}
	reply, err := c.send(ctx, s.client, "fcall", s.script.function)
	never := isUnavailable(err)
	if isNotFound(err) {
		never = isUnavailable(s.loadLibrary(ctx))
		if !never {
			reply, err = c.send(ctx, s.client, "fcall", s.script.function)
		}
	}
	if !never && !isNotFound(err) {
		return reply, err
	}
	reply, err = c.sendScript(ctx, s.client, s.script)
	if err == nil && never {
		s.noFunctions.Store(true)
	}
	return reply, err
}

// loadLibrary loads the library on all servers, because the client does not say which server lacks it.
func (s *server) loadLibrary(ctx context.Context) error {
	load := func(ctx context.Context, client *redis.Client) error {
		cmd := onceText{redis.NewStringCmd(ctx, "function", "load", s.script.library)}
		if err := client.Process(ctx, cmd); err != nil && !strings.Contains(err.Error(), "already exists") {
			return err
		}
		return nil
	}
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, load)
	case *redis.Ring:
		return client.ForEachShard(ctx, load)
	case *redis.Client:
		return load(ctx, client)
	}
	return s.client.Process(ctx, onceText{redis.NewStringCmd(ctx, "function", "load", s.script.library)})
}

// reloadEvery is how often a store asks a client of a Redis Cluster to look for new masters.
const reloadEvery = 500 * time.Millisecond

// noteError makes a client of a Redis Cluster look for new masters if err is an error. On its own, the client does so
// once a minute.
func (s *server) noteError(err error) {
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

// warnOnce calls warnOfEviction once, without waiting for it.
func (s *server) warnOnce() { s.first.Do(func() { go s.warnOfEviction() }) }

// warnOfEviction logs a warning if the server removes keys when its memory is full.
func (s *server) warnOfEviction() {
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
