package main

import (
	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/bench/peers"
)

// The names of the limiters that come with echo. echo v5's writes the limit, what remains and Retry-After.
const (
	echoOwn  = "echo's own, no headers"
	echo5Own = "echo's own, 3 headers"
)

func frameworkRows() []*row {
	added := row{
		name: "adapters, admitted", unit: perDecision, task: "The adapters within their frameworks, beside the frameworks alone.",
		open:   func(e *env, f *setup) error { return openHTTP(e, f, adapters(), large, admitted) },
		bounds: []bound{overhead("gin", 1.2), overhead("echo", 1.2), overhead("echo v5", 1.2)},
	}
	return []*row{
		frameworkRow("gin, admitted", ginLimiters(), large, admitted),
		frameworkRow("gin, denied", ginLimiters(), used, denied),
		frameworkRow("echo, admitted", echoLimiters(), large, admitted),
		frameworkRow("echo, denied", echoLimiters(), used, denied),
		frameworkRow("echo v5, admitted", echo5Limiters(), large, admitted),
		frameworkRow("echo v5, denied", echo5Limiters(), used, denied),
		&added,
	}
}

func frameworkRow(name string, all []served, l peers.Limit, want decision) *row {
	tasks := map[decision]string{
		admitted: "As over net/http, in the framework's own router.",
		denied:   "The answer is problem+json from Spillgate; echo's own answers in JSON, ulule in a line of text.",
	}
	return &row{
		name: name, unit: perDecision, task: tasks[want], since: since{spillgate, 1.08},
		open: func(e *env, f *setup) error { return openHTTP(e, f, all, l, want) },
	}
}

func ginLimiters() []served {
	return []served{{spillgate, ours, inGin(peers.SpillgateGin)}, {"ulule", peer, inGin(peers.UluleGin)}}
}

func echoLimiters() []served {
	return []served{
		{spillgate, ours, inEcho(peers.SpillgateEcho)},
		{echoOwn, peer, inEcho(peers.EchoOwn)},
		{"ulule, wrapped", peer, inEcho(peers.UluleEcho)},
	}
}

func echo5Limiters() []served {
	return []served{
		{spillgate, ours, inEcho5(peers.SpillgateEcho5)},
		{echo5Own, peer, inEcho5(peers.Echo5Own)},
		{"ulule, wrapped", peer, inEcho5(peers.UluleEcho5)},
	}
}

// adapters lists all of ours, and the frameworks without any.
func adapters() []served {
	return []served{
		{"spillgate, net/http", ours, behind(peers.SpillgateHTTP)},
		{"spillgate, gin", ours, inGin(peers.SpillgateGin)},
		{"spillgate, echo", ours, inEcho(peers.SpillgateEcho)},
		{"spillgate, echo v5", ours, inEcho5(peers.SpillgateEcho5)},
		{"bare net/http", baseline, func(peers.Limit) peers.Router { return peers.NetHTTP(nil) }},
		{"bare gin", baseline, func(peers.Limit) peers.Router { return peers.Gin() }},
		{"bare echo", baseline, func(peers.Limit) peers.Router { return peers.EchoRouter() }},
		{"bare echo v5", baseline, func(peers.Limit) peers.Router { return peers.Echo5Router() }},
	}
}

func inGin(m func(peers.Limit) gin.HandlerFunc) func(peers.Limit) peers.Router {
	return func(l peers.Limit) peers.Router { return peers.Gin(m(l)) }
}

func inEcho(m func(peers.Limit) echo.MiddlewareFunc) func(peers.Limit) peers.Router {
	return func(l peers.Limit) peers.Router { return peers.EchoRouter(m(l)) }
}

func inEcho5(m func(peers.Limit) echo5.MiddlewareFunc) func(peers.Limit) peers.Router {
	return func(l peers.Limit) peers.Router { return peers.Echo5Router(m(l)) }
}
