package suggest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/testpass"
)

// scanned returns a log of a day: 180 visitors load pages of up to twelve files, and a scanner sends 15% of all
// requests, one every pause.
func scanned(seed uint64, pause time.Duration) (log entries) {
	random := rand.New(rand.NewPCG(seed, 2))
	for c := range 180 {
		for range 1 + random.IntN(4) {
			at := time.Duration(random.Int64N(int64(23 * time.Hour)))
			for range 1 + random.IntN(10) {
				for file := range 1 + random.IntN(12) {
					log = append(log, sent(at+time.Duration(file)*30*time.Millisecond, fmt.Sprintf("visitor%d", c), "/"))
				}
				at += time.Duration(2+random.IntN(60)) * time.Second
			}
		}
	}
	n := len(log) * 15 / 85
	begin := time.Duration(random.Int64N(int64(max(1, 23*time.Hour-time.Duration(n)*pause))))
	for i := range n {
		log = append(log, sent(begin+time.Duration(i)*pause, "scanner", "/"))
	}
	return sorted(log)
}

func sorted(log entries) entries {
	slices.SortStableFunc(log, func(a, b accesslog.Entry) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return log
}

// Of 181 clients no share of 99.9% can be estimated. The limit denies only the scanner, whatever its pace.
func TestGapLeavesOutAScanner(t *testing.T) {
	testpass.Thorough(t)
	for _, pause := range []time.Duration{0, 10 * time.Millisecond, 200 * time.Millisecond, time.Second, 25 * time.Second} {
		for seed := range uint64(2) {
			rep := run(t, perIP, 99.9, scanned(seed, pause))
			c := rep.Chosen
			if rep.Clients != 181 || rep.TooFew != 2995 || c.Hit != 1 || c.Gap == nil || c.Gap.Clients != 1 || c.Most[0].Key != "ip:scanner" || c.Most[0].Burst != c.Gap.Above {
				t.Errorf("seed %d, a request every %v: got %+v; want only the scanner to be hit", seed, pause, c)
				continue
			}
			if below := c.Most[1].Burst; below != c.Gap.Below || c.Burst < below || c.Burst >= c.Gap.Above {
				t.Errorf("seed %d, a request every %v: got %+v; want a burst in the gap", seed, pause, c)
			}
			if check := rep.Checked; check != nil && (!check.Holds() || check.Hit > 1) {
				t.Errorf("seed %d, a request every %v: got %+v; want the second half to be like the first", seed, pause, check)
			}
			t.Logf("every %v: %s, gap %+v", pause, c.Limit, *c.Gap)
		}
	}
}

// Without a gap, or with --keep 100, the limit hits nobody.
func TestLimitWithoutAGapHitsNobody(t *testing.T) {
	log := scanned(1, time.Second)
	rep := run(t, perIP, 100, slices.Clone(log))
	expect.True(t, rep.Chosen.Hit == 0 && rep.Chosen.Gap == nil, "all clients are to be kept: got %+v", rep.Chosen)
	rep = run(t, perIP, 99.9, slices.DeleteFunc(log, func(e accesslog.Entry) bool { return e.Client == "scanner" }))
	expect.True(t, rep.Chosen.Hit == 0 && rep.Chosen.Gap == nil && rep.TooFew == 2995, "nobody stands out: got %+v", rep.Chosen)
}

// If there are enough clients for the share, the gap does not matter.
func TestShareTakesPrecedenceOverTheGap(t *testing.T) {
	var log entries
	for c := range 59 {
		for range 1 + c/58*99 {
			log = append(log, sent(time.Duration(c)*time.Minute, fmt.Sprint(c), "/"))
		}
	}
	rep := run(t, perIP, 95, slices.Clone(log))
	expect.True(t, rep.TooFew == 0 && rep.Chosen.Gap == nil && rep.Chosen.Hit == 0, "59 clients: got %+v", rep.Chosen)
	rep = run(t, perIP, 95, log[1:])
	expect.True(t, rep.TooFew == 59 && rep.Chosen.Gap != nil && rep.Chosen.Hit == 1, "58 clients: got %+v", rep.Chosen)
}

// The gap is where the needed burst drops most steeply, to less than half, with at most 5% of the clients above it.
func TestGaps(t *testing.T) {
	for _, tt := range []struct {
		bursts string // the largest bursts that clients need
		others int    // how many more need 5
		want   Gap
	}{
		{"100", 19, Gap{1, 100, 5}},
		{"100", 18, Gap{}}, // a twentieth of 19 clients is none
		{"11", 19, Gap{1, 11, 5}},
		{"10", 19, Gap{}},
		{"", 40, Gap{}},
		{"100 90", 38, Gap{2, 90, 5}},
		{"100 90", 37, Gap{}},           // two of 39 are too many, and 100 is near 90
		{"100 20", 38, Gap{1, 100, 20}}, // 5 times, and then 4 times
		{"100 25", 38, Gap{2, 25, 5}},
		{"100 21", 37, Gap{1, 100, 21}},
		{"25 25", 38, Gap{2, 25, 5}},
		{"25 25", 37, Gap{}},
		{"100 100 40 13", 76, Gap{3, 40, 13}}, // 2.5 times, 3.1 and 2.6
		{"100 100 40 13", 55, Gap{2, 100, 40}},
	} {
		p := peaksOf()
		for b := range strings.FieldsSeq(tt.bursts) {
			var burst int
			fmt.Sscan(b, &burst)
			p.add(burst)
		}
		for range tt.others {
			p.add(5)
		}
		expect.Equal(t, p.gap(), tt.want, "%s and %d times 5", tt.bursts, tt.others)
	}
}

// A limit leaves room above the other clients' needs, as long as it still hits the clients above the gap.
func TestLimitInAGap(t *testing.T) {
	for g, want := range map[Gap]int{{1, 1000, 5}: 10, {1, 20, 5}: 10, {1, 19, 5}: 9, {1, 11, 5}: 7, {1, 3, 1}: 1} {
		expect.Equal(t, g.burst(), want, "%+v", g)
	}
	expect.Equal(t, peaksOf(2, 3, 5, 7, 7).excess(3), 10, "2 and twice 4")
	for by, want := range map[int]int{50: 0, 49: 1} { // at the slower rate; at the faster, the client exceeds the others by 100
		rates := []Rate{
			{limit: core.PerMinute(1), Burst: 5, Suitable: true, gap: Gap{1, 5 + by, 5}, peaks: peaksOf(5, 5+by)},
			{limit: core.PerSecond(1), Burst: 5, Suitable: true, gap: Gap{1, 105, 5}, peaks: peaksOf(5, 105)},
		}
		expect.Equal(t, choose(rates, time.Minute), want, "by %d: the rate", by)
	}
}

// In the first half alone, no client stands out. That does not remove the gap of the whole log.
func TestFirstHalfDoesNotMoveTheGap(t *testing.T) {
	var log entries
	for half, scanner := range []int{39, 50} {
		for c := range 40 {
			n := 20
			if c == 0 {
				n = scanner
			}
			for range n {
				log = append(log, sent(time.Duration(half*40+c)*time.Hour, fmt.Sprint(c), "/"))
			}
		}
	}
	rep := run(t, perIP, 99.9, log)
	if c := rep.Chosen; rep.Checked.Burst != 40 || c.Burst != 35 || *c.Gap != (Gap{1, 50, 20}) {
		t.Errorf("got %+v, and %+v from the first half; want 35, and 40", c, rep.Checked)
	}
}

// In the second half, the limit hits at most as many clients as are above the gap.
func TestCheckOfAGap(t *testing.T) {
	rep, r := Report{Keep: 99.9, Clients: 40, TooFew: 2995}, Rate{gap: Gap{Clients: 1}}
	first, second := peaksOf(100), peaksOf(100)
	for range 19 {
		first.add(5)
		second.add(6)
	}
	c := rep.check(&r, first, second)
	expect.True(t, c.Burst == 10 && c.Hit == 1 && c.Promised == 5 && c.Holds(), "got %+v", c)
	second.add(11)
	c = rep.check(&r, first, second)
	expect.True(t, c.Hit == 2 && !c.Holds(), "got %+v", c)
}
