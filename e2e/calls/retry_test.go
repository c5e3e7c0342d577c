package calls

import (
	"net/http"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/keyfunc"
)

// retries makes grpc-go retry. Without a pushback, it would wait up to an hour.
var retries = grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "3600s",
	"maxBackoff": "3600s", "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`)

// TestRetries checks that the retries of grpc-go obey: they wait as long as a limit says, and not at all for a quota of a day.
func TestRetries(t *testing.T) {
	for _, f := range apps.Frameworks {
		for _, kind := range kinds {
			t.Run(f.Name+" "+kind, func(t *testing.T) {
				serving := func(l core.Limit) (client, *atomic.Int32) {
					var denied atomic.Int32
					app := new(login).app(apps.Guard{
						Limiter: core.Must(core.New([]core.Rule{l.By(keyfunc.RemoteIP)})),
						Headers: func(_ http.Header, d core.Decision) {
							if !d.Allowed {
								denied.Add(1)
							}
						},
					})
					return client{"grpc-go", grpcClient(t, serve(t, f.Build(app)), retries)}, &denied
				}

				c, denied := serving(core.PerSecond(5).WithBurst(1))
				for range 4 {
					expect.NoError(t, c.within(t, kind, right), "a call that should be retried")
				}
				expect.AtMost(t, denied.Load(), 3, "calls denied (a client that waits is admitted)")

				c, denied = serving(core.PerDay(1))
				_ = c.within(t, kind, right)
				err := c.within(t, kind, right)
				expect.Equal(t, codeOf(err), codes.ResourceExhausted, "a call above the quota: %v", err)
				expect.Equal(t, denied.Load(), 1, "calls denied (a retry is useless)")
			})
		}
	}
}
