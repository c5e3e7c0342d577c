package stdlib_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/testpass"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// outcomes are a limit for each way in which a request can end.
var outcomes = []struct {
	name  string
	limit core.Limit
	final func(*http.Request, core.Outcome) int
	most  float64 // allocations that the limiter adds, headers and key included
}{
	{"allowed", core.PerSecond(1_000_000_000), nil, 4},
	{"denied", core.PerHour(1), nil, 5},
	{"held", core.PerSecond(1_000_000_000), core.Failures, 8},
}

// discard is a ResponseWriter that keeps nothing, with the methods of an HTTP/1 server's.
type discard struct{ header http.Header }

func (d discard) Header() http.Header                        { return d.header }
func (discard) WriteHeader(int)                              {}
func (discard) Write(p []byte) (int, error)                  { return len(p), nil }
func (discard) WriteString(s string) (int, error)            { return len(s), nil }
func (discard) ReadFrom(r io.Reader) (int64, error)          { return io.Copy(io.Discard, r) }
func (discard) Flush()                                       {}
func (discard) FlushError() error                            { return nil }
func (discard) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrHijacked }
func (discard) CloseNotify() <-chan bool                     { return nil }
func (discard) SetReadDeadline(time.Time) error              { return nil }
func (discard) SetWriteDeadline(time.Time) error             { return nil }
func (discard) EnableFullDuplex() error                      { return nil }

// serving returns a func that serves a request under a limit by IP. A limit of 1 has already admitted its first request.
func serving(l core.Limit, final func(*http.Request, core.Outcome) int) func() {
	rule := l.By(keyfunc.RemoteIP)
	rule.CostAfter = final
	h := stdlib.New(core.Must(core.New([]core.Rule{rule})))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
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
	for _, f := range outcomes {
		expect.AtMost(t, testpass.LeastAllocations(f.most, serving(f.limit, f.final)), f.most, "%s: allocations", f.name)
	}
}

// TestBytesOfAnAdmittedRequest does not run under the race detector, which prevents inlining.
func TestBytesOfAnAdmittedRequest(t *testing.T) {
	testpass.Sequential(t)
	for _, limit := range []string{"1000000000/s", "100/m"} {
		const n = 10_000
		serve := serving(core.MustParseLimits(limit)[0].WithBurst(1_000_000_000), nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			serve()
		}
		runtime.ReadMemStats(&after)
		bytes, objects := (after.TotalAlloc-before.TotalAlloc)/n, (after.Mallocs-before.Mallocs)/n
		expect.True(t, bytes <= 600 && objects <= 4, "%s: %d bytes in %d allocations, want at most 600 in 4", limit, bytes, objects)
	}
}
