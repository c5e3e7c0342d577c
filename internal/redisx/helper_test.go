package redisx_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// forEach runs f for each server that keys may be on.
func forEach(t *testing.T, client redis.UniversalClient, f func(context.Context, *redis.Client) error) {
	t.Helper()
	ctx := context.Background()
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, f)
	} else {
		err = f(ctx, client.(*redis.Client))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flush(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	forEach(t, client, func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
}

// allExpire fails the test if a key would live for ever.
func allExpire(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	forEach(t, client, func(ctx context.Context, c *redis.Client) error {
		for _, key := range c.Keys(ctx, "*").Val() {
			if ttl := c.PTTL(ctx, key).Val(); ttl == -1 {
				t.Errorf("%s has no expiry", key)
			}
		}
		return nil
	})
}
