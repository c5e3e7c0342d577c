package stdlib_test

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// fates are what can become of a request.
var fates = []struct {
	name  string
	limit core.Limit
	most  float64 // allocations that the limiter adds, headers and key included
}{
	{"allowed", core.PerSecond(1_000_000_000), 5},
	{"denied", core.PerHour(1), 6},
}

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }

// serving returns what serves a request by IP, the first of which a limit of 1 has admitted.
func serving(l core.Limit) func() {
	limiter := core.Must(core.New([]core.Rule{l.By(keyfunc.RemoteIP)}))
	h := stdlib.New(limiter)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "203.0.113.9:4711"
	w := discard{make(http.Header)}
	serve := func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
	serve()
	return serve
}

func TestAllocations(t *testing.T) {
	for _, f := range fates {
		if got := testing.AllocsPerRun(1000, serving(f.limit)); got > f.most {
			t.Errorf("%s: %v allocations, want at most %v", f.name, got, f.most)
		}
	}
}

func BenchmarkServe(b *testing.B) {
	for _, f := range fates {
		b.Run(f.name, func(b *testing.B) {
			serve := serving(f.limit)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
}
