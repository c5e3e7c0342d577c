package clients

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"

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
