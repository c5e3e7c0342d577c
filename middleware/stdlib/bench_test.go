package stdlib_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func guardedByIP() http.Handler {
	limiter := core.Must(core.New([]core.Rule{core.PerSecond(1_000_000).By(keyfunc.RemoteIP)}))
	return stdlib.New(limiter)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// TestAllocations bounds what the limiter adds to a request that it admits, headers and key included.
func TestAllocations(t *testing.T) {
	h, w, r := guardedByIP(), httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	h.ServeHTTP(w, r)
	if got := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); got > 5 {
		t.Errorf("%v allocations, want at most 5", got)
	}
}

func BenchmarkAllowed(b *testing.B) {
	h, w, r := guardedByIP(), httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
