package clients

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"golang.org/x/oauth2"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestDenialsAreFinal checks that retryablehttp does not retry after the Transport has returned a denial or a LimitedError.
func TestDenialsAreFinal(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	s := wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}), false)
	c := retrying()
	c.Logger, c.RetryWaitMin, c.RetryWaitMax = nil, time.Millisecond, time.Millisecond
	attempts := 0
	c.RequestLogHook = func(retryablehttp.Logger, *http.Request, int) { attempts++ }
	if got, err := status(c.Get(s.URL)); err != nil || got != http.StatusTooManyRequests || attempts != 1 {
		t.Errorf("status %d, %v after %d attempts, want the denial after one", got, err, attempts)
	}
	_, err := status(c.Get(s.URL))
	var limited *client.LimitedError
	if !errors.As(err, &limited) || attempts != 2 || sent.Load() != 1 {
		t.Errorf("%v after %d attempts and %d requests, want a LimitedError after one more attempt, and nothing sent", err, attempts, sent.Load())
	}
}

// TestRenewedTokenKeepsTheLimits checks that the client of the oauth2 recipe knows the same limits after its token has changed.
func TestRenewedTokenKeepsTheLimits(t *testing.T) {
	t.Parallel()
	s, sent := oneRequest(t, time.Now().Add(time.Hour))
	c := authorized(context.Background(), new(renewing))
	must.Equal(t, must.Get(status(c.Get(s.URL)))(t), http.StatusOK, "status")
	_, err := status(c.Get(s.URL))
	var limited *client.LimitedError
	expect.True(t, errors.As(err, &limited) && sent.Load() == 1,
		"%v after %d requests, want a LimitedError, and nothing sent", err, sent.Load())
}

// renewing is a token source whose tokens expire at once, so that each request gets a new token.
type renewing int

func (r *renewing) Token() (*oauth2.Token, error) {
	*r++
	return &oauth2.Token{AccessToken: strconv.Itoa(int(*r)), Expiry: time.Now()}, nil
}
