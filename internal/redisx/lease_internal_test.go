package redisx

import (
	"testing"
	"time"
)

// A step of a timeline of a lease of 100 ms. At 0 the first span begins.
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

func TestLeaseTimelines(t *testing.T) {
	for name, steps := range map[string][]leaseStep{
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
			{at: 400 * ms, do: "credit", n: 0, back: backs{{serverAt(0), 50}, {serverAt(99 * ms), 95}}, want: 1},
		},
		"nothing is put back that was not taken": {
			{at: 0, do: "put back", want: 1},
		},
	} {
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
		if l.left != s.left || b != s.back || l.want(1) != s.want {
			t.Errorf("step %d: left %v, to give back %v, wants %d; want %v, %v, %d", i+1, l.left, b, l.want(1), s.left, s.back, s.want)
		}
	}
}

func TestALeaseIsLowWhenAQuarterIsLeft(t *testing.T) {
	var l lease
	if !l.isLow() {
		t.Error("an empty one is not low")
	}
	l.credit(0, 1, leaseLength, 8)
	for i := range 8 {
		if low := l.isLow(); low != (l.available() <= 2) {
			t.Errorf("after %d of 8: %v", i, low)
		}
		l.take(1)
	}
}

func TestWhatIsWantedIsAtLeastTheCostOfARequest(t *testing.T) {
	var l lease
	l.use(5)
	for cost, want := range map[int64]int64{1: 5, 5: 5, 6: 6, 1 << 40: 1<<31 - 1} {
		if got := l.want(cost); got != want {
			t.Errorf("a cost of %d: %d, want %d", cost, got, want)
		}
	}
	l.use(1 << 52)
	if got := l.want(1); got != 1<<31-1 {
		t.Errorf("got %d, want the largest grant", got)
	}
}

// After a grant of nothing, or a late one, no other is asked for during at least one Lease, and at most two.
func TestAGrantOfNoUseIsFollowedByAPause(t *testing.T) {
	for _, begun := range []time.Duration{0, 50 * ms, 99 * ms} {
		for n, ends := range []int64{int64(begun) + leaseLength, int64(begun)} { // a late one is as good as none
			checkPause(t, begun, int64(n), ends)
		}
	}
}

func checkPause(t *testing.T, begun time.Duration, n, ends int64) {
	var l lease
	l.advance(int64(begun), leaseLength)
	l.credit(int64(begun), 1, ends, n)
	for at := begun; at < begun+300*ms; at += ms {
		l.advance(int64(at), leaseLength)
		if paused := l.pause > 0; at-begun < 100*ms && !paused || at-begun > 200*ms && paused {
			t.Errorf("begun at %v: at %v: %v", begun, at, paused)
		}
	}
}

func TestARefundGoesToItsPortionAndNoFurtherThanItsGrant(t *testing.T) {
	var l lease
	l.credit(0, 100, leaseLength, 8)
	l.credit(1, 200, leaseLength+1, 4)
	l.take(10)
	is := func(at int64) func(int64) bool { return func(a int64) bool { return a == at } }
	for _, row := range []struct{ at, n, want int64 }{{100, 3, 3}, {200, 9, 2}, {200, 1, 0}, {100, 9, 5}, {300, 1, 0}} {
		if got := l.refund(is(row.at), row.n); got != row.want {
			t.Errorf("%d of the portion of %d: %d, want %d", row.n, row.at, got, row.want)
		}
	}
	if l.left != [2]uint32{8, 4} {
		t.Errorf("left %v", l.left)
	}
}

func TestALeaseIsIdleWhenNothingIsLeftOfIt(t *testing.T) {
	var l lease
	l.advance(0, leaseLength)
	l.credit(0, serverAt(0), leaseLength, 5)
	l.take(5)
	for _, step := range []struct {
		at   time.Duration
		idle bool
	}{{0, false}, {100*ms - 1, false}, {100 * ms, false}, {200*ms - 1, false}, {200 * ms, true}} {
		l.advance(int64(step.at), leaseLength)
		if l.isIdle() != step.idle {
			t.Errorf("at %v: %v", step.at, l.isIdle())
		}
	}
	l.giveBack(1, 1)
	if l.isIdle() {
		t.Error("with something to give back")
	}
	if b := l.takeUnused(); b.sum() != 1 || !l.isIdle() || l.takeUnused() != (backs{}) {
		t.Errorf("gives back %v", b)
	}
}

// The clock of the store goes on from the last grant that was asked for.
func TestTheInstantIsThatOfTheStore(t *testing.T) {
	var l lease
	l.credit(int64(5*ms), 7_000_000, int64(2*ms)+leaseLength, 5)
	if got := l.instant(int64(12*ms), leaseLength); got != 7_010_000 {
		t.Errorf("got %d", got)
	}
	l.credit(int64(15*ms), 9_000_000, int64(14*ms)+leaseLength, 5)
	if got := l.instant(int64(20*ms), leaseLength); got != 9_006_000 {
		t.Errorf("got %d", got)
	}
}
