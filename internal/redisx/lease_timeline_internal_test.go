package redisx

import (
	"testing"
	"time"
)

// A leaseStep is a step of a timeline of a lease of 100 ms. At 0 the first span begins.
type leaseStep struct {
	at   time.Duration
	do   string // "take", "put back", "credit", "end"
	n    int64  // how much
	sent time.Duration
	ok   bool // of a take
	left [2]uint32
	back backs
	want int64
}

const (
	leaseLength = int64(100 * time.Millisecond)
	ms          = time.Millisecond
)

// serverAt is the instant at which the store charges what was sent at d.
func serverAt(d time.Duration) int64 { return 1_000_000 + d.Microseconds() }

// leaseTimelines are timelines by what they show.
var leaseTimelines = map[string][]leaseStep{
	"the older portion is used first, and both together": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
		{at: 10 * ms, do: "take", n: 7, ok: true, left: [2]uint32{3, 0}, want: 7},
		{at: 20 * ms, do: "credit", n: 5, sent: 15 * ms, left: [2]uint32{3, 5}, want: 7},
		{at: 30 * ms, do: "take", n: 9, left: [2]uint32{3, 5}, want: 7},
		{at: 30 * ms, do: "take", n: 6, ok: true, left: [2]uint32{0, 2}, want: 13},
		{at: 31 * ms, do: "put back", left: [2]uint32{3, 5}, want: 7},
	},
	"a portion is used until one Lease after it was asked for": {
		{at: 20 * ms, do: "credit", n: 10, sent: 10 * ms, left: [2]uint32{10, 0}, want: 1},
		{at: 110*ms - 1, do: "take", n: 1, ok: true, left: [2]uint32{9, 0}, want: 1},
		{at: 110 * ms, do: "take", n: 1, back: backs{{serverAt(10 * ms), 9}}, want: 1},
	},
	"what was taken from a portion that has ended is given back": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
		{at: 99 * ms, do: "take", n: 4, ok: true, left: [2]uint32{6, 0}, want: 4},
		{at: 100 * ms, do: "put back", back: backs{{serverAt(0), 10}}, want: 4},
	},
	"a grant that is late is given back whole": {
		{at: 100 * ms, do: "credit", n: 10, back: backs{{serverAt(0), 10}}, want: 1},
	},
	"one just in time is not": {
		{at: 100*ms - 1, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
	},
	"a third portion replaces the oldest": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
		{at: 10 * ms, do: "credit", n: 20, sent: 10 * ms, left: [2]uint32{10, 20}, want: 1},
		{at: 20 * ms, do: "credit", n: 30, sent: 20 * ms, left: [2]uint32{20, 30}, back: backs{{serverAt(0), 10}}, want: 1},
	},
	"the end of a lease gives all back": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
		{at: 10 * ms, do: "credit", n: 20, sent: 10 * ms, left: [2]uint32{10, 20}, want: 1},
		{at: 20 * ms, do: "end", back: backs{{serverAt(0), 10}, {serverAt(10 * ms), 20}}, want: 1},
	},
	"what is wanted is what was used in the last Lease": {
		{at: 0, do: "credit", n: 100, left: [2]uint32{100, 0}, want: 1},
		{at: 50 * ms, do: "take", n: 30, ok: true, left: [2]uint32{70, 0}, want: 30},
		{at: 99 * ms, do: "take", n: 20, ok: true, left: [2]uint32{50, 0}, want: 50},
		{at: 99 * ms, do: "credit", n: 100, sent: 99 * ms, left: [2]uint32{50, 100}, want: 50},
		{at: 150 * ms, do: "take", n: 5, ok: true, left: [2]uint32{95, 0}, back: backs{{serverAt(0), 50}}, want: 50},
		{at: 200 * ms, do: "credit", n: 0, back: backs{{serverAt(0), 50}, {serverAt(99 * ms), 95}}, want: 5},
		{at: 300 * ms, do: "credit", n: 0, back: backs{{serverAt(0), 50}, {serverAt(99 * ms), 95}}, want: 1},
	},
	"what was used is remembered while nobody looks": {
		{at: 0, do: "credit", n: 100, left: [2]uint32{100, 0}, want: 1},
		{at: 99 * ms, do: "take", n: 60, ok: true, left: [2]uint32{40, 0}, want: 60},
		{at: 750 * ms, do: "take", n: 1, back: backs{{serverAt(0), 40}}, want: 60},
		{at: 850 * ms, do: "take", n: 1, back: backs{{serverAt(0), 40}}, want: 1},
	},
	"nothing is put back that was not taken": {
		{at: 0, do: "put back", want: 1},
	},
}

func TestLeaseTimelines(t *testing.T) {
	for name, steps := range leaseTimelines {
		t.Run(name, func(t *testing.T) { runLease(t, steps) })
	}
}

func runLease(t *testing.T, steps []leaseStep) {
	var l lease
	var last taken
	for i, s := range steps {
		now := int64(s.at)
		l.advance(now, leaseLength)
		switch s.do {
		case "take":
			took, ok := l.take(s.n)
			if last = took; ok != s.ok {
				t.Errorf("step %d: take of %d: %v", i+1, s.n, ok)
			}
		case "put back":
			l.putBack(last)
		case "credit":
			l.credit(now, serverAt(s.sent), int64(s.sent)+leaseLength, s.n)
		case "end":
			l.end()
		}
		var b backs
		if l.rare != nil {
			b = l.rare.unused
		}
		if l.left != s.left || b != s.back || l.want(0) != s.want {
			t.Errorf("step %d: left %v, to give back %v, wants %d; want %v, %v, %d", i+1, l.left, b, l.want(0), s.left, s.back, s.want)
		}
	}
}
