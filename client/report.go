package client

import (
	"crypto/sha256"
	"encoding/hex"
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
	own       bool          // it has a policy that is not for later limits of its name
}

// A budgetName identifies a budget of an account.
type budgetName struct {
	family family
	line   int8 // the index of the field line, where a field has one number per line; the index among limits of one name in RateLimit
	name   string
}

// family is a convention for the names of fields.
type family uint8

// maxName bounds the bytes in the name of a host, a path segment, a resource or a policy.
const maxName = 128

// shortName returns s or, if s is long, its hash: servers choose the names in their responses and, by redirects, hosts
// and paths.
func shortName(s string) string {
	if len(s) <= maxName {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

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

// readRetryAfter reads Retry-After, the longest if there are several.
func (rep *report) readRetryAfter(clock *serverClock) {
	for _, text := range clock.header["Retry-After"] {
		if wait, _, ok := clock.until(text); ok && (!rep.hasRetry || wait > rep.retry) {
			rep.hasRetry, rep.retry = true, wait
		}
	}
}

// fieldNames are the names of the fields, in canonical form, by family.
var fieldNames = [...]struct{ limit, remaining, reset, resource string }{
	xRateLimit:      {"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Resource"},
	rateLimitFields: {"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", ""},
}

// readFields reads the fields of a family that have one number per line. Each line is a limit: a proxy with its own
// limit adds a line to the lines of the server behind it.
func (rep *report) readFields(clock *serverClock, f family) {
	names := &fieldNames[f]
	for line, text := range clock.header[names.remaining] {
		left, ok := leadingInteger(text)
		if left < 0 {
			ok = rep.status == http.StatusTooManyRequests // elsewhere it may mean that there is no limit
		}
		if !ok {
			continue
		}
		s := state{left: max(left, 0)}
		s.name = budgetName{family: f, line: int8(min(line, maxStates)), name: lineOf(clock.header[names.resource], line)}
		if limit, ok := leadingInteger(lineOf(clock.header[names.limit], line)); ok {
			s.limit = max(limit, 0)
		}
		s.wait, s.reset, s.hasReset = clock.until(lineOf(clock.header[names.reset], line))
		rep.add(s)
	}
}

func lineOf(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// readStructured reads RateLimit, and RateLimit-Policy for the limits in it. A proxy and the server behind it may use one
// name: then the first policy is for the first limit of that name. The last one is for all that remain.
func (rep *report) readStructured(clock *serverClock) {
	first := rep.n
	for _, line := range clock.header["Ratelimit"] {
		rep.readRateLimit(line, clock)
	}
	if rep.n == first {
		return
	}
	for _, line := range clock.header["Ratelimit-Policy"] {
		list := parser{rest: line}
		for m := (member{}); list.next(&m); {
			own := true
			for i := first; i < rep.n; i++ {
				if s := &rep.states[i]; s.name.line >= 0 && s.name.name == m.name && !s.own {
					s.own, own = own, false
					s.readPolicy(&m)
				}
			}
		}
	}
}

// readRateLimit reads one line of RateLimit. One that cannot be parsed is ignored as a whole: RFC 9651, section 4.2.
func (rep *report) readRateLimit(line string, clock *serverClock) {
	start := rep.n
	var limit, left, reset number // of revision 07: limit=100, remaining=50, reset=30
	list := parser{rest: line}
	for m := (member{}); list.next(&m); {
		switch {
		case m.r.ok:
			rep.addStructured(budgetName{family: rateLimit, name: m.name}, number{}, m.r, m.t, clock)
		case m.name == "limit":
			limit = m.value
		case m.name == "remaining":
			left = m.value
		case m.name == "reset":
			reset = m.value
		}
	}
	if left.ok {
		rep.addStructured(budgetName{family: rateLimit, line: -1}, limit, left, reset, clock)
	}
	if list.failed {
		rep.n = start
	}
}

// addStructured adds a state whose reset is in seconds from now.
func (rep *report) addStructured(name budgetName, limit, left, reset number, clock *serverClock) {
	for _, s := range rep.states[:rep.n] {
		if s.name == name {
			name.line++
		}
	}
	s := state{name: name, limit: max(limit.n, 0), left: max(left.n, 0)}
	if reset.ok {
		s.wait, s.reset, s.hasReset = clock.in(reset.n)
	}
	rep.add(s)
}

// readPolicy adds limit, each and unit from a policy.
func (s *state) readPolicy(m *member) {
	if m.q.ok && m.q.n > 0 {
		s.limit = m.q.n
		if m.w.ok && m.w.n > 0 {
			each := (m.w.n + m.q.n - 1) / m.q.n // rounded up, as t is
			s.each = time.Duration(min(each, maxSeconds)) * time.Second
		}
	}
	s.otherUnit = m.unit != "" && m.unit != "requests"
}

// add appends a state, if there is room.
func (rep *report) add(s state) {
	if rep.n < maxStates {
		rep.states[rep.n] = s
		rep.n++
	}
}

const (
	xRateLimit family = iota
	rateLimit
	rateLimitFields // three fields
)

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
