// Package try sends requests to a handler, for the tests of docs/moving.
package try

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// Client is the address of most clients.
const Client = "203.0.113.9:4000"

// OK responds with 200.
var OK = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// Limited limits each address.
func Limited(limits ...core.Limit) http.Handler {
	return stdlib.New(core.Must(core.New([]core.Rule{{Key: keyfunc.RemoteIP, Limits: limits}})))(OK)
}

// Get sends a request from an address, "203.0.113.9:1234", or another RemoteAddr.
func Get(h http.Handler, from, path string, fields ...string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
	r.RemoteAddr = from
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	h.ServeHTTP(w, r)
	return w
}

// Admitted returns how many of n requests get 200.
func Admitted(h http.Handler, n int, from, path string, fields ...string) (admitted int) {
	for range n {
		if Get(h, from, path, fields...).Code == http.StatusOK {
			admitted++
		}
	}
	return admitted
}

// Wire returns the bytes of the response to a request: the status line, the header fields in order, and the body.
func Wire(t testing.TB, h http.Handler, from, path string, fields ...string) string {
	t.Helper()
	return string(must.Get(httputil.DumpResponse(Get(h, from, path, fields...).Result(), true))(t))
}

// SameBytes checks that two limiters admit the same of 200 requests, sent at uneven times up to most apart, and respond alike.
func SameBytes(t testing.TB, old, now http.Handler, most time.Duration, path string, fields ...string) {
	t.Helper()
	denied := 0
	for i := range 200 {
		time.Sleep(time.Duration(i*1237) * time.Millisecond % most)
		want, got := Wire(t, old, Client, path, fields...), Wire(t, now, Client, path, fields...)
		must.Equal(t, got, want, "request %d", i)
		if strings.HasPrefix(got, "HTTP/1.1 429 ") {
			denied++
		}
	}
	expect.True(t, denied >= 20 && denied <= 180, "%d of 200 denied, want some of both", denied)
}
