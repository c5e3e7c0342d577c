package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// replied is a reply with these header values. An empty value leaves the header out.
func replied(status int, remaining, retryAfter string) reply {
	h := http.Header{}
	if remaining != "" {
		h.Set("X-RateLimit-Limit", "2")
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Reset", "1772366405")
	}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return reply{status: status, header: h, at: noon}
}

func TestCheck(t *testing.T) {
	limits := core.MustParseLimits("2/10s")
	admitted, denied := replied(200, "1", ""), replied(429, "0", "5")
	later := func(r reply) *reply { return &r }
	good := func() visit {
		return visit{router: "chi", replies: []reply{admitted, admitted, denied}, later: later(admitted)}
	}
	for _, tt := range []struct {
		why    string
		change func(*visit)
		limits string // if not 2/10s
		shared bool
		want   string // in the error; empty if no error is expected
	}{
		{why: "correct", change: func(*visit) {}},
		{why: "a request failed", change: func(v *visit) { v.err = errors.New("connection reset") }, want: "chi: connection reset"},
		{why: "no key", change: func(v *visit) { v.replies = []reply{replied(400, "", "")} }, want: "request 1 was answered 400 Bad Request"},
		{why: "denied too early", change: func(v *visit) { v.replies = v.replies[1:] }, want: "it denied request 2, but 2/10s admits 2"},
		{why: "denied early because of other processes", change: func(v *visit) { v.replies = v.replies[2:] }, shared: true},
		{why: "denied too late", change: func(v *visit) { v.replies = append([]reply{admitted}, v.replies...) }, want: "it admitted 3 requests"},
		{why: "one more because time passed", change: func(v *visit) {
			v.replies, v.sending = append([]reply{admitted}, v.replies...), 5*time.Second
		}},
		{why: "no headers", change: func(v *visit) { v.replies[1] = replied(200, "", "") }, want: "reply 2 lacks rate limit headers"},
		{why: "a denial with something left", change: func(v *visit) { v.replies[2] = replied(429, "1", "5") }, want: "the denial shows 1 remaining"},
		{why: "no wait announced", change: func(v *visit) { v.replies[2] = replied(429, "0", "") }, want: `Retry-After is "", want whole seconds`},
		{why: "a wait of 0 is a hot loop", change: func(v *visit) { v.replies[2] = replied(429, "0", "0") }, want: `Retry-After is "0"`},
		{why: "a wait in fractions", change: func(v *visit) { v.replies[2] = replied(429, "0", "4.5") }, want: `Retry-After is "4.5"`},
		{why: "two waits", change: func(v *visit) {
			v.replies[2] = replied(429, "0", "5")
			v.replies[2].header.Add("Retry-After", "6")
		}, want: "Retry-After"},
		{why: "denied after the wait", change: func(v *visit) { v.later = later(denied) }, want: "after the announced wait of 5s was answered 429"},
		{why: "another process got the request", change: func(v *visit) { v.later = later(denied) }, shared: true},
		{why: "broken after the wait", change: func(v *visit) { v.later = later(replied(500, "", "")) }, shared: true, want: "was answered 500"},
		{why: "a wait that is too long to observe", change: func(v *visit) { v.later = nil }},
		{why: "nothing is ever admitted", limits: "0/1s", change: func(v *visit) {
			v.replies, v.later = []reply{replied(429, "0", "")}, nil
		}},
		{why: "nothing is ever admitted, but a wait is announced", limits: "0/1s", change: func(v *visit) {
			v.replies, v.later = []reply{denied}, nil
		}, want: `it never admits a request, but announces Retry-After "5"`},
	} {
		v, limits := good(), limits
		if tt.limits != "" {
			limits = core.MustParseLimits(tt.limits)
		}
		tt.change(&v)
		err := check([]visit{v}, limits, tt.shared)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.why, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want %q", tt.why, err, tt.want)
		}
	}
}

func TestCheckReportsAll(t *testing.T) {
	broken := errors.New("connection reset")
	err := check([]visit{{router: "chi", err: broken}, {router: "gin", err: broken}}, nil, false)
	if err == nil || err.Error() != "chi: connection reset\ngin: connection reset" {
		t.Errorf("error %v", err)
	}
}

func TestAdmissible(t *testing.T) {
	for _, tt := range []struct {
		limits      string
		span        time.Duration
		least, most int
	}{
		{"10/1s", 0, 10, 10},
		{"10/1s", 199 * time.Millisecond, 10, 11},        // refilled continuously
		{"10/1s;burst=3", 200 * time.Millisecond, 3, 5},  // from the burst
		{"10/1s;fixed-window", time.Millisecond, 10, 20}, // around the start of a window
		{"10/1s;fixed-window", 1001 * time.Millisecond, 10, 30},
		{"10/1s;sliding-window", 999 * time.Millisecond, 10, 10},
		{"10/1s;sliding-log", time.Second, 10, 20},
		{"10/1s, 4/1m;sliding-log", 3 * time.Second, 4, 4}, // all limits apply
	} {
		if least, most := admissible(core.MustParseLimits(tt.limits), tt.span); least != tt.least || most != tt.most {
			t.Errorf("%s within %v: %d to %d, want %d to %d", tt.limits, tt.span, least, most, tt.least, tt.most)
		}
	}
}
