// Package throttled checks what docs/moving/throttled.md says.
package throttled

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// quota returns a handler that limits each address, in a store of at most maxKeys.
func quota(t *testing.T, maxKeys int, q throttled.RateQuota) http.Handler {
	limiter := must.Get(throttled.NewGCRARateLimiterCtx(must.Get(memstore.NewCtx(maxKeys))(t), q))(t)
	h := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return h.RateLimit(try.OK)
}

// Some minutes of requests at uneven times: both have one algorithm, so all bytes are equal.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := must.Get(before(try.OK))(t), must.Get(same(try.OK))(t)
		try.SameBytes(t, old, now, 5*time.Second, "/")
		failing := throttled.HTTPRateLimiterCtx{RateLimiter: down{}}
		expect.Equal(t, try.Wire(t, now, "nobody", "/"), try.Wire(t, failing.RateLimit(try.OK), try.Client, "/"), "an error")
	})
}

type down struct{}

func (down) RateLimitCtx(context.Context, string, int) (bool, throttled.RateLimitResult, error) {
	return false, throttled.RateLimitResult{}, errors.New("connection lost")
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := must.Get(after(try.OK))(t)
		expect.Equal(t, try.Admitted(now, 10, try.Client, "/"), 6, "admitted of 10")
		w := try.Get(now, try.Client, "/")
		expect.True(t, w.Code == 429 && w.Header().Get("Retry-After") == "3", "%d %v", w.Code, w.Header())
	})
}

func TestZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := quota(t, 100, throttled.RateQuota{MaxRate: throttled.PerMin(20)})
		expect.Equal(t, try.Admitted(one, 10, try.Client, "/"), 1, "MaxBurst: 0: admitted")
		expect.Equal(t, try.Admitted(try.Limited(core.PerMinute(20).WithBurst(1)), 10, try.Client, "/"), 1, "WithBurst(1): admitted")
		expect.Equal(t, try.Admitted(try.Limited(core.PerMinute(20).WithBurst(0)), 30, try.Client, "/"), 20, "WithBurst(0): admitted")
		expect.Equal(t, try.Admitted(try.Limited(core.PerMinute(0)), 30, try.Client, "/"), 0, "PerMinute(0): admitted")
		expect.Fails(t, expect.PanicOf(func() { _ = throttled.PerMin(0) }), "the panic of throttled.PerMin(0)")
	})
}

func TestFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := quota(t, 100, throttled.RateQuota{MaxRate: throttled.PerDuration(10, 3*time.Second), MaxBurst: 9})
		now := try.Limited(core.Every(10, 3*time.Second))
		for range 2 {
			was, is := try.Admitted(old, 20, try.Client, "/"), try.Admitted(now, 20, try.Client, "/")
			expect.True(t, was == 10 && is == 10, "admitted %d before, %d after, want 10", was, is)
			time.Sleep(3 * time.Second)
		}
	})
}

// A full store forgets the client that was away longest, and with it what the client has used.
func TestAFullStoreForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := quota(t, 2, throttled.RateQuota{MaxRate: throttled.PerHour(1)})
		store := &core.MemoryStore{MaxKeys: 2}
		now := stdlib.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(keyfunc.RemoteIP)}, core.WithStore(store))))(try.OK)
		for name, h := range map[string]http.Handler{"before": old, "after": now} {
			expect.Equal(t, try.Admitted(h, 2, try.Client, "/"), 1, "%s: admitted", name)
			for _, other := range []string{"192.0.2.1:4000", "192.0.2.2:4000", "192.0.2.3:4000"} {
				try.Get(h, other, "/")
			}
		}
		was, is := try.Admitted(old, 1, try.Client, "/"), try.Admitted(now, 1, try.Client, "/")
		expect.True(t, was == 1 && is == 0, "then admitted %d before, want 1; %d after, want 0", was, is)
	})
}

func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := quota(t, 100, throttled.RateQuota{MaxRate: throttled.PerHour(1)})
		expect.Equal(t, try.Admitted(old, 1, "[2001:db8::1]:4000", "/")+try.Admitted(old, 1, "[2001:db8::2]:4000", "/"), 2, "before: admitted of two addresses of a network")
		now := try.Limited(core.PerHour(1))
		expect.Equal(t, try.Admitted(now, 1, "[2001:db8::1]:4000", "/")+try.Admitted(now, 1, "[2001:db8::2]:4000", "/"), 1, "after: admitted of two addresses of a network")
	})
}
