package client

import (
	"testing"
	"time"
)

// A sighting is a response with the state of a window: sent and received are on the clock of the account, at and
// reset in seconds.
type sighting struct {
	sent, received uint64
	at             int
	left, reset    int64
}

// learned returns a window after these responses, each with a limit of 100.
func learned(responses ...sighting) *window {
	w := &window{}
	for _, r := range responses {
		s := state{left: r.left, hasReset: true, reset: r.reset, wait: time.Duration(r.reset-int64(r.at)) * time.Second}
		w.learn(&s, 100, at(r.at), r.sent, r.received)
	}
	return w
}

// TestWindowOrBucket checks which responses mean a window, whose Reset stays, and which a bucket, whose Reset moves.
func TestWindowOrBucket(t *testing.T) {
	for _, row := range []struct {
		name string
		want kind
		seen []sighting
	}{
		{"one response does not tell", unknown, []sighting{{1, 2, 1000, 99, 1060}}},
		{"Reset stays while Remaining falls", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1060}}},
		{"the second was sent before the first response", fixed, []sighting{{1, 3, 1000, 99, 1060}, {2, 4, 1001, 98, 1060}}},
		{"it stays within rounding", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1061}}},
		{"it moves", moving, []sighting{{1, 2, 1000, 90, 1006}, {3, 4, 1000, 80, 1012}}},
		{"it moves back, by a request that was sent later", moving, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1000, 98, 1050}}},
		{"a bucket has not moved far enough yet", unknown, []sighting{{1, 2, 1000, 6, 1057}, {3, 4, 1000, 5, 1057}, {5, 6, 1000, 4, 1058}}},
		{"a late response of the window before", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1060}, {6, 7, 1061, 99, 1120}, {5, 8, 1058, 90, 1060}}},
		{"the next window begins within the last second", fixed, []sighting{{1, 2, 1000, 99, 1060}, {3, 4, 1001, 98, 1060}, {5, 6, 1059, 99, 1120}}},
		{"a Reset that moved once stays moving", moving, []sighting{{1, 2, 1000, 90, 1006}, {3, 4, 1000, 80, 1012}, {5, 6, 1100, 99, 1160}, {7, 8, 1100, 90, 1160}}},
	} {
		if w := learned(row.seen...); w.kind != row.want {
			t.Errorf("%s: kind %d, want %d", row.name, w.kind, row.want)
		}
	}
}

// TestWindowsThatAreNotPaced checks the windows whose requests are sent without pacing.
func TestWindowsThatAreNotPaced(t *testing.T) {
	year := sighting{3, 4, 1000, 15, 1000 + 365*86400}
	if w := learned(sighting{1, 2, 1000, 16, year.reset}, year); w.renewed.After(at(1000).Add(time.Hour)) {
		t.Errorf("paced until %v: more than an hour", w.renewed)
	}
	for _, row := range []struct {
		name string
		each time.Duration
		left int64
		end  int // of the window
		kind kind
		want bool
	}{
		{"the last fifth", 0, 20, 1060, fixed, true},
		{"more than a fifth", 0, 21, 1060, fixed, false},
		{"the last fifth of a bucket", 0, 20, 1060, moving, false},
		{"a second", 0, 20, 1001, fixed, false},
		{"what one request takes to come back", 60 * time.Second, 20, 1060, fixed, false},
		{"more than what one takes", 6 * time.Second, 20, 1060, fixed, true},
	} {
		b := &budget{counted: true, limit: 100, window: window{kind: row.kind, renewed: at(row.end), each: row.each, last: at(1000)}}
		b.low.add(row.left, 1, 2)
		if got := b.paced(&call{}, at(1000)); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
		if p := b.checkInTurn(&call{}, at(1000)); p.wait != row.want {
			t.Errorf("%s: right after a request %+v, want to wait: %v", row.name, p, row.want)
		}
	}
}
