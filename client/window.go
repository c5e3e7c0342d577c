package client

import "time"

// A window holds when a budget is renewed, as far as responses have said.
type window struct {
	renewed time.Time     // the instant of Reset, by the local clock
	reset   int64         // Reset by the clock of the server, in seconds, when the window was first seen
	start   int64         // what remained when the window was first seen
	seen    uint64        // when the window was first seen, on the clock of the account
	each    time.Duration // how long one request takes to be available again; 0 if the policy does not say it
	kind    kind
	last    time.Time // when the last request was sent while the window was paced
}

// A kind distinguishes windows from token buckets: while Remaining falls, the Reset of a window is constant, and the
// Reset of a token bucket moves. A budget whose Reset has moved once remains a token bucket.
type kind uint8

const (
	unknown kind = iota
	fixed        // a window
	moving       // a token bucket
)

// longestPromise bounds how long a response can close a budget. After that, one request is sent as a trial.
const longestPromise = time.Hour

// rounding is how many seconds the Reset of a window may move.
const rounding = 1

// learn updates w from a state whose request was sent at sent, and whose response was received at received, on the clock of the
// account.
func (w *window) learn(s *state, limit int64, now time.Time, sent, received uint64) {
	w.each = s.each
	if !s.hasReset {
		return
	}
	moved := s.reset - w.reset
	switch {
	case !now.Before(w.renewed) || s.server() >= w.reset-rounding:
		w.reset, w.start, w.seen, w.last = s.reset, s.left, received, time.Time{}
	case moved < -rounding && sent < w.seen:
		return // the response is about the previous window
	case moved < -rounding || moved > rounding:
		w.kind = moving
	case w.kind == unknown && w.stays(s, limit):
		w.kind = fixed
	}
	w.renewed = now.Add(min(s.wait, longestPromise))
}

// server returns the time of the response by the clock of the server, in seconds.
func (s *state) server() int64 { return s.reset - int64(s.wait/time.Second) }

// stays reports whether the Reset of a token bucket would have moved by now, so that this is a window: each request
// moves the instant at which a bucket is full by the same time.
func (w *window) stays(s *state, limit int64) bool {
	used := float64(limit - s.left)
	return used > 0 && float64(w.start-s.left)*s.wait.Seconds()/used > 2*rounding
}

// pacedAt returns when the nth request after the last one may be sent, if so many remain.
func (w *window) pacedAt(n, remaining int64) time.Time {
	if w.last.IsZero() {
		return w.last
	}
	intervals := max(remaining+1, n)
	return w.last.Add(w.renewed.Sub(w.last) / time.Duration(intervals) * time.Duration(n))
}
