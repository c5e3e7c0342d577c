package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// FuzzGitHub checks that the fields are single, plain numbers that agree with each other and with the decision, and that
// the announced wait is long enough, and less than a second too long.
func FuzzGitHub(f *testing.F) {
	f.Add(int64(1767268800_000000), 100, 50, int64(600_000), int64(30_000_000), int64(-2))
	f.Add(int64(1767268800_500000), 100, 0, int64(1), int64(60_000_000), int64(1))
	f.Add(int64(1767268800_999999), 1, 0, int64(1_000_000), int64(1_000_000), int64(1_000_000))
	f.Add(int64(0), 100, 97, int64(0), int64(1<<53), int64(-1))
	f.Add(int64(-1), 7, 3, int64(1), int64(2), int64(1<<53))
	f.Fuzz(func(t *testing.T, atMicro int64, rate, remaining int, refillMicros, resetMicros, retryMicros int64) {
		l := core.PerMinute(rate)
		if l.Validate() != nil || atMicro < 0 || atMicro > 1<<53 || remaining < 0 || remaining > rate || refillMicros < 0 ||
			refillMicros > resetMicros || resetMicros > 1<<53 || retryMicros > 1<<53 {
			t.Skip("no store reports this")
		}
		at, micros := time.UnixMicro(atMicro), func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
		r := result("api", l, remaining, micros(refillMicros), micros(resetMicros))
		wait := r.ResetAfter
		if remaining == 0 {
			wait = r.RefillAfter
		}
		switch {
		case retryMicros > 0:
			r, wait, remaining = denied(r, micros(retryMicros)), micros(retryMicros), 0
		case retryMicros == -1:
			r = denied(r, core.Never)
		}
		h := http.Header{}
		headers.GitHub(h, decision(at, r))
		field := func(name string) int64 {
			must.Equal(t, len(h[name]), 1, "%s: %q", name, h[name])
			return number(t, h[name][0])
		}
		expect.True(t, field("X-Ratelimit-Limit") == int64(rate) && field("X-Ratelimit-Remaining") == int64(remaining) &&
			field("X-Ratelimit-Used") == int64(rate-remaining),
			"%v", h)
		late := time.Unix(field("X-Ratelimit-Reset"), 0).Sub(at.Add(wait))
		expect.True(t, late >= 0 && late < time.Second, "Reset is %v late: %v", late, h)
		if retryMicros <= 0 {
			expect.True(t, h["Retry-After"] == nil, "no wait would help: %v", h)
			return
		}
		late = time.Duration(field("Retry-After"))*time.Second - wait
		expect.True(t, late >= 0 && late < time.Second, "Retry-After is %v late: %v", late, h)
	})
}
