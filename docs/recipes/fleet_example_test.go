package recipes

import (
	"context"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
)

// partnerClient returns a client for a partner who admits 50 requests per second to all our processes together. Limits are shared
// over store.
func partnerClient(store core.Store) (*http.Client, error) {
	limiter, err := core.New([]core.Rule{{
		Name: "partner", Limits: []core.Limit{core.PerSecond(50).WithBurst(1)}, MaxWait: time.Minute,
	}}, core.WithStore(store))
	if err != nil {
		return nil, err
	}
	budget := core.Claim{Rule: "partner", Key: "const:all"}
	return &http.Client{Transport: &client.Transport{
		Before: func(r *http.Request) error { // waits for the turn of this attempt among all processes
			d, err := limiter.Wait(r.Context(), budget)
			if err == nil && !d.Allowed {
				err = &client.LimitedError{Until: time.Now().Add(d.RetryAfter())}
			}
			return err
		},
		OnDenied: func(_ *http.Request, d time.Duration) { // stops all processes for as long as the partner asked
			_ = limiter.Ban(context.Background(), budget.Rule, budget.Key, max(d, time.Second))
		},
	}}, nil
}
