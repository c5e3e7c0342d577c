package clients

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestRetryable checks that go-retryablehttp, with its default options, waits for Retry-After and succeeds at its first
// retry.
func TestRetryable(t *testing.T) {
	atOnce(t, func(t *testing.T, s *wire.Server, served <-chan bool) {
		var sent atomic.Int32
		c := retryablehttp.NewClient()
		c.HTTPClient = s.Client()
		c.Logger = nil
		c.RequestLogHook = func(retryablehttp.Logger, *http.Request, int) { sent.Add(1) }
		for i, want := range []int32{1, 1, 2} {
			start := time.Now()
			sent.Store(0)
			resp, err := c.Get(s.URL)
			must.Do(t, err)
			resp.Body.Close()
			expect.True(t, resp.StatusCode == http.StatusOK && sent.Load() == want,
				"call %d: status %d after %d requests, want 200 after %d", i+1, resp.StatusCode, sent.Load(), want)
			if took := time.Since(start); want == 2 && took < time.Second {
				t.Errorf("call %d: retried after %v, which is sooner than Retry-After can say", i+1, took)
			}
		}
		expect.Equal(t, len(served), 3, "how often the handler ran")
	})
}

// failing is a store whose calls all fail.
type failing struct{}

func (failing) Take(context.Context, []core.Claim, []core.Result) ([]core.Result, error) {
	return nil, errors.New("connection lost")
}
func (failing) Settle(context.Context, []core.Settlement) error { return nil }
func (failing) Reset(context.Context, []core.Pair) error        { return nil }

// down returns a limiter whose store is down.
func down() *core.Limiter {
	rule := core.PerMinute(1).By(wire.Anyone)
	rule.OnFailure = core.FailClosed
	return core.Must(core.New([]core.Rule{rule}, core.WithStore(failing{})))
}

// TestRetryAfterOfUnavailable checks that go-retryablehttp retries a 503 of a rule that fails closed, because it has
// Retry-After.
func TestRetryAfterOfUnavailable(t *testing.T) {
	resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}}
	for _, f := range apps.Frameworks {
		s := wire.Serve(t, f.Build(apps.Limited(down(), wire.OK)), false)
		got := s.Get("/")
		got.WantStatus(t, http.StatusServiceUnavailable)
		resp.Header = got.Header
		if wait := retryablehttp.DefaultBackoff(time.Millisecond, time.Millisecond, 0, resp); wait < time.Second {
			t.Errorf("%s: retries after %v, want the seconds of Retry-After, %q", f.Name, wait, got.Header.Get("Retry-After"))
		}
	}
}
