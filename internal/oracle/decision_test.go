package oracle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

func TestOneDeniedClaimLeavesAllUncharged(t *testing.T) {
	var m oracle.Model
	other := core.Claim{Key: "other", Limits: []core.Limit{limit("10/m"), limit("1/h")}, Cost: 1}
	expect(t, m.Take(start, []core.Claim{claim("5/m", 2), other}), "yes 3", "yes 9", "yes 0")
	expect(t, m.Take(start, []core.Claim{claim("5/m", 2), other}), "yes 3", "yes 9", "no 0")
}

func TestSamePairTwiceIsDecidedForTheSum(t *testing.T) {
	var m oracle.Model
	expect(t, m.Take(start, []core.Claim{claim("5/m", 3), claim("5/m", 3)}), "no 5", "no 5")
	expect(t, m.Take(start, []core.Claim{claim("5/m", 3), claim("5/m", 2)}), "yes 0", "yes 0")
}

func TestPeekChargesNothing(t *testing.T) {
	var m oracle.Model
	peek := claim("5/m", 5)
	peek.Peek = true
	expect(t, m.Take(start, []core.Claim{peek, claim("5/m", 3)}), "yes 2", "yes 2")
	expect(t, m.Take(start, []core.Claim{peek, claim("5/m", 1)}), "no 2", "yes 2")
}

func TestDryRunNeverDenies(t *testing.T) {
	var m oracle.Model
	dry := claim("5/m", 3)
	dry.DryRun = true
	expect(t, m.Take(start, []core.Claim{dry, claim("5/m", 1)}), "dry yes 1", "yes 1")
	expect(t, m.Take(start, []core.Claim{dry, claim("5/m", 1)}), "dry no 0", "yes 0")
	m.Reset(start, []core.Pair{{Rule: "r", Key: "k"}})
	expect(t, m.Take(start, []core.Claim{dry, dry}), "dry no 5", "dry no 5")
	expect(t, m.Take(start, []core.Claim{dry, claim("5/m", 6)}), "dry yes 5", "no 5")
}

func TestResetForgetsAllTiersOfOneKey(t *testing.T) {
	var m oracle.Model
	other := claim("5/m", 1)
	other.Key = "other"
	m.Take(start, []core.Claim{claim("5/m", 5), claim("5/h;fixed-window", 2), other})
	m.Reset(start, []core.Pair{{Rule: "r", Key: "k"}})
	expect(t, m.Take(start, []core.Claim{claim("5/m", 1), claim("5/h;fixed-window", 1), other}), "yes 4", "yes 4", "yes 3")
}

func TestRefundOfAChargeBeforeAReset(t *testing.T) {
	for _, algorithm := range []string{"", ";fixed-window", ";sliding-window", ";sliding-log"} {
		var m oracle.Model
		c := []core.Claim{claim("10/m"+algorithm, 4)}
		m.Take(start, c)
		m.Reset(start+1, []core.Pair{{Rule: "r", Key: "k"}})
		m.Take(start+1, []core.Claim{claim("10/m"+algorithm, 5)})
		m.Refund(start+1, start, c)
		expect(t, m.Take(start+1, []core.Claim{claim("10/m"+algorithm, 1)}), "yes 4")
	}
}

// A peek, a denied request and a dry run that does not fit leave the other rates of a bucket as they are.
func TestWhatIsNotChargedWritesNothing(t *testing.T) {
	peek, dry := claim("1/h;burst=20", 1), claim("1/h;burst=20", 1)
	peek.Peek, dry.DryRun = true, true
	for _, c := range []core.Claim{peek, dry, claim("1/h;burst=20", 1), claim("1/h;burst=20", 30)} {
		var m oracle.Model
		m.Take(start, []core.Claim{claim("3600/h;burst=20", 20)})
		m.Take(start, []core.Claim{c})
		expect(t, m.Take(start+2*second, []core.Claim{claim("3600/h;burst=20", 2)}), "yes 0")
	}
}

func TestRefundLowersTheBucketOfItsRate(t *testing.T) {
	var m oracle.Model
	strict, lax := claim("1/h;burst=20", 8), claim("3600/h;burst=20", 1)
	peek := claim("1/h;burst=20", 1)
	peek.Peek = true
	m.Take(start, []core.Claim{strict})
	m.Take(start, []core.Claim{lax})
	m.Refund(start, start, []core.Claim{strict})
	expect(t, m.Take(start, []core.Claim{peek}), "yes 11") // the lax bucket has 9 for 9 seconds
	expect(t, m.Take(start+9*second, []core.Claim{peek}), "yes 20")
	m.Refund(start+9*second, start, []core.Claim{strict})
	expect(t, m.Take(start+9*second, []core.Claim{strict}), "yes 12")
}

// A charge on top of a fuller bucket hides what was charged before, so a later refund of that gives back only what cannot have drained.
func TestRefundAfterAFullerBucketOfAnotherRate(t *testing.T) {
	var m oracle.Model
	strict, lax := claim("1/h;burst=20", 10), claim("3600/h;burst=30", 2)
	m.Take(start, []core.Claim{strict})
	m.Take(start, []core.Claim{lax})                               // 12
	expect(t, m.Take(start+7*second, []core.Claim{lax}), "yes 18") // 9.998 + 2, because the lax bucket has drained to 5
	m.Refund(start+7*second, start, []core.Claim{lax})             // its two have drained
	expect(t, m.Take(start+7*second, []core.Claim{claim("3600/h;burst=30", 1)}), "yes 17")
}

func TestRefundLowersEveryWidth(t *testing.T) {
	var m oracle.Model
	narrow, wide := claim("9/m;sliding-window;buckets=60", 3), claim("9/m;sliding-window;buckets=2", 4)
	m.Take(start, []core.Claim{wide})
	m.Take(start, []core.Claim{narrow})
	m.Refund(start, start, []core.Claim{narrow})
	m.Refund(start, start, []core.Claim{wide})
	expect(t, m.Take(start, []core.Claim{narrow}), "yes 6")
}

func TestALogCountsTenThousandRequests(t *testing.T) {
	var m oracle.Model
	c := core.Claim{Rule: "r", Key: "k", Limits: core.MustParseLimits("1000/m;sliding-log")}
	s := oracle.Settlement(c, time.UnixMicro(start))
	s.Final = 50_000
	m.Take(start, []core.Claim{c})
	settle(t, &m, start, []core.Settlement{s})
	s.Cost, s.Final = 9_500, 0
	settle(t, &m, start, []core.Settlement{s})
	expect(t, m.Take(start, []core.Claim{c}), "yes 499")
}

func TestRefund(t *testing.T) {
	for name, c := range map[string]struct {
		limit            string
		first, second    int   // costs
		at, refund, look int64 // instants: of the second take, of the first take's refund, of the peek
		remaining        int
	}{
		"all of it if nothing was charged since":                      {"10/m", 10, 0, 0, 30 * second, 30 * second, 10},
		"10 less the 5 that may have drained":                         {"10/m", 10, 3, 30 * second, 30 * second, 30 * second, 7},
		"one at least, while the bucket held as much ever since":      {"10/m", 2, 2, 6 * second, 60 * second, 6 * second, 8},
		"nothing, since it may have drained before the second charge": {"10/m", 1, 1, 6 * second, 7 * second, 6 * second, 9},
		"a window that is over":                                       {"10/m;fixed-window", 4, 3, 60 * second, 60 * second, 60 * second, 7},
		"the window that lasts":                                       {"10/m;fixed-window", 4, 3, 59 * second, 59 * second, 59 * second, 7},
		"the sub-bucket alone":                                        {"10/m;sliding-window", 4, 3, 6 * second, 6 * second, 6 * second, 7},
		"what the log knows of that instant":                          {"10/m;sliding-log", 4, 3, 1, 2, 2, 7},
		"what no longer counts in the log":                            {"10/m;sliding-log", 4, 3, 60 * second, 60 * second, 60 * second, 7},
	} {
		t.Run(name, func(t *testing.T) {
			var m oracle.Model
			first := []core.Claim{claim(c.limit, c.first)}
			m.Take(start, first)
			if c.second > 0 {
				m.Take(start+c.at, []core.Claim{claim(c.limit, c.second)})
			}
			m.Refund(start+c.refund, start, first)
			peek := claim(c.limit, 1)
			peek.Peek = true
			if got := m.Take(start+c.look, []core.Claim{peek})[0].Remaining; got != c.remaining {
				t.Errorf("%d remain, want %d", got, c.remaining)
			}
		})
	}
}

func TestClockStepsBack(t *testing.T) {
	for name, c := range map[string]struct {
		limit     string
		cost      int
		back      int64
		remaining int
		reset     time.Duration
	}{
		"what would have drained is still to drain":      {"10/m", 2, 12 * second, 6, 24 * time.Second},
		"no more than a full bucket":                     {"10/m", 2, 3600 * second, 0, time.Minute},
		"the count of a later window stands in this one": {"10/m;fixed-window", 2, 90 * second, 8, 30 * time.Second},
		"later sub-buckets count as the current one":     {"10/m;sliding-window", 2, 3600 * second, 8, 66 * time.Second},
		"later instants count as now":                    {"10/m;sliding-log", 2, 3600 * second, 8, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var m oracle.Model
			m.Take(start, []core.Claim{claim(c.limit, c.cost)})
			peek := claim(c.limit, 1)
			peek.Peek = true
			for range 2 { // the first peek must not change the second
				got := m.Take(start-c.back, []core.Claim{peek})[0]
				if got.Remaining != c.remaining || got.ResetAfter != c.reset {
					t.Errorf("%d remain, reset after %v; want %d, %v", got.Remaining, got.ResetAfter, c.remaining, c.reset)
				}
			}
		})
	}
}

// A million per ten years counts in seconds: capacity × period is 3.2e14 s, 3.2e17 ms.
func TestTimeCountsInTicks(t *testing.T) {
	var m oracle.Model
	big := core.Every(1_000_000, 10*365*24*time.Hour)
	take := func(now int64, cost int) core.Result {
		return m.Take(now, []core.Claim{{Rule: "r", Key: "k", Limits: []core.Limit{big}, Cost: cost}})[0]
	}
	take(start, 1_000_000)
	// A request takes 315.36 s, so it is there after 316.
	if got := take(start+300*second-1, 1).RetryAfter; got != 16*time.Second+time.Microsecond {
		t.Errorf("after 300s less 1µs: retry after %v", got)
	}
	if got := take(start+316*second+5, 1); !got.Allowed {
		t.Errorf("after 316s: %+v", got)
	}
	// 5 µs of the tick have passed already. 2 requests took 630.72 s from the start, so 631.
	if got := take(start+630*second, 1).RetryAfter; got != time.Second {
		t.Errorf("after 630s: retry after %v", got)
	}
}

// expect compares results with words such as "yes 3", "no 0" or "dry no 5": whether the request is allowed, and how much remains.
func expect(t *testing.T, got []core.Result, want ...string) {
	t.Helper()
	for i, r := range got {
		words := fmt.Sprintf("no %d", r.Remaining)
		if r.Allowed {
			words = fmt.Sprintf("yes %d", r.Remaining)
		}
		if r.DryRun {
			words = "dry " + words
		}
		if words != want[i] {
			t.Errorf("result %d: %s, want %s", i, words, want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d results, want %d", len(got), len(want))
	}
}
