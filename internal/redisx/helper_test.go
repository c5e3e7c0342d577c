package redisx_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

func forEach(t *testing.T, client redis.UniversalClient, f func(context.Context, *redis.Client) error) {
	t.Helper()
	ctx := context.Background()
	var err error
	switch client := client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, f)
	case *redis.Ring:
		err = client.ForEachShard(ctx, f)
	default:
		err = f(ctx, client.(*redis.Client))
	}
	must.Do(t, err)
}

func flush(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	forEach(t, client, func(ctx context.Context, c *redis.Client) error { return c.Do(ctx, "flushall", "sync").Err() })
}

func allExpire(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	forEach(t, client, func(ctx context.Context, c *redis.Client) error {
		for _, key := range c.Keys(ctx, "*").Val() {
			expect.NotEqual(t, c.PTTL(ctx, key).Val(), -1, "%s has no expiry", key)
		}
		return nil
	})
}

var settled, allowed = oracle.Settled, oracle.Allowed

// settledAt returns the settlements that give back claims, charged at an instant.
func settledAt(at time.Time, claims ...core.Claim) (some []core.Settlement) {
	for _, c := range claims {
		some = append(some, oracle.Settlement(c, at))
	}
	return some
}

func pairsOf(claims ...core.Claim) (pairs []core.Pair) {
	for _, c := range claims {
		pairs = append(pairs, core.Pair{Rule: c.Rule, Key: c.Key})
	}
	return pairs
}

// ages is a period whose windows do not turn while a test runs.
const ages = 1000 * 24 * time.Hour

func everyAlgorithm(rate int, period time.Duration) (limits []core.Limit) {
	for a := core.TokenBucket; a < core.InFlight; a++ {
		limits = append(limits, core.Every(rate, period).Using(a))
	}
	return limits
}

func claimOf(key string, limits ...core.Limit) core.Claim {
	return core.Claim{Rule: "rule", Key: key, Limits: limits}
}

// take decides claims as a core.Limiter does: by the deny cache, else by the server.
func take(t *testing.T, s *redisx.Store, claims ...core.Claim) []core.Result {
	t.Helper()
	if results, ok := s.TakeLocal(claims, nil); ok {
		return results
	}
	return must.Get(s.Take(context.Background(), claims, nil))(t)
}

func started(t *testing.T) (*redisx.Store, *redis.Client) {
	client := redistest.Start(t).Client(t)
	return redisx.New(client, options), client
}

// silentServer returns a store that has taken a claim, and whose server executes further calls without a reply.
func silentServer(t *testing.T) (*redisx.Store, *redistest.Proxy, core.Claim) {
	t.Helper()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redistest.NewClient(t, &redis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute, PoolSize: 100})
	s, c := redisx.New(client, options), claimOf("k", core.PerDay(1000))
	take(t, s, c)
	proxy.Fault.Store(redistest.SwallowReplies)
	return s, proxy, c
}

func calls(t *testing.T, c *redis.Client, command string) int {
	t.Helper()
	var n int
	_, stats, ok := strings.Cut(c.Info(context.Background(), "commandstats").Val(), "cmdstat_"+command+":calls=")
	if ok {
		must.Get(fmt.Sscan(strings.SplitN(stats, ",", 2)[0], &n))(t)
	}
	return n
}

// ended returns a function that reports whether nothing more is to be read from r.
func ended(r io.Reader) func() bool {
	var end atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, r)
		end.Store(true)
	}()
	return end.Load
}

// start is the beginning of a minute, and of an hour.
var start = time.Unix(1_800_000_000, 0)

// frozen returns a store on a server whose clock is stopped at start.
func frozen(t *testing.T) (*redisx.Store, *miniredis.Miniredis) {
	server := miniredis.RunT(t)
	server.SetTime(start)
	client := redistest.NewClient(t, &redis.Options{Addr: server.Addr(), ReadTimeout: time.Minute})
	return redisx.New(client, options), server
}

func grant(t *testing.T, s *redisx.Store, c core.Claim, n int) {
	t.Helper()
	must.Do(t, s.Settle(t.Context(), []core.Settlement{{Rule: c.Rule, Key: c.Key, Limits: c.Limits, Grant: n}}))
}

const word = 8 // bytes

// kindOf returns the kind of a limit: see lua/pair.lua.
func kindOf(l core.Limit) uint64 { return uint64(l.Period.Microseconds())*24 + uint64(l.Algorithm)*4 }

func siblingOf(l core.Limit) uint64 {
	switch l.Algorithm {
	case core.TokenBucket:
		return uint64(l.Rate)
	case core.SlidingWindow:
		return uint64(l.Width().Microseconds())
	}
	return 0
}

func parseWords(text string) (state []uint64) {
	for ; len(text) >= word; text = text[word:] {
		state = append(state, binary.LittleEndian.Uint64([]byte(text)))
	}
	return state
}
