package main

import (
	"net/http"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
)

// scarce is a limit that the first request of a loop uses up.
var scarce = peers.Limit{Rate: 1, Period: time.Hour}

func httpRows() []*row {
	return []*row{{
		name: "net/http, allowed", unit: perDecision,
		task:   "The middleware with its headers, by the address of the TCP peer. Spillgate passes its decision on in the context.",
		open:   func(e *env, f *field) error { return openHTTP(e, f, ample, admitted) },
		bounds: []bound{toBest(0.5), allocs(5)},
	}, {
		name: "net/http, denied", unit: perDecision,
		task:   "The same with the answer: problem+json from Spillgate, a line of text from the others.",
		open:   func(e *env, f *field) error { return openHTTP(e, f, scarce, denied) },
		bounds: []bound{toBest(0.6)},
	}}
}

func frameworkRows() []*row {
	return []*row{{
		name: "gin and echo, allowed", unit: perDecision, open: openFrameworks,
		task: "The adapters within their frameworks, beside the frameworks alone.",
		bounds: []bound{
			overhead("gin", 1.2), overhead("echo", 1.2), overhead("echo v5", 1.2),
		},
	}}
}

func openHTTP(e *env, f *field, l peers.Limit, want fate) error {
	add := func(m peers.Middleware, r role) {
		serve := requests(peers.NetHTTP(&m))
		if want == denied {
			serve(1)
		}
		f.add(m.Name, r, e.decisions(serve, want))
	}
	add(peers.SpillgateHTTP(l), ours)
	for _, open := range peers.OverHTTP {
		add(open(l), peer)
	}
	if want == admitted {
		f.add("bare net/http", floor, e.decisions(requests(peers.NetHTTP(nil)), want))
		add(peers.Context(), floor)
		add(peers.Fields(), floor)
	}
	return nil
}

func openFrameworks(e *env, f *field) error {
	own := peers.SpillgateHTTP(ample)
	for _, c := range []struct {
		name   string
		role   role
		router peers.Router
	}{
		{"spillgate, net/http", ours, peers.NetHTTP(&own)},
		{"spillgate, gin", ours, peers.Gin(peers.SpillgateGin(ample))},
		{"spillgate, echo", ours, peers.EchoRouter(peers.SpillgateEcho(ample))},
		{"spillgate, echo v5", ours, peers.Echo5Router(peers.SpillgateEcho5(ample))},
		{"ulule, gin", note, peers.Gin(peers.UluleGin(ample))},
		{"echo's own", note, peers.EchoRouter(peers.EchoOwn(ample))},
		{"bare net/http", floor, peers.NetHTTP(nil)},
		{"bare gin", floor, peers.Gin()},
		{"bare echo", floor, peers.EchoRouter()},
		{"bare echo v5", floor, peers.Echo5Router()},
	} {
		f.add(c.name, c.role, e.decisions(requests(c.router), admitted))
	}
	return nil
}

// requests returns a loop that serves the same request again and again, and counts how often the handler ran.
func requests(router peers.Router) loop {
	ran := 0
	h := router(func() { ran++ })
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "203.0.113.9:4711"
	w := &discard{header: make(http.Header)}
	return func(n int) int {
		before := ran
		for range n {
			clear(w.header)
			h.ServeHTTP(w, r)
		}
		return ran - before
	}
}

// discard is a ResponseWriter that keeps nothing but the header of the last response.
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
