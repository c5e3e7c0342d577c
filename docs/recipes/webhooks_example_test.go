package recipes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
)

// A courier sends webhooks: to each receiver a burst of ten, then ten per second, and less where a receiver asks for less.
type courier struct {
	limiter *core.Limiter
	client  *http.Client
}

func newCourier() (*courier, error) {
	limiter, err := core.New([]core.Rule{{Name: "webhooks", Limits: []core.Limit{core.PerSecond(10)}}})
	if err != nil {
		return nil, err
	}
	return &courier{limiter, &http.Client{Transport: &client.Transport{MaxWait: time.Minute}}}, nil
}

// A laterError says when to try again.
type laterError struct{ wait time.Duration }

func (e laterError) Error() string { return fmt.Sprintf("try again in %v", e.wait) }

// send sends one webhook. If it returns a laterError, put the webhook back into its queue for that long.
func (c *courier) send(ctx context.Context, receiver, url, body string) error {
	d, err := c.limiter.Take(ctx, core.Claim{Rule: "webhooks", Key: receiver})
	if err != nil {
		return err
	}
	if !d.Allowed {
		return laterError{d.RetryAfter()}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s: %s", receiver, resp.Status)
	}
	return nil
}
