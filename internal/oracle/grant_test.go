package oracle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

func grant(t *testing.T, m *oracle.Model, now int64, limit string, n int) {
	t.Helper()
	if err := m.Settle(now, []core.Settlement{{Rule: "r", Key: "k", Limits: core.MustParseLimits(limit), Grant: n}}); err != nil {
		t.Fatal(err)
	}
}

func look(m *oracle.Model, now int64, limit string, cost int) core.Result {
	c := claim(limit, cost)
	c.Peek = true
	return m.Take(now, []core.Claim{c})[0]
}

// After 4 of 10 and a grant of 8, the limit is 18.
func TestAGrantRaisesTheLimit(t *testing.T) {
	for limit, reset := range map[string]time.Duration{
		"10/m;fixed-window": time.Minute, "10/day;calendar": time.Minute, "10/m;sliding-log": time.Minute, "10/m;sliding-window": 66 * sec,
	} {
		var m oracle.Model
		m.Take(start, []core.Claim{claim(limit, 4)})
		grant(t, &m, start, limit, 8)
		if r := look(&m, start, limit, 14); !r.Allowed || r.Remaining != 14 || r.Granted != 8 || r.RefillAfter != reset || r.ResetAfter != reset {
			t.Errorf("%s: %+v, want 14 of 18 and a reset after %v", limit, r, reset)
		}
		expect(t, m.Take(start, []core.Claim{claim(limit, 15)}), "no 14")
		expect(t, m.Take(start, []core.Claim{claim(limit, 12)}), "yes 2")
		grant(t, &m, start, limit, -5)
		expect(t, m.Take(start, []core.Claim{claim(limit, 1)}), "no 0")
	}
}

func TestAGrantChangesNoUsage(t *testing.T) {
	var m oracle.Model
	grant(t, &m, start, "10/m;sliding-log", 8)
	if r := look(&m, start, "10/m;sliding-log", 18); !r.Allowed || r.Remaining != 18 || r.ResetAfter != 0 || r.RefillAfter != 0 {
		t.Errorf("%+v, want 18 of 18 and nothing missing", r)
	}
	grant(t, &m, start, "10/m;sliding-log", -11)
	if r := look(&m, start, "10/m;sliding-log", 7); !r.Allowed || r.Granted != -3 || r.Remaining != 7 || r.ResetAfter != 0 || r.RefillAfter != 0 {
		t.Errorf("%+v, want 7 of 7 and nothing missing", r)
	}
	grant(t, &m, start, "10/m;sliding-log", 11)
	all := claim("10/m;sliding-log", 18)
	m.Take(start, []core.Claim{all})
	m.Refund(start, start, []core.Claim{all})
	expect(t, m.Take(start, []core.Claim{all}), "yes 0")
}

// RetryAfter is the first instant at which the cost fits, which may be before a grant ends, after a negative one ends, or never.
func TestWaitsUnderGrants(t *testing.T) {
	const log, window = "10/m;sliding-log", "10/m;fixed-window"
	var m oracle.Model
	m.Take(start, []core.Claim{claim(log, 10)})
	grant(t, &m, start+40*second, log, 8) // until 100 s
	for cost, want := range map[int]time.Duration{8: 0, 9: 20 * sec, 18: 20 * sec, 19: core.Never} {
		if r := look(&m, start+40*second, log, cost); r.RetryAfter != want {
			t.Errorf("log, cost %d: %v, want %v", cost, r.RetryAfter, want)
		}
	}
	m = oracle.Model{}
	m.Take(start, []core.Claim{claim(window, 10)})
	grant(t, &m, start+40*second, window, 8) // until the window ends
	for cost, want := range map[int]time.Duration{8: 0, 9: 20 * sec, 10: 20 * sec, 11: core.Never} {
		if r := look(&m, start+40*second, window, cost); r.RetryAfter != want {
			t.Errorf("window, cost %d: %v, want %v", cost, r.RetryAfter, want)
		}
	}
	m = oracle.Model{}
	grant(t, &m, start, log, -3)
	if r := look(&m, start+10*second, log, 9); r.RetryAfter != 50*sec || r.Remaining != 7 || r.Granted != -3 {
		t.Errorf("%+v, want a wait until the grant ends", r)
	}
}

// Of a thousand requests none is left an hour after they were granted, whatever is granted meanwhile.
func TestEachGrantKeepsItsEnd(t *testing.T) {
	const hour = 3600 * second
	for _, limit := range []string{"10/h;sliding-log", "10/h;sliding-window"} {
		for _, later := range []int{1, -1} {
			var m oracle.Model
			begun := int64(start/hour*hour + hour)
			grant(t, &m, begun, limit, 1000)
			grant(t, &m, begun+50*60*second, limit, later)
			if r := look(&m, begun+hour-1, limit, 1); r.Remaining != 1010+later || r.Granted != 1000+later {
				t.Errorf("%s: %+v, want both grants", limit, r)
			}
			if r := look(&m, begun+hour, limit, 1); r.Remaining != 10+later || r.Granted != later {
				t.Errorf("%s: %+v, want the later grant alone", limit, r)
			}
			if r := look(&m, begun+hour+50*60*second, limit, 1); r.Remaining != 10 || r.Granted != 0 {
				t.Errorf("%s: %+v, want no grant", limit, r)
			}
		}
	}
}

// The first two grants are at 0 s and 1 s. As one, they never add more than as two.
func TestASixtyFirstGrantMakesOneOfTwo(t *testing.T) {
	for _, tt := range []struct{ first, second, between, after int }{
		{4, 3, 59, 59},   // 4 + 3 until the first ends
		{-4, 3, 59, 59},  // -4 + 3 until the first ends
		{-4, -3, 52, 59}, // -4 - 3 until the second ends
		{4, -3, 56, 59},  // -3 until the second ends
	} {
		var m oracle.Model
		grant(t, &m, start, "100/h;sliding-log", tt.first)
		grant(t, &m, start+second, "100/h;sliding-log", tt.second)
		for i := range int64(59) {
			grant(t, &m, start+(2+i)*second, "100/h;sliding-log", 1)
		}
		between, after := look(&m, start+3600*second, "100/h;sliding-log", 1).Granted, look(&m, start+3601*second, "100/h;sliding-log", 1).Granted
		if between != tt.between || after != tt.after {
			t.Errorf("%d and %d: %d and then %d are granted, want %d and %d", tt.first, tt.second, between, after, tt.between, tt.after)
		}
	}
}

func TestALogIsNotGrantedMoreThanItHolds(t *testing.T) {
	var m oracle.Model
	grant(t, &m, start, "1000/m;sliding-log", 9000)
	more := []core.Settlement{{Rule: "r", Key: "k", Ban: sec}, {Rule: "r", Key: "k", Limits: core.MustParseLimits("1000/m;sliding-log"), Grant: 1}}
	if err := m.Settle(start, more); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("error %v, want ErrInvalid", err)
	}
	if r := look(&m, start, "1000/m;sliding-log", 10_000); !r.Allowed || r.Granted != 9000 {
		t.Errorf("%+v, want a log of 10,000 and no ban", r)
	}
	grant(t, &m, start, "1000/m;sliding-log", -1)
	grant(t, &m, start, "1000/m;sliding-log", 1)
}

// A grant to a bucket lowers the buckets of all rates, but shortens no ban.
func TestAGrantToABucket(t *testing.T) {
	var m oracle.Model
	m.Take(start, []core.Claim{claim("10/m", 8)})
	m.Take(start, []core.Claim{claim("100/m", 1)}) // 9
	grant(t, &m, start, "10/m", 3)
	expect(t, m.Take(start, []core.Claim{claim("10/m", 1)}), "yes 3")
	grant(t, &m, start, "10/m", -2)
	expect(t, m.Take(start, []core.Claim{claim("10/m", 2)}), "no 1")
	m = oracle.Model{}
	m.Take(start, []core.Claim{claim("5/10m;ban=1h", 5)})
	grant(t, &m, start, "5/10m;ban=1h", 3)
	grant(t, &m, start, "100/10m", 3)
	expect(t, m.Take(start, []core.Claim{claim("100/10m", 1)}), "yes 97")
	if r := look(&m, start, "5/10m;ban=1h", 1); r.RetryAfter != time.Hour {
		t.Errorf("%+v, want a ban of an hour", r)
	}
}
