package testing

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
)

func TestTwoProcessesShareALimit(t *testing.T) {
	server := miniredis.RunT(t)
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	server.SetTime(now) // the clock of Redis decides
	process := func() *core.Limiter {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		store := redisstore.New(client, redisstore.WithPrefix("shop"))
		rules := []core.Rule{{Name: "api", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerMinute(2)}}}
		return core.Must(core.New(rules, core.WithStore(store), core.WithTimeout(10*time.Second))) // 50ms may be short on a busy machine
	}
	one, other := process(), process()
	take := func(l *core.Limiter) bool {
		d, err := l.Take(t.Context(), core.Claim{Rule: "api", Key: "ip:203.0.113.9"})
		if err != nil || d.Degraded != nil {
			t.Fatal(err, d.Degraded)
		}
		return d.Allowed
	}
	if !take(one) || !take(other) || take(one) {
		t.Error("want two of three requests")
	}
	server.SetTime(now.Add(30 * time.Second))
	if !take(other) || take(one) {
		t.Error("want one more after 30s")
	}
}
