package redisrate

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// before charges a job to a project, which may start 10 per second. It returns how long to wait if the job is denied.
func before(ctx context.Context, client *redis.Client, project string) (time.Duration, error) {
	limiter := redis_rate.NewLimiter(client)
	res, err := limiter.Allow(ctx, "project:"+project, redis_rate.PerSecond(10))
	if err != nil || res.Allowed > 0 {
		return 0, err
	}
	return res.RetryAfter, nil
}
