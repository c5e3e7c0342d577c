package redisx

import (
	"testing"
	"time"
)

func TestABusyLeaseIsLowWhenAQuarterIsLeft(t *testing.T) {
	for _, used := range []int64{0, 4} {
		var l lease
		l.use(used)
		if low := l.isLow(0, leaseLength); low != (used == 4) {
			t.Errorf("an empty one of which %d were used: %v", used, low)
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

// A busy lease is low in the last quarter of its time, too, or its end would find it without the next grant.
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

func TestAGrantIsOfWhatTheLastLeaseHasUsed(t *testing.T) {
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

// After a grant of nothing, or two late ones in succession, no other is asked for during at least one Lease, and at most two.
func TestAGrantOfNoUseIsFollowedByAPause(t *testing.T) {
	for _, begun := range []time.Duration{0, 50 * ms, 99 * ms, 250 * ms} {
		now := int64(begun)
		for name, credit := range map[string]func(*lease){
			"of nothing": func(l *lease) { l.credit(now, 1, now+leaseLength, 0) },
			"late twice": func(l *lease) {
				l.credit(now, 1, now, 1)
				if l.pause > 0 || !l.late {
					t.Error("one that is late is followed by a pause")
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
		t.Error("late ones with one in time between them are followed by a pause")
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

func TestWhatIsPutBackGoesToItsPortion(t *testing.T) {
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
		t.Errorf("left %v, %v to give back, want 4 and 4, and nothing", l.left, l.takeUnused())
	}
}

func TestTheMarkIsThatOfTheOlderPortionThatWasTakenFrom(t *testing.T) {
	for n, want := range map[[2]uint32]int64{{1, 0}: 100, {1, 3}: 100, {0, 3}: 200} {
		if got := (&taken{[2]int64{100, 200}, n}).mark(); got != want {
			t.Errorf("%v: %d, want %d", n, got, want)
		}
	}
}

// The state that few leases have takes no memory once it says nothing.
func TestRareStateIsDroppedOnceItSaysNothing(t *testing.T) {
	var l lease
	l.giveBack(1, 1)
	if l.takeUnused(); l.rare != nil {
		t.Error("kept with nothing to give back")
	}
	for name, set := range map[string]func(*leaseRare, bool){
		"a grant": func(r *leaseRare, some bool) {
			if r.grant = nil; some {
				r.grant = new(grant)
			}
		},
		"other limits": func(r *leaseRare, some bool) {
			if r.others = nil; some {
				r.others = make([]after, 1)
			}
		},
	} {
		set(l.ensureRare(), true)
		l.giveBack(1, 1)
		if l.takeUnused(); l.rare == nil {
			t.Fatalf("%s was dropped", name)
		}
		set(l.rare, false)
		if l.dropRare(); l.rare != nil {
			t.Errorf("kept after %s", name)
		}
	}
}
