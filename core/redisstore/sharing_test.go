package redisstore_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/keyfunc"
)

// A wrapped store is still the store that it wraps.
type wrapped struct{ *redisstore.Store }

// Stores over one client with one prefix are one store, whatever their other options are.
func TestStoresOverOneClientShareTheirLimits(t *testing.T) {
	client, cluster := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	second := redis.NewClient(&redis.Options{})
	for _, c := range []redis.UniversalClient{client, cluster, second} {
		t.Cleanup(func() { c.Close() })
	}
	secret, secret2 := []byte("sixteen bytes or more"), []byte("another sixteen bytes")
	prefix, hashed := redisstore.WithPrefix("shop"), redisstore.WithKeySecret(secret)
	for _, row := range []struct {
		why    string
		first  core.Store
		second core.Store
		shares bool
	}{
		{"one client", redisstore.New(client), redisstore.New(client), true},
		{"the default prefix", redisstore.New(client), redisstore.New(client, redisstore.WithPrefix("spillgate")), true},
		{"one prefix", redisstore.New(client, prefix), redisstore.New(client, prefix, redisstore.WithDenyCache(0)), true},
		{"a Cluster", redisstore.New(cluster), redisstore.New(cluster), true},
		{"one secret", redisstore.New(client, hashed), redisstore.New(client, hashed), true},
		{"a wrapped store", wrapped{redisstore.New(client)}, redisstore.New(client), true},
		{"two prefixes", redisstore.New(client), redisstore.New(client, prefix), false},
		{"two clients", redisstore.New(client), redisstore.New(second), false},
		{"a secret and none", redisstore.New(client), redisstore.New(client, hashed), false},
		{"two secrets", redisstore.New(client, redisstore.WithKeySecret(secret2)), redisstore.New(client, hashed), false},
	} {
		api, login := core.PerMinute(100).By(keyfunc.RemoteIP), core.PerMinute(5).By(keyfunc.RemoteIP)
		api.Name, login.Name = row.why, row.why // limiters of other rows may still count
		for _, with := range []func(core.Store) core.Option{core.WithStore, core.WithFallback} {
			first := core.Must(core.New([]core.Rule{api}, with(row.first)))
			if _, err := core.New([]core.Rule{login}, core.WithStore(row.second)); (err != nil) != row.shares ||
				row.shares && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "a limiter with the same store has a rule of this name")) {
				t.Errorf("%s: %v, want a mistake: %v", row.why, err, row.shares)
			}
			runtime.KeepAlive(first)
		}
	}
}
