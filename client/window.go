package client

import "time"

// A window is what is known of the renewal of a budget.
type window struct {
	renewed time.Time     // when Reset is, by the local clock
	reset   int64         // the same by the clock of the server, in seconds, when the window was first seen
	start   int64         // what remained then
	seen    uint64        // when that was, on the clock of the Transport
	each    time.Duration // what one request takes to come back, if the policy says so
	kind    kind
	last    time.Time // when the last request was sent while the window was paced
}

// kind tells windows from token buckets: while Remaining falls, Reset stays or moves. What has moved once is moving.
type kind uint8

const (
	unknown kind = iota
	fixed
	moving
)

// rounding is how many seconds the Reset of a window may move.
const rounding = 1

// learn compares s with what was known. The response came, at received, to a request that was sent at sent.
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
		return // of the window before
	case moved < -rounding || moved > rounding:
		w.kind = moving
	case w.kind == unknown && w.stays(s, limit):
		w.kind = fixed
	}
	w.renewed = now.Add(min(s.wait, longestPromise))
}

// server returns the time of the response by the clock of the server, in seconds.
func (s *state) server() int64 { return s.reset - int64(s.wait/time.Second) }

// stays reports whether the Reset of a bucket would have moved by now. If it says when all is back, it moves by the same for
// each request that is used.
func (w *window) stays(s *state, limit int64) bool {
	used := float64(limit - s.left)
	return used > 0 && float64(w.start-s.left)*s.wait.Seconds()/used > 2*rounding
}

// pace spreads the last fifth of a window. As long as it is not known whether it is one, the last fifth waits for the
// requests in flight to tell.
func (b *budget) pace(c *call, now time.Time) pause {
	if !b.paced(c, now) || b.kind == unknown && b.inFlight == 0 {
		return pause{}
	}
	if b.kind == unknown {
		return b.news(now)
	}
	if next := b.share(1, b.free()); now.Before(next) {
		return pause{wait: true, until: next, known: next}
	}
	return pause{}
}

// share returns when the nth request after the last may go, if so many remain.
func (w *window) share(n, remaining int64) time.Time {
	if w.last.IsZero() {
		return w.last
	}
	parts := max(remaining+1, n)
	return w.last.Add(w.renewed.Sub(w.last) / time.Duration(parts) * time.Duration(n))
}

func (b *budget) paced(c *call, now time.Time) bool {
	return !c.noPace && b.kind != moving && b.free() <= b.limit/5 && b.left(now) > max(time.Second, b.each)
}

// spreads reports whether b is a window that is being spread.
func (b *budget) spreads(c *call, now time.Time) bool { return b.kind == fixed && b.paced(c, now) }

// left returns what is left of the window. Within what one request takes to come back there is nothing to spread: that may
// be all that Reset says.
func (w *window) left(now time.Time) time.Duration { return w.renewed.Sub(now) }

// spread makes room after c, which is being sent.
func (b *budget) spread(c *call, now time.Time) {
	if b.spreads(c, now) {
		b.last = now
	}
}
