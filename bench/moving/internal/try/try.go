// Package try sends requests to a handler, for the tests of docs/moving.
package try

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
)

// OK responds with 200.
var OK = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

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
	wire, err := httputil.DumpResponse(Get(h, from, path, fields...).Result(), true)
	if err != nil {
		t.Fatal(err)
	}
	return string(wire)
}
