package main

import (
	"time"

	"github.com/spillgate/spillgate/bench/peers"
)

// used is the limit of the rows about denials. Every client has used it up, and gets nothing back while a row runs.
var used = peers.Limit{Rate: 1000, Period: 100 * 24 * time.Hour}

// A served is a contestant of a row about HTTP: a router whose one route is behind a limit.
type served struct {
	name   string
	role   role
	router func(peers.Limit) peers.Router
}

func httpRows() []*row {
	return []*row{{
		name: "net/http, admitted", unit: perDecision,
		task: "A limit of ten digits for each of 200 addresses; the middleware writes its library's headers. Spillgate also passes " +
			"its decision on in the context.",
		open: func(e *env, f *setup) error {
			return openHTTP(e, f, append(netHTTP(), netHTTPBaselines()...), large, admitted)
		},
		bounds: []bound{toBest(1), allocs(5)}, since: since{spillgate, 1.08},
	}, {
		name: "net/http, denied", unit: perDecision,
		task:  "Each of 200 addresses has used up its 1,000. The answer is problem+json from Spillgate, a line of text from the others.",
		open:  func(e *env, f *setup) error { return openHTTP(e, f, netHTTP(), used, denied) },
		since: since{spillgate, 1.08},
	}}
}

func openHTTP(e *env, f *setup, all []served, l peers.Limit, want decision) error {
	for _, s := range all {
		serve := requests(s.router(l), e.scale(clients))
		if want == denied && s.role != baseline {
			serve.exhaust(l.Rate)
		}
		f.add(s.name, s.role, e.decisions(serve.loop, want))
	}
	return nil
}

// netHTTP lists the middlewares for net/http.
func netHTTP() []served {
	list := []served{{spillgate, ours, behind(peers.SpillgateHTTP)}}
	for _, open := range peers.OverHTTP {
		list = append(list, served{open(large).Name, peer, behind(open)})
	}
	return list
}

func netHTTPBaselines() []served {
	return []served{
		{"bare net/http", baseline, func(peers.Limit) peers.Router { return peers.NetHTTP(nil) }},
		{"context", baseline, behind(func(peers.Limit) peers.Middleware { return peers.Context() })},
		{"five fields", baseline, behind(func(peers.Limit) peers.Middleware { return peers.Fields() })},
	}
}

// behind returns a bare handler behind the middleware that open returns.
func behind(open func(peers.Limit) peers.Middleware) func(peers.Limit) peers.Router {
	return func(l peers.Limit) peers.Router {
		m := open(l)
		return peers.NetHTTP(&m)
	}
}
