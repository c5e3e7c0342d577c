package client_test

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/client"
)

// free is a Base that responds at once, as GitHub does when many requests are left.
func free() roundTrip {
	header := http.Header{
		"Date":                  {"Sat, 01 Jan 2000 00:00:00 GMT"},
		"X-Ratelimit-Limit":     {"5000"},
		"X-Ratelimit-Remaining": {"4990"},
		"X-Ratelimit-Used":      {"10"},
		"X-Ratelimit-Reset":     {"946688400"},
		"X-Ratelimit-Resource":  {"core"},
	}
	resp := &http.Response{StatusCode: 200, Header: header, Body: http.NoBody}
	return func(*http.Request) (*http.Response, error) { return resp, nil }
}

// authorized returns a request such as a program sends.
func authorized(t testing.TB) *http.Request {
	r := request(t, "https://api.github.com/repos/golang/go/issues")
	r.Header.Set("Authorization", "Bearer ghp_0123456789012345678901234567890123456789")
	return r
}

// BenchmarkNoWait measures what a Transport adds to a request that need not wait.
func BenchmarkNoWait(b *testing.B) {
	for _, row := range []struct {
		name string
		rt   http.RoundTripper
	}{{"Base alone", free()}, {"Transport", &client.Transport{Base: free()}}} {
		b.Run(row.name, func(b *testing.B) {
			r := authorized(b)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = row.rt.RoundTrip(r)
			}
		})
	}
}

// TestAllocations checks what a Transport allocates for a request that need not wait.
func TestAllocations(t *testing.T) {
	tr := &client.Transport{Base: free()}
	r := authorized(t)
	if n := testing.AllocsPerRun(1000, func() { _, _ = tr.RoundTrip(r) }); n > 2 {
		t.Errorf("%v allocations, want 2 at most", n)
	}
}
