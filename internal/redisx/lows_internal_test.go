package redisx

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// TestLeasesAreGivenBackExactly checks that what was charged ahead and is given back leaves a bucket as if it had never been charged.
func TestLeasesAreGivenBackExactly(t *testing.T) {
	for _, limits := range []string{"300/s", "3000/s;burst=50", "40/s, 1000/h", "90000000/30d"} {
		for _, company := range [][]core.Claim{nil, {bystander}} {
			l := newLending(t, 1, limits, company...)
			l.play(limits, limits)
		}
	}
}

// TestTwoTiersGiveBackExactly checks buckets that are asked at two rates, or in two ticks. A request of cost 0 may name its rate
// without a trace.
func TestTwoTiersGiveBackExactly(t *testing.T) {
	for _, tiers := range [][2]string{{"300/s", "70/s;burst=400"}, {"1000000000/30d", "1000000000/30d;burst=1000"}} {
		l := newLending(t, 1, tiers[0], bystander)
		l.least = 1
		l.play(tiers[0], tiers[1])
	}
}

// TestLeasesWhileTheClockStepsBack checks instants that are not in the order of the charges, in ticks of 1 µs and of more.
func TestLeasesWhileTheClockStepsBack(t *testing.T) {
	for limits, most := range map[string]int{"300/s": 3000, "1000000/80000h": 3000, "1000000000/30d": 300_000} {
		l := newLending(t, 1, limits)
		l.most, l.back = most, most/3
		l.play(limits, limits)
	}
}

// TestClockStepsBackBeyondTwoLeases steps back within a tick of 1 s, in which nothing drains.
func TestClockStepsBackBeyondTwoLeases(t *testing.T) {
	l := newLending(t, 1, "1000000000/30d")
	l.call(2000, 0, backs{})
	for _, d := range []time.Duration{100, 50, -100} {
		l.pass(d * time.Millisecond)
		l.call(0, 10, backs{})
	}
	for l.pass(1500 * time.Millisecond); len(l.unused) > 0; l.pass(time.Millisecond) {
		l.call(1, 0, backs{l.some()})
		if got, want, same := l.compare(); !same {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
}

// TestTooManyLeasesGiveBackLess checks that a bucket of more leases than it has lows for keeps some of what is given back, and never
// gives back more.
func TestTooManyLeasesGiveBackLess(t *testing.T) {
	if less := lendMany(t, 16); less > 0 {
		t.Errorf("16 leases: %d requests stay charged, want none", less)
	}
	if less := lendMany(t, 30); less == 0 || less > 50 {
		t.Errorf("30 leases: %d requests stay charged, want some, but few", less)
	}
}

// TestStoredLowsThatMakeNoSense checks that lows that do not rise, or are too large, say nothing, and that a state of another size counts
// as used up.
func TestStoredLowsThatMakeNoSense(t *testing.T) {
	for name, row := range map[string]struct {
		words     []uint64 // of the record, behind its kind
		remaining int
	}{
		"none":             {nil, 280},
		"good":             {[]uint64{2, 1, 5, 2, 20e6}, 290},
		"the same level":   {[]uint64{2, 1, 20e6, 2, 20e6}, 280},
		"the same instant": {[]uint64{2, 2, 5, 2, 20e6}, 280},
		"no instant":       {[]uint64{1, 0, 20e6}, 280},
		"no level":         {[]uint64{2, 1, 0, 2, 20e6}, 280},
		"too large":        {[]uint64{2, 1, 20e6, 2, 1<<53 + 2}, 280},
		"half of a pair":   {[]uint64{1, 1}, 0},
		"too many":         {append([]uint64{17}, make([]uint64, 34)...), 0},
	} {
		for _, company := range [][]core.Claim{nil, {bystander}} {
			l := newLending(t, 1, "300/s", company...)
			l.call(20, 0, backs{})
			key := l.server.Keys()[0]
			state := []byte(l.server.HGet(key, "s"))
			if row.words != nil {
				state = binary.LittleEndian.AppendUint64(state, 1_000_000*16+1)
			}
			for _, n := range row.words {
				state = binary.LittleEndian.AppendUint64(state, n)
			}
			l.server.HSet(key, "s", string(state))
			c := l.claim
			leasedPair(t, l.store, 0, backs{{l.now.UnixMicro() - 100_000, 10}}, true, append([]core.Claim{c}, company...)...)
			if got, _, _ := l.compare(); got.Remaining != row.remaining {
				t.Errorf("%s, with %d others: %d remain, want %d", name, len(company), got.Remaining, row.remaining)
			}
		}
	}
}
