package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/spillgate/spillgate/core"
)

// export charges 25 credits to a customer, such as "user:42", and returns them if upstream fails.
func export(ctx context.Context, limiter *core.Limiter, customer string, upstream func() error) error {
	d, err := limiter.Take(ctx, core.Claim{Rule: "credits", Key: customer, Cost: 25})
	if err != nil {
		return err
	}
	if !d.Allowed {
		return fmt.Errorf("out of credits: try again in %v", d.RetryAfter())
	}
	if err := upstream(); err != nil {
		return errors.Join(err, limiter.Refund(ctx, d))
	}
	return nil
}
