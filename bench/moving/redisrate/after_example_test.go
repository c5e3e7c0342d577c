package redisrate

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// jobs limits each project. It has no Key, because each Take names its key.
var jobs = core.Rule{Name: "jobs", Limits: []core.Limit{core.PerSecond(10)}}

// newLimiter is called once: unlike a limiter of redis_rate, this one knows when Redis is down.
func newLimiter(client *redis.Client) (*core.Limiter, error) {
	return core.New([]core.Rule{jobs}, core.WithStore(redisstore.New(client, redisstore.WithPrefix("shop"))))
}

// after charges a job to a project. It returns how long to wait if the job is denied.
func after(ctx context.Context, limiter *core.Limiter, project string) (time.Duration, error) {
	d, err := limiter.Take(ctx, core.Claim{Rule: "jobs", Key: "project:" + project})
	if err != nil || d.Allowed {
		return 0, err
	}
	return d.RetryAfter(), nil
}
