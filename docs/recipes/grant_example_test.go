package recipes

import (
	"context"

	"github.com/spillgate/spillgate/core"
)

// goodwill gives a customer 2,000 requests more, until the window of each of its limits ends. Limits are what the Tier
// returns for it.
func goodwill(ctx context.Context, limiter *core.Limiter, key string, limits ...core.Limit) error {
	return limiter.Grant(ctx, "plan", key, 2000, limits...)
}
