package clients

import (
	"context"
	"errors"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/spillgate/spillgate/client"
)

func retrying() *retryablehttp.Client {
	c := retryablehttp.NewClient()
	c.HTTPClient.Transport = &client.Transport{Base: c.HTTPClient.Transport}
	c.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
		var limited *client.LimitedError
		if errors.As(err, &limited) || resp != nil && resp.StatusCode == http.StatusTooManyRequests {
			return false, nil // the Transport has already waited, or must not wait that long
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
	}
	return c
}
