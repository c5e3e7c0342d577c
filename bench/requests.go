package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"

	"github.com/spillgate/spillgate/bench/peers"
)

// clients is how many addresses the rows about HTTP draw requests from: enough for the numbers in the headers to differ
// from response to response.
const clients = 200

// traffic serves requests of many clients with a handler that counts how often it ran.
type traffic struct {
	handler http.Handler
	clients []*http.Request
	order   []*http.Request
	next    int
	w       discard
	ran     int
}

// requests returns traffic of n clients to a router.
func requests(router peers.Router, n int) *traffic {
	t := &traffic{w: discard{header: make(http.Header)}}
	t.handler = router(func() { t.ran++ })
	for i := range n {
		r, _ := http.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = fmt.Sprintf("203.0.%d.%d:4711", 113+i/250, 1+i%250)
		t.clients = append(t.clients, r)
	}
	draw := rand.New(rand.NewPCG(1, 1))
	for range 16 * n {
		t.order = append(t.order, t.clients[draw.IntN(n)])
	}
	return t
}

// serve answers r. The header map is the same for all responses and begins empty.
func (t *traffic) serve(r *http.Request) {
	clear(t.w.header)
	t.handler.ServeHTTP(&t.w, r)
}

// exhaust makes each client use up a limit.
func (t *traffic) exhaust(rate int) {
	for _, r := range t.clients {
		for range rate {
			t.serve(r)
		}
	}
}

// loop serves the next n requests and returns how often the handler ran.
func (t *traffic) loop(n int) int {
	before := t.ran
	for range n {
		t.serve(t.order[t.next])
		if t.next++; t.next == len(t.order) {
			t.next = 0
		}
	}
	return t.ran - before
}

// take serves the first client's request as if it came from addr, and reports whether the handler ran.
func (t *traffic) take(addr string) bool {
	before := t.ran
	t.clients[0].RemoteAddr = addr
	t.serve(t.clients[0])
	return t.ran > before
}

// discard is a ResponseWriter that keeps nothing but the header and the status of the last response.
type discard struct {
	header http.Header
	status int
	body   int
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) WriteHeader(status int) { d.status = status }

func (d *discard) Write(p []byte) (int, error) {
	d.body += len(p)
	return len(p), nil
}
