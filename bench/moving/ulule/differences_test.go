// Package ulule checks what docs/moving/ulule-limiter.md says.
package ulule

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/keyfunc"
	stdlimit "github.com/spillgate/spillgate/middleware/stdlib"
)

func handlers(t *testing.T) (*redistest.Server, map[string]http.Handler) {
	s := redistest.Start(t)
	old := must.Get(before(s.Client(t), try.OK))(t)
	now := must.Get(after(s.Client(t), try.OK))(t)
	return s, map[string]http.Handler{"before": old, "after": now}
}

func TestBothAdmitTheSameNumber(t *testing.T) {
	_, hs := handlers(t)
	for name, h := range hs {
		if got := try.Admitted(h, 1100, "203.0.113.9:4000", "/"); got < 1000 || got > 1000 && name == "before" {
			t.Errorf("%s: admitted %d of 1100, want 1000", name, got) // the hour may turn in the meantime
		}
	}
}

// ulule/limiter counts each IPv6 address by itself, and has no Retry-After.
func TestDifferences(t *testing.T) {
	_, hs := handlers(t)
	try.Admitted(hs["before"], 1001, "[2001:db8::1]:4000", "/")
	if w := try.Get(hs["before"], "[2001:db8::1]:4000", "/"); w.Code != 429 || w.Header().Get("Retry-After") != "" {
		t.Errorf("before: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	expect.Equal(t, try.Get(hs["before"], "[2001:db8::2]:4000", "/").Code, 200, "before: another address of the network")
	var keys [2]string
	for i, from := range []string{"[2001:db8::1]:4000", "[2001:db8::2]:4000"} {
		keys[i], _ = keyfunc.RemoteIP(&http.Request{RemoteAddr: from})
	}
	expect.True(t, keys[0] != "" && keys[0] == keys[1], "after: got the keys %q, want one", keys)
}

func TestRedisIsDown(t *testing.T) {
	s, hs := handlers(t)
	s.Kill()
	expect.Fails(t, expect.PanicOf(func() { try.Get(hs["before"], "203.0.113.9:4000", "/") }), "before: the panic")
	expect.AtLeast(t, try.Admitted(hs["after"], 1100, "203.0.113.9:4000", "/"), 1000, "after: admitted of 1100 by the memory of the process")
	none := redis.NewClient(&redis.Options{Addr: redistest.FreeAddr(t), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer none.Close()
	expect.Fails(t, expect.ErrorOf(before(none, try.OK)), "before: made without a server")
	expect.NoError(t, expect.ErrorOf(after(none, try.OK)), "after")
}

// instant is when a window ends, in seconds since 1970.
var instant = regexp.MustCompile(`: \d{9,10}\r`)

// The windows of both end at other instants. All else is equal. No deadline passes in the bubble while Redis decides.
func TestSameBytes(t *testing.T) {
	server := redistest.Start(t)
	if d := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)); d < time.Minute {
		t.Skip("the hour turns within a minute, and with it the windows")
	}
	synctest.Test(t, func(t *testing.T) {
		old := must.Get(before(server.Client(t), try.OK))(t)
		now := must.Get(same(server.Client(t), try.OK))(t)
		wire := func(h http.Handler) string {
			return instant.ReplaceAllString(try.Wire(t, h, "203.0.113.9:4000", "/"), ": an instant\r")
		}
		for i := range 1010 {
			want, got := wire(old), wire(now)
			must.True(t, got == want && strings.Count(got, "an instant") == 1 && strings.HasPrefix(got, "HTTP/1.1 429 ") == (i >= 1000),
				"request %d:\n%s\nwant\n%s", i, got, want)
		}
	})
}

func TestZeroAndFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStoreWithOptions(limiter.StoreOptions{Prefix: "p", CleanUpInterval: 0})
		own := func(r limiter.Rate) http.Handler { return stdlib.NewMiddleware(limiter.New(store, r)).Handler(try.OK) }
		limited := func(l core.Limit) http.Handler {
			return stdlimit.New(core.Must(core.New([]core.Rule{l.By(keyfunc.RemoteIP)})))(try.OK)
		}
		none := must.Get(limiter.NewRateFromFormatted("0-H"))(t)
		for i, test := range []struct {
			h    http.Handler
			want int
		}{
			{own(none), 0},
			{own(limiter.Rate{Limit: 10, Period: 3 * time.Second}), 10},
			{limited(core.PerHour(0)), 0},
			{limited(core.Every(10, 3*time.Second).Using(core.FixedWindow)), 10},
			{limited(core.MustParseLimits("10/3s;fixed-window")[0]), 10},
		} {
			from := "203.0.113." + string(rune('1'+i)) + ":4000"
			expect.Equal(t, try.Admitted(test.h, 20, from, "/"), test.want, "%d: admitted of 20", i)
		}
	})
	expect.Fails(t, expect.ErrorOf(limiter.NewRateFromFormatted("10-3S")), "10-3S")
}
