package recipes

import (
	"context"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A crawler fetches one page per second from each host, whatever the number of its workers.
type crawler struct{ limiter *core.Limiter }

func newCrawler() (*crawler, error) {
	limiter, err := core.New([]core.Rule{{Name: "crawl", Limits: []core.Limit{core.PerSecond(1)}, MaxWait: time.Hour}})
	return &crawler{limiter}, err
}

// fetch waits for the turn of its host. The caller closes the body. It returns nil if the host has an hour of work
// booked already, or if 2,500 workers of this process wait for it.
func (c *crawler) fetch(ctx context.Context, host, path string) (*http.Response, error) {
	d, err := c.limiter.Wait(ctx, core.Claim{Rule: "crawl", Key: "host:" + host})
	if err != nil || !d.Allowed {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}
