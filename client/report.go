package client

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxStates bounds how many limits of one response are read.
const maxStates = 8

// A report holds what one response says about limits.
type report struct {
	status      int           // 0 if there was no response
	cached      bool          // the response was made for an earlier request: it says nothing about limits
	denied      bool          // a limit denied the request
	unavailable bool          // 503 with Retry-After
	hasRetry    bool          // there is a Retry-After
	retry       time.Duration // from now; 0 or less if the instant is past
	states      [maxStates]state
	n           int
}

// A state holds what a response says about one limit.
type state struct {
	name      budgetName
	limit     int64 // 0 if not said
	left      int64
	hasReset  bool
	wait      time.Duration // from now to Reset; 0 or less if the instant is past
	reset     int64         // Reset by the clock of the server, in seconds
	each      time.Duration // how long one request takes to be available again, by the policy
	otherUnit bool          // the limit counts something other than requests
}

// family is a convention for the names of fields.
type family uint8

const (
	xRateLimit family = iota
	rateLimit
	rateLimitFields // three fields
)

// read reads a response that was received now.
func (rep *report) read(resp *http.Response, now time.Time) {
	h := resp.Header
	rep.status = resp.StatusCode
	if rep.cached = isCached(h); rep.cached {
		return
	}
	denying := rep.status == http.StatusTooManyRequests || rep.status == http.StatusForbidden
	clock := serverClock{header: h, now: now}
	if denying || rep.status == http.StatusServiceUnavailable {
		rep.readRetryAfter(&clock)
	}
	rep.readFields(&clock, xRateLimit)
	rep.readFields(&clock, rateLimitFields)
	rep.readStructured(&clock)
	rep.denied = rep.status == http.StatusTooManyRequests ||
		rep.status == http.StatusForbidden && (rep.hasRetry || rep.usedUp())
	rep.unavailable = rep.status == http.StatusServiceUnavailable && rep.hasRetry
}

// isCached reports whether a response came from a cache, which did not ask the server again: whether it has a positive
// Age (RFC 9111, section 5.1).
func isCached(h http.Header) bool {
	lines := h["Age"]
	if len(lines) == 0 {
		return false
	}
	text, _, _ := strings.Cut(lines[0], ",")
	age, ok := parseSeconds(strings.TrimSpace(text))
	return ok && age > 0
}

// holdsKey reports whether all requests of the key must wait: the request was denied, but the response names no limit
// that is used up.
func (rep *report) holdsKey() bool {
	return rep.unavailable || rep.denied && !rep.usedUp()
}

func (rep *report) usedUp() bool {
	return slices.ContainsFunc(rep.states[:rep.n], func(s state) bool { return s.left == 0 })
}

// announced returns how long a denial asks to wait: the Retry-After or, without one, the longest reset of the limits
// that are used up.
func (rep *report) announced() (wait time.Duration) {
	if rep.hasRetry {
		return max(rep.retry, 0)
	}
	for _, s := range rep.states[:rep.n] {
		if s.left == 0 {
			wait = max(wait, s.wait)
		}
	}
	return wait
}

// resendable reports whether r may be sent again after this response.
func (rep *report) resendable(r *http.Request) bool {
	if !rep.unavailable {
		return rep.denied
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// readRetryAfter reads Retry-After, the longest if there are several.
func (rep *report) readRetryAfter(clock *serverClock) {
	for _, text := range clock.header["Retry-After"] {
		if wait, _, ok := clock.until(text); ok && (!rep.hasRetry || wait > rep.retry) {
			rep.hasRetry, rep.retry = true, wait
		}
	}
}

// add appends a state, if there is room.
func (rep *report) add(s state) {
	if rep.n < maxStates {
		rep.states[rep.n] = s
		rep.n++
	}
}
