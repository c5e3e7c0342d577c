package headers_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// example is a decision at noon: 40 of 100 per minute are used.
var example = core.Decision{
	Allowed: true,
	At:      time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
	Results: []core.Result{{
		Rule: "api", Limit: core.PerMinute(100), Allowed: true,
		Remaining: 60, RefillAfter: 600 * time.Millisecond, ResetAfter: 24 * time.Second,
	}},
}

func ExampleGitHub() {
	h := http.Header{}
	headers.GitHub(h, example)
	for _, name := range headers.Expose[:5] {
		fmt.Printf("%s: %s\n", name, h.Get(name))
	}
	// Output:
	// X-RateLimit-Limit: 100
	// X-RateLimit-Remaining: 60
	// X-RateLimit-Used: 40
	// X-RateLimit-Reset: 1767268824
	// X-RateLimit-Resource: api
}

func ExampleIETF() {
	h := http.Header{}
	headers.IETF(h, example)
	fmt.Println(h.Get("RateLimit-Policy"))
	fmt.Println(h.Get("RateLimit"))
	// Output:
	// "api";q=100;w=60
	// "api";r=60;t=1
}

func ExampleCustom() {
	h := http.Header{}
	headers.Custom{Prefix: "X-App", Reset: headers.RFC3339}.Write(h, example)
	fmt.Println(h.Get("X-App-Remaining"), "of", h.Get("X-App-Limit"), "until", h.Get("X-App-Reset"))
	// Output: 60 of 100 until 2026-01-01T12:00:24Z
}

func ExampleJoin() {
	h := http.Header{}
	headers.Join(headers.GitHub, headers.IETF)(h, example)
	fmt.Println(h.Get("X-RateLimit-Remaining"), h.Get("RateLimit"))
	// Output: 60 "api";r=60;t=1
}

func ExampleRetryAfter() {
	h := http.Header{}
	headers.RetryAfter(h, example)
	fmt.Println(len(h), "fields if the request is admitted")

	d := example
	d.Allowed = false
	d.Results = []core.Result{{Rule: "api", Limit: core.PerMinute(100), RetryAfter: 12 * time.Second}}
	headers.RetryAfter(h, d)
	fmt.Println(h)
	// Output:
	// 0 fields if the request is admitted
	// map[Retry-After:[12]]
}

func ExampleNone() {
	h := http.Header{}
	headers.None(h, example)
	fmt.Println(len(h))
	// Output: 0
}

func ExampleViolated() {
	d := example
	d.Allowed = false
	d.Results = []core.Result{{Rule: "login", Limit: core.PerMinute(5), RetryAfter: 12 * time.Second}}
	fmt.Println(headers.Violated(d))
	// Output: [login]
}

func ExampleCustom_Write() {
	write := headers.Custom{Prefix: "X-App", Reset: headers.DeltaSeconds}.Write
	h := make(http.Header)
	write(h, core.Decision{Allowed: true, Results: []core.Result{{Limit: core.PerMinute(60), Allowed: true, Remaining: 59}}})
	fmt.Println(h.Get("X-App-Limit"), h.Get("X-App-Remaining"), h.Get("X-App-Reset"))
	// Output: 60 59 0
}
