// Package expressratelimit checks what docs/moving/express-rate-limit.md says. What it says about express-rate-limit was
// recorded from version 8.7.4 with Express 5.3, on a server with { windowMs: 15 * 60 * 1000, limit: 2 }.
package expressratelimit

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/bench/moving/internal/try"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// recorded are the fields that express-rate-limit sent, in alphabetical order, for two admitted requests and a denied one. The
// recorded window ended at 1795421020.
var recorded = map[string]struct {
	fields headers.Writer
	want   [3]string
}{
	"legacyHeaders": {legacy, [3]string{
		"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1795421020\n",
		"X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795421020\n",
		"Retry-After: 900\nX-RateLimit-Limit: 2\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1795421020\n",
	}},
	"draft-6": {draft6, [3]string{
		"RateLimit-Limit: 2\nRateLimit-Policy: 2;w=900\nRateLimit-Remaining: 1\nRateLimit-Reset: 900\n",
		"RateLimit-Limit: 2\nRateLimit-Policy: 2;w=900\nRateLimit-Remaining: 0\nRateLimit-Reset: 900\n",
		"RateLimit-Limit: 2\nRateLimit-Policy: 2;w=900\nRateLimit-Remaining: 0\nRateLimit-Reset: 900\nRetry-After: 900\n",
	}},
	"draft-7": {draft7, [3]string{
		"RateLimit: limit=2, remaining=1, reset=900\nRateLimit-Policy: 2;w=900\n",
		"RateLimit: limit=2, remaining=0, reset=900\nRateLimit-Policy: 2;w=900\n",
		"RateLimit: limit=2, remaining=0, reset=900\nRateLimit-Policy: 2;w=900\nRetry-After: 900\n",
	}},
}

const (
	admitted = "HTTP/1.1 200 OK\nConnection: close\nContent-Type: text/html; charset=utf-8\n"
	denied   = "HTTP/1.1 429 Too Many Requests\nConnection: close\nContent-Type: text/html; charset=utf-8\n"
)

// Spillgate's windows follow the clock, but in this test a window begins with the first request, as every window does in
// Express. Then the bytes are equal, except for the letter case of field names.
func TestSameBytes(t *testing.T) {
	for name, test := range recorded {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := core.Every(2, 15*time.Minute).Using(core.FixedWindow)
				ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					_, _ = io.WriteString(w, "ok")
				})
				h := same(core.Must(core.New([]core.Rule{limit.By(keyfunc.RemoteIP)})), test.fields, ok)
				for i, fields := range test.want {
					want := admitted + fields + "\nok"
					if i == 2 {
						want = denied + fields + "\nToo many requests, please try again later."
					}
					want = strings.NewReplacer("1795421020", "946685700", "RateLimit", "Ratelimit", "\n", "\r\n").Replace(want)
					expect.Equal(t, try.Wire(t, h, try.Client, "/"), want, "request %d", i)
				}
			})
		})
	}
}

func TestItAdmitsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := must.Get(after(try.OK))(t)
		for range 2 {
			expect.Equal(t, try.Admitted(h, 150, "10.0.0.7:4000", "/", "X-Forwarded-For", "192.0.2.1, 198.51.100.7"), 100, "admitted of 150")
			time.Sleep(15 * time.Minute)
		}
	})
}

// Each setting of trust proxy, an X-Forwarded-For sent by the peer 127.0.0.1, and the key by which express-rate-limit counted
// the request.
func TestTrustProxy(t *testing.T) {
	for name, test := range map[string]struct {
		key             core.KeyFunc
		forwarded, want string
	}{
		"false":             {keyfunc.RemoteIP, "192.0.2.1, 198.51.100.7", "ip:127.0.0.1"},
		"1":                 {keyfunc.ClientIP{Hops: 1, IPv6Bits: 56}.Key, "192.0.2.1, 198.51.100.7", "ip:198.51.100.7"},
		"2":                 {keyfunc.ClientIP{Hops: 2, IPv6Bits: 56}.Key, "192.0.2.1, 198.51.100.7", "ip:192.0.2.1"},
		"1, IPv6":           {keyfunc.ClientIP{Hops: 1, IPv6Bits: 56}.Key, "2001:db8:1:2ff::1", "ip:2001:db8:1:200::/56"},
		"1, but no address": {keyfunc.ClientIP{Hops: 1}.Key, "192.0.2.1, garbage", "ip:unresolved:127.0.0.1"},
		"1, but no field":   {keyfunc.ClientIP{Hops: 1}.Key, "", "ip:unresolved:127.0.0.1"},
	} {
		r := &http.Request{RemoteAddr: "127.0.0.1:4000", Header: http.Header{}}
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		got, err := test.key(r)
		expect.True(t, got == test.want && err == nil, "trust proxy %s: %s, %v, want %s", name, got, err, test.want)
	}
}

// express-rate-limit responded to four requests, with limit: 1, like this.
func TestSkippedResults(t *testing.T) {
	successes := func(_ *http.Request, o core.Outcome) int {
		if o.Err != nil || o.Status >= 400 {
			return 0
		}
		return o.Cost
	}
	for name, test := range map[string]struct {
		final  func(*http.Request, core.Outcome) int
		status int
		want   [4]int
	}{
		"skipSuccessfulRequests, 200": {core.Failures, 200, [4]int{200, 200, 200, 200}},
		"skipSuccessfulRequests, 401": {core.Failures, 401, [4]int{401, 429, 429, 429}},
		"skipFailedRequests, 401":     {successes, 401, [4]int{401, 401, 401, 401}},
		"skipFailedRequests, 200":     {successes, 200, [4]int{200, 429, 429, 429}},
	} {
		synctest.Test(t, func(t *testing.T) {
			rule := core.PerMinute(1).Using(core.FixedWindow).By(keyfunc.RemoteIP)
			rule.CostAfter = test.final
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.status) })
			h := stdlib.New(core.Must(core.New([]core.Rule{rule})))(next)
			for i, want := range test.want {
				expect.Equal(t, try.Get(h, try.Client, "/").Code, want, "%s: request %d", name, i)
			}
		})
	}
}

func TestZeroAndFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for limit, want := range map[core.Limit]int{core.PerMinute(0): 0, core.Every(10, 3*time.Second): 10} {
			expect.Equal(t, try.Admitted(try.Limited(limit.Using(core.FixedWindow)), 20, try.Client, "/"), want, "%v: admitted of 20", limit)
		}
	})
}
