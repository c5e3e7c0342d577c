package calls

import (
	"net/http"
	"sync"
	"testing"
	"time"

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

// TestRetries checks that the retries of grpc-go wait as long as the pushback says, and not at all for a quota of a day.
func TestRetries(t *testing.T) {
	for _, s := range servings() {
		for _, kind := range kinds {
			t.Run(s.name+" "+kind, func(t *testing.T) {
				var mu sync.Mutex
				var denied int
				var turn time.Time
				best := time.Hour // the least delay of a retry
				look := func(_ http.Header, d core.Decision) {
					mu.Lock()
					defer mu.Unlock()
					if late := time.Since(turn); !turn.IsZero() {
						best = min(best, late)
						expect.AtLeast(t, late, 0, "a retry came %v too early", -late)
					}
					turn = time.Time{}
					if !d.Allowed {
						denied++
						turn = time.Now().Add(d.RetryAfter())
					}
				}
				serving := func(l core.Limit) client {
					g := apps.Guard{Limiter: core.Must(core.New([]core.Rule{l.By(keyfunc.RemoteIP)})), Headers: look}
					return client{"grpc-go", grpcClient(t, s.serve(t, new(login), g), retries)}
				}
				c := serving(core.PerSecond(5).WithBurst(1))
				for round := 1; round <= 8 && best > 20*time.Millisecond; round++ { // a busy machine may be late
					for range 4 {
						expect.NoError(t, c.within(t, kind, right), "a call that should be retried")
					}
					expect.AtMost(t, denied, 4*round-1, "calls denied (a client that waits is admitted, and the first call is)")
				}
				expect.AtMost(t, best, 20*time.Millisecond, "the retries came at least after the pushback")

				denied, turn = 0, time.Time{}
				c = serving(core.PerDay(1))
				_ = c.within(t, kind, right)
				err := c.within(t, kind, right)
				expect.Equal(t, codeOf(err), codes.ResourceExhausted, "a call above the quota: %v", err)
				expect.Equal(t, denied, 1, "calls denied (a retry is useless)")
			})
		}
	}
}
