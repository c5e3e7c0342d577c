package lease

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
)

func TestABusyLeaseIsLowWhenAQuarterIsLeft(t *testing.T) {
	for _, used := range []int64{0, 4} {
		var l lease
		l.use(used)
		expect.Equal(t, l.isLow(0, leaseLength), used == 4, "no loan, and %d were used", used)
		l.credit(0, leaseLength, 1, leaseLength, 3)
		l.take(0, leaseLength, 3)
		expect.Equal(t, l.isLow(0, leaseLength), used == 4, "low after %d, and all of 3: %v", used, used != 4)
		l.credit(0, leaseLength, 1, leaseLength, 8)
		for i := range 8 {
			expect.Equal(t, l.isLow(0, leaseLength), l.isBusy() && l.available() <= 2, "after %d of 8", i)
			l.take(0, leaseLength, 1)
		}
	}
}

// A busy lease is also low in the last quarter of its time; otherwise it would end before the refill arrives.
func TestABusyLeaseIsLowBeforeItEnds(t *testing.T) {
	for used, busy := range map[int64]bool{0: false, 3: false, 4: true, 50: true} {
		var l lease
		l.credit(0, leaseLength, 1, leaseLength, 100)
		l.use(used)
		for at, late := range map[time.Duration]bool{0: false, 75*ms - 1: false, 75 * ms: true, 99 * ms: true} {
			expect.Equal(t, l.isLow(int64(at), leaseLength), busy && late, "%d used, at %v", used, at)
		}
		l.credit(int64(80*ms), leaseLength, 1, int64(180*ms), 100)
		expect.True(t, !l.isLow(int64(99*ms), leaseLength), "low although there is another loan")
	}
}

// A lease that was busy in the last span is still busy when the next one begins.
func TestALeaseStaysBusyIntoTheNextSpan(t *testing.T) {
	for used, want := range map[[2]uint32]bool{{3, 3}: false, {4, 0}: true, {0, 4}: true} {
		l := lease{used: used}
		expect.Equal(t, l.isBusy(), want, "busy after %v", used)
	}
}

func TestWantIncludesTheCostOfTheRequest(t *testing.T) {
	var l lease
	l.used[1] = 5
	for cost, want := range map[int64]int64{0: 5, 1: 6, 5: 10, 1 << 40: 1<<31 - 1} {
		expect.Equal(t, l.want(0, 1000, cost), want, "a cost of %d", cost)
	}
	l.loan = loan{until: leaseLength, left: 2, size: 2}
	expect.Equal(t, [2]int64{l.want(0, leaseLength, 0), l.want(0, leaseLength, 3)}, [2]int64{3, 8}, "beside a loan of 2, which a request that waits ends")
	l.use(1 << 52)
	expect.Equal(t, l.want(0, 1000, 1), 1<<31-1, "the largest loan")
}

// After a refill of nothing, or two late refills in a row, the next refill is asked for after one to two times the Lease.
func TestUselessRefillsAreFollowedByAPause(t *testing.T) {
	for _, begun := range []time.Duration{0, 50 * ms, 99 * ms, 250 * ms} {
		now := int64(begun)
		for name, credit := range map[string]func(*lease){
			"of nothing": func(l *lease) { l.credit(now, leaseLength, 1, now+leaseLength, 0) },
			"late twice": func(l *lease) {
				l.credit(now, leaseLength, 1, now, 1)
				expect.True(t, l.pause <= 0 && l.late, "one late refill is followed by a pause")
				l.credit(now, leaseLength, 1, now-1, 1)
			},
		} {
			t.Run(name, func(t *testing.T) { checkPause(t, begun, credit) })
		}
	}
	var l lease
	l.credit(5, leaseLength, 1, 5, 1)
	l.credit(6, leaseLength, 1, 7, 1)
	l.credit(8, leaseLength, 1, 8, 1)
	expect.AtMost(t, l.pause, 0, "late refills with one in time between them are followed by a pause")
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

// A refund returns to the loan if the request was decided since the loan began, and no further than what the loan had.
func TestARefundGoesToItsLoanAndNoFurtherThanItsSize(t *testing.T) {
	var l lease
	l.credit(0, leaseLength, serverAt(0), leaseLength, 8)
	l.take(0, leaseLength, 8)
	l.credit(int64(20*ms), leaseLength, serverAt(10*ms), int64(10*ms)+leaseLength, 4) // ends the other one, of which nothing is left
	l.take(int64(20*ms), leaseLength, 3)
	for _, row := range []struct {
		why         string
		at, n, want int64
	}{
		{"before the loan was charged", serverAt(10*ms) - 1, 1, 0},
		{"while another loan was in use", serverAt(20 * ms), 1, 0},
		{"all that fits", serverAt(20*ms) + 1, 1, 1},
		{"more than that", serverAt(30 * ms), 9, 2},
		{"nothing fits", serverAt(30 * ms), 1, 0},
	} {
		expect.Equal(t, l.refund(int64(30*ms), leaseLength, row.at, row.n), row.want, "%s: of %d", row.why, row.n)
	}
	l.take(int64(30*ms), leaseLength, 4)
	expect.Equal(t, l.refund(int64(30*ms), leaseLength, serverAt(30*ms)+1, 1), 0, "a refund of a request that is still to come")
	l.advance(int64(110*ms), leaseLength)
	expect.Equal(t, l.refund(int64(110*ms), leaseLength, serverAt(30*ms), 1), 0, "a refund without a loan")
}

func TestALeaseIsIdleWhenNothingIsLeftOfIt(t *testing.T) {
	var l lease
	l.advance(0, leaseLength)
	l.credit(0, leaseLength, serverAt(0), leaseLength, 5)
	l.take(0, leaseLength, 5)
	for _, step := range []struct {
		at   time.Duration
		idle bool
	}{{0, false}, {100*ms - 1, false}, {100 * ms, false}, {200*ms - 1, false}, {200 * ms, true}} {
		l.advance(int64(step.at), leaseLength)
		expect.Equal(t, l.isIdle(), step.idle, "at %v", step.at)
	}
	l.add(1, 1)
	expect.True(t, !l.isIdle(), "with something to return")
	l.unused = nil
	expect.True(t, l.isIdle(), "with nothing to return")
	l.pause = 1
	expect.True(t, !l.isIdle(), "during a pause")
}

// A leaseStep is a step of a timeline of a lease of 100 ms. At 0 the first span begins.
type leaseStep struct {
	at     time.Duration
	do     string // "take", "put back", "credit", "finish"
	n      int64  // how much
	sent   time.Duration
	ok     bool      // of a take
	left   [2]uint32 // of the loan, and of the next one
	unused []Unused
	want   int64
}

const (
	leaseLength = int64(100 * time.Millisecond)
	ms          = time.Millisecond
)

// serverAt is the instant at which the store charges what was sent at d.
func serverAt(d time.Duration) int64 { return 1_000_000 + d.Microseconds() }

var leaseTimelines = map[string][]leaseStep{
	"a refill waits until the loan has too little": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10}, want: 1},
		{at: 10 * ms, do: "take", n: 7, ok: true, left: [2]uint32{3}, want: 4},
		{at: 20 * ms, do: "credit", n: 5, sent: 15 * ms, left: [2]uint32{3, 5}, want: 4},
		{at: 30 * ms, do: "take", n: 6, left: [2]uint32{3, 5}, want: 4},
		{at: 30 * ms, do: "take", n: 2, ok: true, left: [2]uint32{1, 5}, want: 8},
		{at: 30 * ms, do: "take", n: 2, ok: true, left: [2]uint32{3}, unused: []Unused{{At: serverAt(0), Count: 1}}, want: 8},
		{at: 31 * ms, do: "put back", left: [2]uint32{5}, unused: []Unused{{At: serverAt(0), Count: 1}}, want: 4},
	},
	"a loan is used until one Lease after it was asked for": {
		{at: 20 * ms, do: "credit", n: 10, sent: 10 * ms, left: [2]uint32{10}, want: 1},
		{at: 110*ms - 1, do: "take", n: 1, ok: true, left: [2]uint32{9}, want: 1},
		{at: 110 * ms, do: "take", n: 1, unused: []Unused{{At: serverAt(10 * ms), Count: 9}}, want: 1},
	},
	"a refill follows a loan that ends": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10}, want: 1},
		{at: 90 * ms, do: "credit", n: 20, sent: 80 * ms, left: [2]uint32{10, 20}, want: 1},
		{at: 100 * ms, do: "take", n: 1, ok: true, left: [2]uint32{19}, unused: []Unused{{At: serverAt(0), Count: 10}}, want: 1},
	},
	"both end": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10}, want: 1},
		{at: 90 * ms, do: "credit", n: 20, sent: 80 * ms, left: [2]uint32{10, 20}, want: 1},
		{at: 180 * ms, do: "take", n: 1, unused: []Unused{{At: serverAt(80 * ms), Count: 20}, {At: serverAt(0), Count: 10}}, want: 1},
	},
	"what was taken from a loan that has ended is returned": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10}, want: 1},
		{at: 99 * ms, do: "take", n: 4, ok: true, left: [2]uint32{6}, want: 4},
		{at: 100 * ms, do: "put back", unused: []Unused{{At: serverAt(0), Count: 10}}, want: 4},
	},
	"a refill that is late is returned whole": {{at: 100 * ms, do: "credit", n: 10, unused: []Unused{{At: serverAt(0), Count: 10}}, want: 1}},
	"one just in time is not":                 {{at: 100*ms - 1, do: "credit", n: 10, left: [2]uint32{10}, want: 1}},
	"a refill replaces a loan of which nothing is left": {
		{at: 0, do: "credit", n: 4, left: [2]uint32{4}, want: 1},
		{at: 10 * ms, do: "take", n: 4, ok: true, want: 4},
		{at: 20 * ms, do: "credit", n: 20, sent: 10 * ms, left: [2]uint32{20}, want: 1},
	},
	"the end of a lease leaves all unused": {
		{at: 0, do: "credit", n: 10, left: [2]uint32{10}, want: 1},
		{at: 10 * ms, do: "credit", n: 20, sent: 10 * ms, left: [2]uint32{10, 20}, want: 1},
		{at: 20 * ms, do: "finish", unused: []Unused{{At: serverAt(10 * ms), Count: 20}, {At: serverAt(0), Count: 10}}, want: 1},
	},
	"what is wanted is what was used in the last Lease, without what will be used of the loan until it ends": {
		{at: 0, do: "credit", n: 100, left: [2]uint32{100}, want: 1},
		{at: 50 * ms, do: "take", n: 30, ok: true, left: [2]uint32{70}, want: 15},
		{at: 99 * ms, do: "take", n: 20, ok: true, left: [2]uint32{50}, want: 50},
		{at: 99 * ms, do: "credit", n: 100, sent: 99 * ms, left: [2]uint32{50, 100}, want: 50},
		{at: 150 * ms, do: "take", n: 5, ok: true, left: [2]uint32{95}, unused: []Unused{{At: serverAt(0), Count: 50}}, want: 26},
		{at: 200 * ms, do: "credit", n: 0, unused: []Unused{{At: serverAt(99 * ms), Count: 95}, {At: serverAt(0), Count: 50}}, want: 5},
		{at: 300 * ms, do: "credit", n: 0, unused: []Unused{{At: serverAt(99 * ms), Count: 95}, {At: serverAt(0), Count: 50}}, want: 1},
	},
	"what was used is remembered while nobody looks": {
		{at: 0, do: "credit", n: 100, left: [2]uint32{100}, want: 1},
		{at: 99 * ms, do: "take", n: 60, ok: true, left: [2]uint32{40}, want: 60},
		{at: 750 * ms, do: "take", n: 1, unused: []Unused{{At: serverAt(0), Count: 40}}, want: 60},
		{at: 850 * ms, do: "take", n: 1, unused: []Unused{{At: serverAt(0), Count: 40}}, want: 1},
	},
}

func TestLeaseTimelines(t *testing.T) {
	for name, steps := range leaseTimelines {
		t.Run(name, func(t *testing.T) { runLease(t, steps) })
	}
}

func runLease(t *testing.T, steps []leaseStep) {
	var l lease
	var last Unused
	for i, s := range steps {
		now := int64(s.at)
		l.advance(now, leaseLength)
		switch s.do {
		case "take":
			at, ok := l.take(now, leaseLength, s.n)
			last = Unused{At: at, Count: s.n}
			expect.Equal(t, ok, s.ok, "step %d: take of %d", i+1, s.n)
		case "put back":
			l.putBack(last.At, last.Count)
		case "credit":
			l.credit(now, leaseLength, serverAt(s.sent), int64(s.sent)+leaseLength, s.n)
		case "finish":
			l.finish(now, leaseLength)
		}
		left := [2]uint32{l.left}
		if l.next != nil {
			left[1] = l.next.left
		}
		unused := listOf(l.unused)
		expect.True(t, left == s.left && slices.Equal(unused, s.unused) && l.want(now, leaseLength, 0) == s.want,
			"step %d: left %v, unused %v, wants %d; want %v, %v, %d", i+1, left, unused, l.want(now, leaseLength, 0), s.left, s.unused, s.want)
	}
}

// A leaseHolder is a lease as the schedules of package oracle use it: it decides when to ask for a refill.
type leaseHolder struct {
	lease
	length  int64 // nanoseconds
	asked   bool
	last    int64
	waiting bool // for a refill
}

func newLeaseHolder(length int64) oracle.Holder { return &leaseHolder{length: length * 1000} }

func (h *leaseHolder) Ask(now, cost int64, waited bool) (a oracle.Answer) {
	now *= 1000
	again := h.asked && now-h.last < h.length
	h.asked, h.last = true, now
	h.advance(now, h.length)
	if at, ok := h.take(now, h.length, cost); ok {
		return oracle.Answer{Taken: oracle.Portion{At: at, Count: cost}, At: h.instant(now, h.length), Want: h.refill(now, cost)}
	}
	if h.isBusy() && !waited {
		a.Want = h.refill(now, cost)
	}
	if a.Wait = h.waiting && !h.late && !waited; a.Wait {
		return a
	}
	h.use(cost)
	h.finish(now, h.length)
	a.Unused = h.takeUnused()
	if again {
		a.Want += h.refill(now, cost)
	}
	return a
}

// refill returns how much to ask for, or 0 if enough is left or a pause has not ended.
func (h *leaseHolder) refill(now, cost int64) int64 {
	if h.waiting || h.pause > 0 || !h.isLow(now, h.length) {
		return 0
	}
	h.waiting = true
	return h.want(now, h.length, cost)
}

func (h *leaseHolder) PutBack(now int64, taken oracle.Portion) {
	h.advance(now*1000, h.length)
	h.putBack(taken.At, taken.Count)
}

func (h *leaseHolder) Lent(now, sent int64, p oracle.Portion) {
	h.waiting = false
	h.advance(now*1000, h.length)
	h.credit(now*1000, h.length, p.At, sent*1000+h.length, p.Count)
}

func (h *leaseHolder) Failed(int64) { h.waiting, h.pause = false, pauseSpans }

func (h *leaseHolder) Refund(now, at, cost int64) oracle.Portion {
	h.advance(now*1000, h.length)
	return oracle.Portion{At: at - h.length/1000, Count: cost - h.refund(now*1000, h.length, at, cost)}
}

func (h *leaseHolder) Ended(now int64) []oracle.Portion {
	h.advance(now*1000, h.length)
	return h.takeUnused()
}

// takeUnused removes what is unused from h.
func (h *leaseHolder) takeUnused() (all []oracle.Portion) {
	for _, u := range listOf(h.unused) {
		all = append(all, oracle.Portion{At: u.At, Count: u.Count})
	}
	h.unused = nil
	return all
}

// TestLeaseKeepsItsBounds simulates, for about a second, processes that lease from the model with the leases of this package.
func TestLeaseKeepsItsBounds(t *testing.T) {
	testpass.Sequential(t)
	var all oracle.Summary
	begun, n := time.Now(), uint64(0)
	for ; n < 30 || n < 1000 && time.Since(begun) < time.Second; n++ {
		s, err := oracle.RunLeases(oracle.RandomSchedule(n), newLeaseHolder)
		must.True(t, err == nil, "seed %d: %v", n, err)
		all.Add(s)
	}
	expect.True(t, all.Leased >= 10 && all.Asked >= 10 && all.Denied >= 10 && all.Returned >= 10 && all.Crashes != 0 && all.Lost != 0 && all.Refunds != 0,
		"%d schedules have exercised too little: %+v", n, all)
}

func FuzzLease(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(oracle.RandomSchedule(seed))
	}
	f.Fuzz(func(t *testing.T, schedule []byte) {
		if len(schedule) > 300 {
			t.Skip("more steps take longer and show no more")
		}
		must.Get(oracle.RunLeases(schedule, newLeaseHolder))(t)
	})
}

type neverEnds struct{ *leaseHolder }

func (l neverEnds) Lent(now, sent int64, p oracle.Portion) { l.leaseHolder.Lent(now, sent+1<<40, p) }

type countsTwice struct{ *leaseHolder }

func (l countsTwice) Lent(now, sent int64, p oracle.Portion) {
	p.Count *= 2
	l.leaseHolder.Lent(now, sent, p)
}

// putsBackTwice puts back twice what a denied request has taken.
type putsBackTwice struct{ *leaseHolder }

func (l putsBackTwice) PutBack(now int64, taken oracle.Portion) {
	l.leaseHolder.PutBack(now, taken)
	l.leaseHolder.PutBack(now, taken)
}

// putsNothingBack does not put back what a denied request has taken.
type putsNothingBack struct{ *leaseHolder }

func (putsNothingBack) PutBack(int64, oracle.Portion) {}

// ownClock uses its process's clock as if it were the store's.
type ownClock struct{ *leaseHolder }

func (l ownClock) Lent(now, sent int64, p oracle.Portion) {
	p.At = now
	l.leaseHolder.Lent(now, sent, p)
}

// TestMistakesAreFound runs schedules of many seeds until one of them finds each mistake.
func TestMistakesAreFound(t *testing.T) {
	testpass.Sequential(t)
	const moreAdmitted, notReturned = "more were admitted than the limit and a lease allow", "nobody crashed, and"
	for name, m := range map[string]struct {
		open   func(*leaseHolder) oracle.Holder
		begins string // the schedule: two processes lease 1000/s;burst=50 for 10 ms
		seed   uint64 // the first one that is run
		found  string
	}{
		"a lease that does not end":                {func(l *leaseHolder) oracle.Holder { return neverEnds{l} }, "\x02\x01\x00\x00\x01", 0, moreAdmitted},
		"a loan that counts twice":                 {func(l *leaseHolder) oracle.Holder { return countsTwice{l} }, "", 0, moreAdmitted},
		"a denied request that puts back twice":    {func(l *leaseHolder) oracle.Holder { return putsBackTwice{l} }, "", 200, moreAdmitted},
		"a denied request that puts nothing back":  {func(l *leaseHolder) oracle.Holder { return putsNothingBack{l} }, "", 0, notReturned},
		"the clock of the process for the store's": {func(l *leaseHolder) oracle.Holder { return ownClock{l} }, "", 0, "more than still counted"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := m.seed; seed < m.seed+1000; seed++ {
				schedule := append([]byte(m.begins), oracle.RandomSchedule(seed)...)
				_, err := oracle.RunLeases(schedule, func(length int64) oracle.Holder { return m.open(&leaseHolder{length: length * 1000}) })
				if err != nil && strings.Contains(err.Error(), m.found) {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("no schedule of 1000 has found that %s", m.found)
		})
	}
}

// listOf returns u and what follows it, apart.
func listOf(u *Unused) (all []Unused) {
	for ; u != nil; u = u.next {
		all = append(all, Unused{At: u.At, Count: u.Count})
	}
	return all
}
