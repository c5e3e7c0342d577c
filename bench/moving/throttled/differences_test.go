// Package throttled checks what docs/moving/throttled.md says.
package throttled

import (
	"context"
	"errors"
	"net/http"
	"strings"
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

const client = "203.0.113.9:4000"

// handler returns what build builds around a handler that responds with 200.
func handler(t *testing.T, build func(http.Handler) (http.Handler, error)) http.Handler {
	h, err := build(try.OK)
	must.Do(t, err)
	return h
}

// quota returns a handler that limits each address, in a store of at most maxKeys.
func quota(t *testing.T, maxKeys int, q throttled.RateQuota) http.Handler {
	store, err := memstore.NewCtx(maxKeys)
	must.Do(t, err)
	limiter, err := throttled.NewGCRARateLimiterCtx(store, q)
	must.Do(t, err)
	h := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true}}
	return h.RateLimit(try.OK)
}

func limited(limit core.Limit) http.Handler {
	return stdlib.New(core.Must(core.New([]core.Rule{limit.By(keyfunc.RemoteIP)})))(try.OK)
}

// Some minutes of requests at uneven times: both have one algorithm, so all bytes are equal.
func TestSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, now := handler(t, before), handler(t, same)
		denied := 0
		for i := range 200 {
			time.Sleep(time.Duration(i*1237%5000) * time.Millisecond)
			want, got := try.Wire(t, old, client, "/"), try.Wire(t, now, client, "/")
			must.Equal(t, got, want, "request %d", i)
			if strings.HasPrefix(got, "HTTP/1.1 429 ") {
				denied++
			}
		}
		expect.True(t, denied >= 20 && denied <= 180, "%d of 200 denied, want some of both", denied)
		failing := throttled.HTTPRateLimiterCtx{RateLimiter: down{}}
		expect.Equal(t, try.Wire(t, now, "nobody", "/"), try.Wire(t, failing.RateLimit(try.OK), client, "/"), "an error")
	})
}

type down struct{}

func (down) RateLimitCtx(context.Context, string, int) (bool, throttled.RateLimitResult, error) {
	return false, throttled.RateLimitResult{}, errors.New("connection lost")
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := handler(t, after)
		expect.Equal(t, try.Admitted(now, 10, client, "/"), 6, "admitted of 10")
		w := try.Get(now, client, "/")
		expect.True(t, w.Code == 429 && w.Header().Get("Retry-After") == "3", "%d %v", w.Code, w.Header())
	})
}

func TestZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := quota(t, 100, throttled.RateQuota{MaxRate: throttled.PerMin(20)})
		expect.Equal(t, try.Admitted(one, 10, client, "/"), 1, "MaxBurst: 0: admitted")
		expect.Equal(t, try.Admitted(limited(core.PerMinute(20).WithBurst(1)), 10, client, "/"), 1, "WithBurst(1): admitted")
		expect.Equal(t, try.Admitted(limited(core.PerMinute(20).WithBurst(0)), 30, client, "/"), 20, "WithBurst(0): admitted")
		expect.Equal(t, try.Admitted(limited(core.PerMinute(0)), 30, client, "/"), 0, "PerMinute(0): admitted")
		expect.Fails(t, expect.PanicOf(func() { _ = throttled.PerMin(0) }), "the panic of throttled.PerMin(0)")
	})
}

func TestFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := quota(t, 100, throttled.RateQuota{MaxRate: throttled.PerDuration(10, 3*time.Second), MaxBurst: 9})
		now := limited(core.Every(10, 3*time.Second))
		for range 2 {
			was, is := try.Admitted(old, 20, client, "/"), try.Admitted(now, 20, client, "/")
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
			expect.Equal(t, try.Admitted(h, 2, client, "/"), 1, "%s: admitted", name)
			for _, other := range []string{"192.0.2.1:4000", "192.0.2.2:4000", "192.0.2.3:4000"} {
				try.Get(h, other, "/")
			}
		}
		was, is := try.Admitted(old, 1, client, "/"), try.Admitted(now, 1, client, "/")
		expect.True(t, was == 1 && is == 0, "then admitted %d before, want 1; %d after, want 0", was, is)
	})
}

func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := quota(t, 100, throttled.RateQuota{MaxRate: throttled.PerHour(1)})
		expect.Equal(t, try.Admitted(old, 1, "[2001:db8::1]:4000", "/")+try.Admitted(old, 1, "[2001:db8::2]:4000", "/"), 2, "before: admitted of two addresses of a network")
		now := limited(core.PerHour(1))
		expect.Equal(t, try.Admitted(now, 1, "[2001:db8::1]:4000", "/")+try.Admitted(now, 1, "[2001:db8::2]:4000", "/"), 1, "after: admitted of two addresses of a network")
	})
}
