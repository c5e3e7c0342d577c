package lease

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/oracle"
)

func TestABusyLeaseIsLowWhenAQuarterIsLeft(t *testing.T) {
	for _, used := range []int64{0, 4} {
		var l lease
		l.use(used)
		if low := l.isLow(0, leaseLength); low != (used == 4) {
			t.Errorf("an empty bucket of which %d were used: %v", used, low)
		}
		l.credit(0, 1, leaseLength, 3)
		if l.take(3); l.isLow(0, leaseLength) != (used == 4) {
			t.Errorf("low after %d, and all of 3: %v", used, used != 4)
		}
		l.credit(0, 1, leaseLength, 8)
		for i := range 8 {
			if low := l.isLow(0, leaseLength); low != (l.isBusy() && l.available() <= 2) {
				t.Errorf("after %d of 8: %v", i, low)
			}
			l.take(1)
		}
	}
}

// A busy lease is also low in the last quarter of its time; otherwise it would end before the next grant arrives.
func TestABusyLeaseIsLowBeforeItEnds(t *testing.T) {
	for used, busy := range map[int64]bool{0: false, 3: false, 4: true, 50: true} {
		var l lease
		l.credit(0, 1, leaseLength, 100)
		l.use(used)
		for at, late := range map[time.Duration]bool{0: false, 75*ms - 1: false, 75 * ms: true, 99 * ms: true} {
			if low := l.isLow(int64(at), leaseLength); low != (busy && late) {
				t.Errorf("%d used, at %v: %v", used, at, low)
			}
		}
		l.credit(int64(80*ms), 1, int64(180*ms), 100)
		if l.isLow(int64(99*ms), leaseLength) {
			t.Error("low although there is a newer portion")
		}
	}
}

// A lease that was busy in the last span is still busy when the next one begins.
func TestALeaseStaysBusyIntoTheNextSpan(t *testing.T) {
	for used, want := range map[[2]uint32]bool{{3, 3}: false, {4, 0}: true, {0, 4}: true} {
		if l := (lease{used: used}); l.isBusy() != want {
			t.Errorf("after %v: %v", used, !want)
		}
	}
}

func TestGrantAsksForWhatTheLastLeaseUsed(t *testing.T) {
	for used, want := range map[[2]uint32]int64{{10, 0}: 10, {0, 10}: 10, {10, 9}: 10, {9, 10}: 10, {}: 1} {
		if l := (lease{used: used}); l.want(0) != want {
			t.Errorf("after %v: %d, want %d", used, l.want(0), want)
		}
	}
}

func TestWhatARequestWaitsForIsWantedToo(t *testing.T) {
	var l lease
	l.used[1] = 5
	for cost, want := range map[int64]int64{0: 5, 1: 6, 5: 10, 1 << 40: 1<<31 - 1} {
		if got := l.want(cost); got != want {
			t.Errorf("a cost of %d: %d, want %d", cost, got, want)
		}
	}
	l.use(1 << 52)
	if got := l.want(1); got != 1<<31-1 {
		t.Errorf("got %d, want the largest grant", got)
	}
}

// After a grant of nothing, or two late grants in a row, the next grant is asked for after one to two times the Lease.
func TestAGrantOfNoUseIsFollowedByAPause(t *testing.T) {
	for _, begun := range []time.Duration{0, 50 * ms, 99 * ms, 250 * ms} {
		now := int64(begun)
		for name, credit := range map[string]func(*lease){
			"of nothing": func(l *lease) { l.credit(now, 1, now+leaseLength, 0) },
			"late twice": func(l *lease) {
				l.credit(now, 1, now, 1)
				if l.pause > 0 || !l.late {
					t.Error("one late grant is followed by a pause")
				}
				l.credit(now, 1, now-1, 1)
			},
		} {
			t.Run(name, func(t *testing.T) { checkPause(t, begun, credit) })
		}
	}
	var l lease
	l.credit(5, 1, 5, 1)
	l.credit(6, 1, 7, 1)
	l.credit(8, 1, 8, 1)
	if l.pause > 0 {
		t.Error("late grants with one in time between them are followed by a pause")
	}
}

func checkPause(t *testing.T, begun time.Duration, credit func(*lease)) {
	var l lease
	l.advance(int64(begun), leaseLength)
	credit(&l)
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
	l.addUnused(1, 1)
	if l.isIdle() {
		t.Error("with something to return")
	}
	if l.dropRare(); !l.hasUnused() {
		t.Error("what is to be returned was dropped")
	}
	if b := l.takeUnused(); b.Count() != 1 || !l.isIdle() || l.takeUnused() != (Portions{}) {
		t.Errorf("returns %v", b)
	}
	if l.pause = 1; l.isIdle() {
		t.Error("during a pause")
	}
}

// The store decides a request without a look at the lease only if the lease has nothing to take, to return or to wait for.
func TestALeaseIsUsedUpOnceItHoldsNothing(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*lease)
		want   bool
	}{
		"empty":         {func(*lease) {}, true},
		"no pause":      {func(l *lease) { l.pause = 0 }, false},
		"some left":     {func(l *lease) { l.credit(0, 1, leaseLength, 1) }, false},
		"to return":     {func(l *lease) { l.addUnused(1, 1) }, false},
		"waits for one": {func(l *lease) { l.ensureRare().grant = new(grant) }, false},
	} {
		l := lease{pause: pauseSpans}
		if row.change(&l); l.isUsedUp() != row.want {
			t.Errorf("%s: %v", name, !row.want)
		}
	}
}

// The estimate of the store's clock advances from the last grant that was asked for.
func TestInstantFollowsTheStoresClock(t *testing.T) {
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

func TestPutBackGoesToItsPortion(t *testing.T) {
	var l lease
	l.credit(0, 100, leaseLength, 8)
	l.credit(1, 200, leaseLength+1, 4)
	took, _ := l.take(10)
	if l.putBack(took); l.left != [2]uint32{8, 4} {
		t.Errorf("left %v, want 8 and 4", l.left)
	}
}

// The next grant ends the older of two portions, so what was taken from the newer one must not go there.
func TestWhatIsPutBackStaysInTheNewerOfTwoPortionsOfOneInstant(t *testing.T) {
	var l lease
	l.credit(0, 100, leaseLength, 1)
	l.credit(1, 100, leaseLength+1, 4)
	l.take(1)
	took, _ := l.take(1)
	l.putBack(took)
	l.credit(2, 100, leaseLength+2, 4)
	if l.left != [2]uint32{4, 4} || l.hasUnused() {
		t.Errorf("left %v, %v to return, want 4 and 4, and nothing", l.left, l.takeUnused())
	}
}

func TestTheMarkIsThatOfTheOlderPortionThatWasTakenFrom(t *testing.T) {
	for n, want := range map[[2]uint32]int64{{1, 0}: 100, {1, 3}: 100, {0, 3}: 200} {
		if got := (&Portions{{100, int64(n[0])}, {200, int64(n[1])}}).mark(); got != want {
			t.Errorf("%v: %d, want %d", n, got, want)
		}
	}
}

// State that only few leases need takes no memory once it is empty.
func TestRareStateIsDroppedOnceItSaysNothing(t *testing.T) {
	var l lease
	l.addUnused(1, 1)
	if l.takeUnused(); l.rare != nil {
		t.Error("kept with nothing to return")
	}
	for name, set := range map[string]func(*rare, bool){
		"a grant": func(r *rare, some bool) {
			if r.grant = nil; some {
				r.grant = new(grant)
			}
		},
		"other limits": func(r *rare, some bool) {
			if r.others = nil; some {
				r.others = make([]after, 1)
			}
		},
	} {
		set(l.ensureRare(), true)
		l.addUnused(1, 1)
		if l.takeUnused(); l.rare == nil {
			t.Fatalf("%s was dropped", name)
		}
		set(l.rare, false)
		if l.dropRare(); l.rare != nil {
			t.Errorf("kept after %s", name)
		}
	}
}

// A leaseStep is a step of a timeline of a lease of 100 ms. At 0 the first span begins.
type leaseStep struct {
	at     time.Duration
	do     string // "take", "put back", "credit", "end"
	n      int64  // how much
	sent   time.Duration
	ok     bool // of a take
	left   [2]uint32
	unused Portions
	want   int64
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
		{at: 110 * ms, do: "take", n: 1, unused: Portions{{serverAt(10 * ms), 9}}, want: 1},
	},
	"what was taken from a portion that has ended is returned": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
		{at: 99 * ms, do: "take", n: 4, ok: true, left: [2]uint32{6, 0}, want: 4},
		{at: 100 * ms, do: "put back", unused: Portions{{serverAt(0), 10}}, want: 4},
	},
	"a grant that is late is returned whole": {
		{at: 100 * ms, do: "credit", n: 10, unused: Portions{{serverAt(0), 10}}, want: 1},
	},
	"one just in time is not": {
		{at: 100*ms - 1, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
	},
	"a third portion replaces the oldest": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
		{at: 10 * ms, do: "credit", n: 20, sent: 10 * ms, left: [2]uint32{10, 20}, want: 1},
		{at: 20 * ms, do: "credit", n: 30, sent: 20 * ms, left: [2]uint32{20, 30}, unused: Portions{{serverAt(0), 10}}, want: 1},
	},
	"the end of a lease leaves all unused": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10, 0}, want: 1},
		{at: 10 * ms, do: "credit", n: 20, sent: 10 * ms, left: [2]uint32{10, 20}, want: 1},
		{at: 20 * ms, do: "end", unused: Portions{{serverAt(0), 10}, {serverAt(10 * ms), 20}}, want: 1},
	},
	"what is wanted is what was used in the last Lease": {
		{at: 0, do: "credit", n: 100, left: [2]uint32{100, 0}, want: 1},
		{at: 50 * ms, do: "take", n: 30, ok: true, left: [2]uint32{70, 0}, want: 30},
		{at: 99 * ms, do: "take", n: 20, ok: true, left: [2]uint32{50, 0}, want: 50},
		{at: 99 * ms, do: "credit", n: 100, sent: 99 * ms, left: [2]uint32{50, 100}, want: 50},
		{at: 150 * ms, do: "take", n: 5, ok: true, left: [2]uint32{95, 0}, unused: Portions{{serverAt(0), 50}}, want: 50},
		{at: 200 * ms, do: "credit", n: 0, unused: Portions{{serverAt(0), 50}, {serverAt(99 * ms), 95}}, want: 5},
		{at: 300 * ms, do: "credit", n: 0, unused: Portions{{serverAt(0), 50}, {serverAt(99 * ms), 95}}, want: 1},
	},
	"what was used is remembered while nobody looks": {
		{at: 0, do: "credit", n: 100, left: [2]uint32{100, 0}, want: 1},
		{at: 99 * ms, do: "take", n: 60, ok: true, left: [2]uint32{40, 0}, want: 60},
		{at: 750 * ms, do: "take", n: 1, unused: Portions{{serverAt(0), 40}}, want: 60},
		{at: 850 * ms, do: "take", n: 1, unused: Portions{{serverAt(0), 40}}, want: 1},
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
	var last Portions
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
		var unused Portions
		if l.rare != nil {
			unused = l.rare.unused
		}
		if l.left != s.left || unused != s.unused || l.want(0) != s.want {
			t.Errorf("step %d: left %v, unused %v, wants %d; want %v, %v, %d", i+1, l.left, unused, l.want(0), s.left, s.unused, s.want)
		}
	}
}

// A leaseHolder is a lease as the schedules of package oracle use it: it decides when to ask for a grant.
type leaseHolder struct {
	lease
	length  int64 // nanoseconds
	asked   bool
	last    int64
	waiting bool // for a grant
}

func newLeaseHolder(length int64) oracle.Holder { return &leaseHolder{length: length * 1000} }

func (h *leaseHolder) Ask(now, cost int64, waited bool) oracle.Answer {
	now *= 1000
	again := h.asked && now-h.last < h.length
	h.asked, h.last = true, now
	h.advance(now, h.length)
	if t, ok := h.take(cost); ok {
		a := oracle.Answer{Taken: portionsIn(t)}
		a.Want = h.grant(now, cost)
		return a
	}
	var a oracle.Answer
	if h.isBusy() && !waited {
		a.Want = h.grant(now, cost)
	}
	if a.Wait = h.waiting && !h.late && !waited; a.Wait {
		return a
	}
	h.use(cost)
	h.end()
	a.Unused = portionsIn(h.takeUnused())
	if again {
		a.Want += h.grant(now, cost)
	}
	return a
}

// grant returns how much to ask for, or 0 if enough is left or a pause has not ended.
func (h *leaseHolder) grant(now, cost int64) int64 {
	if h.waiting || h.pause > 0 || !h.isLow(now, h.length) {
		return 0
	}
	h.waiting = true
	return h.want(cost)
}

func (h *leaseHolder) PutBack(now int64, taken []oracle.Portion) {
	h.advance(now*1000, h.length)
	h.putBack(takenOf(taken))
}

func (h *leaseHolder) Granted(now, sent int64, p oracle.Portion) {
	h.waiting = false
	h.advance(now*1000, h.length)
	h.credit(now*1000, p.At, sent*1000+h.length, p.Count)
}

func (h *leaseHolder) Failed(int64) { h.waiting, h.pause = false, pauseSpans }

func (h *leaseHolder) Refund(_, at, cost int64) []oracle.Portion {
	return []oracle.Portion{{At: at - h.length/1000, Count: cost}}
}

func (h *leaseHolder) Ended(now int64) []oracle.Portion {
	h.advance(now*1000, h.length)
	return portionsIn(h.takeUnused())
}

// takenOf returns some portions, which are of two instants at most.
func takenOf(some []oracle.Portion) (p Portions) {
	for _, one := range some {
		p.add(one.At, one.Count)
	}
	return p
}

func portionsIn(p Portions) (all []oracle.Portion) {
	for _, one := range p {
		if one.Count > 0 {
			all = append(all, oracle.Portion(one))
		}
	}
	return all
}

// stream is the random stream of this package's schedules.
const stream = 81

// TestLeaseKeepsItsBounds simulates processes that lease from the model with the leases of this package.
func TestLeaseKeepsItsBounds(t *testing.T) { oracle.CheckLeases(t, stream, newLeaseHolder) }

func FuzzLease(f *testing.F) { oracle.FuzzLeases(f, stream, newLeaseHolder) }

func TestPortionsKeepTwoInstants(t *testing.T) {
	var b Portions
	for _, row := range []struct {
		at, n int64
		want  Portions
	}{
		{30, 5, Portions{{30, 5}}},
		{30, 2, Portions{{30, 7}}},
		{20, 0, Portions{{30, 7}}},
		{20, 1, Portions{{30, 7}, {20, 1}}},
		{20, 2, Portions{{30, 7}, {20, 3}}},
		{40, 4, Portions{{20, 10}, {40, 4}}},
		{30, 6, Portions{{20, 16}, {40, 4}}},
		{10, 1, Portions{{10, 17}, {40, 4}}},
	} {
		if b.addAll(Portions{{row.at, row.n}}); b != row.want {
			t.Errorf("with %d of %d: got %v, want %v", row.n, row.at, b, row.want)
		}
	}
	if b.Count() != 21 {
		t.Errorf("a sum of %d, want 21", b.Count())
	}
}
