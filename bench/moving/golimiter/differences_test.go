// Package golimiter checks what docs/moving/go-limiter.md says.
package golimiter

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
)

// storeOf returns a store of go-limiter. It has a goroutine and reads the clock of the machine, so no test here is in a bubble.
func storeOf(t *testing.T, c memorystore.Config) limiter.Store {
	store := must.Get(memorystore.New(&c))(t)
	t.Cleanup(func() { _ = store.Close(t.Context()) })
	return store
}

// hourly limits each address to n requests per hour, which is longer than any test takes.
func hourly(t *testing.T, n uint64, key httplimit.KeyFunc) http.Handler {
	m := must.Get(httplimit.NewMiddleware(storeOf(t, memorystore.Config{Tokens: n, Interval: time.Hour}), key))(t)
	return m.Handle(try.OK)
}

func TestBothAdmitTheSameNumber(t *testing.T) {
	old := must.Get(before(try.OK))(t)
	expect.Equal(t, try.Admitted(old, 15, try.Client, "/"), 15, "before: admitted of 15")
	synctest.Test(t, func(t *testing.T) {
		now := must.Get(after(try.OK))(t)
		for range 2 { // minutes
			expect.Equal(t, try.Admitted(now, 20, try.Client, "/"), 15, "after: admitted of 20")
			time.Sleep(time.Minute)
		}
	})
}

// instant is a date in the form that go-limiter writes.
var instant = regexp.MustCompile(`: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d UTC\r`)

// The windows of both end at other instants. All else is equal.
func TestSameBytes(t *testing.T) {
	old := hourly(t, 15, httplimit.IPKeyFunc())
	wire := func(h http.Handler, from string) string {
		return instant.ReplaceAllString(try.Wire(t, h, from, "/"), ": an instant\r")
	}
	var want []string
	for range 17 {
		want = append(want, wire(old, try.Client))
	}
	want = append(want, wire(old, "nobody"))
	if last := want[16]; !strings.HasPrefix(last, "HTTP/1.1 429 ") || strings.Count(last, "an instant") != 2 {
		t.Fatalf("got\n%s\nwant 429 and two instants", last)
	}
	synctest.Test(t, func(t *testing.T) {
		now := must.Get(same(try.OK))(t)
		time.Sleep(20 * time.Second)
		for i := range want[:17] {
			expect.Equal(t, wire(now, try.Client), want[i], "request %d", i)
		}
		expect.Equal(t, wire(now, "nobody"), want[17], "no address")
		expect.Equal(t, try.Get(now, try.Client, "/").Header().Get("Retry-After"), "Sat, 01 Jan 2000 00:01:00 UTC", "Retry-After (the end of the minute)")
	})
}

func TestZero(t *testing.T) {
	store := storeOf(t, memorystore.Config{Interval: time.Hour})
	tokens, _, _, ok, err := store.Take(t.Context(), "k")
	expect.True(t, tokens == 1 && ok && err == nil, "Tokens: 0: got %d, %v, %v, want 1", tokens, ok, err)
	_ = store.Set(t.Context(), "k", 0, time.Hour)
	_, _, _, ok, _ = store.Take(t.Context(), "k")
	expect.True(t, !ok, "Set(0): allowed")
	expect.Equal(t, try.Admitted(try.Limited(core.PerHour(0)), 5, try.Client, "/"), 0, "core.PerHour(0): admitted")
	expect.Fails(t, expect.ErrorOf(core.New([]core.Rule{core.Every(5, 0).By(keyfunc.RemoteIP)})), "core.Every(5, 0)")
}

func TestFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := try.Limited(core.Every(10, 3*time.Second).Using(core.FixedWindow))
		for range 2 {
			expect.Equal(t, try.Admitted(now, 20, try.Client, "/"), 10, "admitted of 20")
			time.Sleep(3 * time.Second)
		}
	})
}

// A header is the key, whatever a client writes into it.
func TestForgedAddress(t *testing.T) {
	old := hourly(t, 1, httplimit.IPKeyFunc("X-Forwarded-For"))
	for _, forged := range []string{"192.0.2.1", "192.0.2.2", "anything"} {
		expect.Equal(t, try.Get(old, try.Client, "/", "X-Forwarded-For", forged).Code, 200, "before: %s", forged)
	}
	old = hourly(t, 1, httplimit.IPKeyFunc())
	expect.Equal(t, try.Admitted(old, 1, "[2001:db8::1]:4000", "/")+try.Admitted(old, 1, "[2001:db8::2]:4000", "/"), 2, "before: admitted of two addresses of a network")
}

// After its Close, a store of go-limiter decides nothing.
func TestClose(t *testing.T) {
	store := storeOf(t, memorystore.Config{Tokens: 5})
	_ = store.Close(t.Context())
	_, _, _, ok, err := store.Take(t.Context(), "k")
	expect.True(t, !ok && err != nil, "after Close: %v, %v", ok, err)
}
