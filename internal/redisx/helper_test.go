package redisx_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
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

// settled returns claims, decided with these results, as Settle gives them back.
func settled(claims []core.Claim, results []core.Result) []core.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].At = results[0].At
		results = results[len(claims[i].Limits):]
	}
	return claims
}

// settledAt returns claims, charged at an instant, as Settle gives them back.
func settledAt(at time.Time, claims ...core.Claim) []core.Claim {
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].At = at
	}
	return claims
}
