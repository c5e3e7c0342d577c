package oracle_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

func held(c core.Claim) core.Claim {
	c.Hold = true
	return c
}

// A hold of the first instant of a minute ends 66 seconds later.
const ends = start + 66*second

func TestAnEndedHoldIsChargedToTheLimitsOfItsClaim(t *testing.T) {
	var m oracle.Model
	first, second := claim("9/d", 2), claim("9/3d;fixed-window", 3)
	first.Limits = append(first.Limits, core.AtOnce(2))
	m.Take(start, []core.Claim{claim("9/2d", 1), claim("9/3d;fixed-window", 1)})
	m.Take(start, []core.Claim{held(first)})
	m.Take(start, []core.Claim{held(second)})
	expect(t, m.Take(ends-1, []core.Claim{held(first)}), "yes 4", "no 0") // 5 are held, by two requests
	for limit, want := range map[string]string{"9/d": "yes 7", "9/2d": "yes 8", "9/3d;fixed-window": "yes 5", "2 at once": "yes 2"} {
		c := claim(limit, 1)
		c.Peek = true
		expect(t, m.Take(ends, []core.Claim{c}), want)
	}
}

// The charge is made at the end of the hold, whatever asks first after it: two of six a minute have drained 20 seconds later.
func TestAnEndedHoldIsChargedAtItsEnd(t *testing.T) {
	var m oracle.Model
	m.Take(start, []core.Claim{held(claim("2/m;sliding-window;buckets=60", 2))})
	m.Take(start, []core.Claim{held(claim("6/m", 4))})
	m.Take(ends+20*second, []core.Claim{claim("1/h", 1)})
	if r := look(&m, ends+20*second, "6/m", 5); r.Remaining != 4 || r.RetryAfter != 10*sec {
		t.Errorf("%+v, want 2 of 6 used", r)
	}
	if r := look(&m, ends+20*second, "2/m;sliding-window;buckets=60", 1); r.RetryAfter != 41*sec {
		t.Errorf("%+v, want a wait until a minute after the sub-bucket of the hold's end", r)
	}
}

// A hold is charged to the bucket of its own rate, on top of what others hold, and begins the ban of its own limit.
func TestAnEndedHoldAmongTiers(t *testing.T) {
	var m oracle.Model
	m.Take(start, []core.Claim{claim("10/d", 4)})
	m.Take(start, []core.Claim{held(claim("100/d", 3))})
	if r := look(&m, ends, "10/d", 1); r.Remaining != 3 {
		t.Errorf("%+v, want 7 of 10 used", r)
	}
	if r := look(&m, ends+7*86400*second/100, "10/d", 1); r.Remaining != 6 {
		t.Errorf("%+v, want 4 of 10 used, less what has drained", r)
	}
	m = oracle.Model{}
	m.Take(start, []core.Claim{held(claim("5/10m;ban=1h", 5))})
	if r := look(&m, ends, "100/10m", 1); r.Remaining != 95 || !r.Allowed {
		t.Errorf("%+v, want 5 of 100 used and no ban", r)
	}
	if r := look(&m, ends, "5/10m;ban=1h", 1); r.RetryAfter != time.Hour {
		t.Errorf("%+v, want a ban of an hour", r)
	}
}

func TestAHoldIsReleasedByTheLimitsOfItsClaim(t *testing.T) {
	var m oracle.Model
	m.Take(start, []core.Claim{held(claim("10/d", 4))})
	m.Take(start, []core.Claim{held(claim("10/h", 3))})
	s := oracle.Settlement(held(claim("10/h", 3)), time.UnixMicro(start))
	settle(t, &m, start, []core.Settlement{s})
	if cost, count, _ := m.Held(start, "r", "k"); cost != 4 || count != 1 {
		t.Errorf("%d held by %d requests, want 4 by 1", cost, count)
	}
	if r := look(&m, ends, "10/d", 1); r.Remaining != 6 {
		t.Errorf("%+v, want 4 of 10 used", r)
	}
	if r := look(&m, ends, "10/h", 1); r.Remaining != 10 {
		t.Errorf("%+v, want nothing used", r)
	}
}

func TestALateSettlementCorrectsWhatWasChargedAtTheEnd(t *testing.T) {
	for final, want := range map[int]int{0: 10, 1: 9, 4: 6, 7: 3} {
		var m oracle.Model
		c := held(claim("10/d", 4))
		m.Take(start, []core.Claim{c})
		s := oracle.Settlement(c, time.UnixMicro(start))
		s.Final = final
		settle(t, &m, ends+second, []core.Settlement{s})
		if r := look(&m, ends+second, "10/d", 1); r.Remaining != want {
			t.Errorf("settled at %d: %d remain, want %d", final, r.Remaining, want)
		}
	}
}

func TestARenewedHoldEndsAMinuteLater(t *testing.T) {
	var m oracle.Model
	c := held(claim("10/d", 4))
	m.Take(start, []core.Claim{c})
	s := []core.Settlement{oracle.Settlement(c, time.UnixMicro(start))}
	s[0].Renew = true
	if err := m.Settle(start+60*second, s); err != nil || s[0].At.UnixMicro() != start+60*second {
		t.Fatal(err, s[0].At)
	}
	if cost, _, _ := m.Held(ends+60*second-1, "r", "k"); cost != 4 {
		t.Errorf("%d are held, want 4", cost)
	}
	if r := look(&m, ends+60*second, "10/d", 1); r.Remaining != 6 {
		t.Errorf("%+v, want 4 of 10 used", r)
	}
}

func TestAResetForgetsWhatIsChargedAndKeepsWhatIsHeld(t *testing.T) {
	var m oracle.Model
	m.Take(start, []core.Claim{claim("10/d", 5)})
	m.Take(start, []core.Claim{held(claim("10/d", 2))})
	grant(t, &m, start, "10/d;sliding-log", 5)
	m.Reset(start+second, []core.Pair{{Rule: "r", Key: "k"}})
	if r := look(&m, start+second, "10/d", 1); r.Remaining != 8 {
		t.Errorf("%+v, want 2 of 10 held", r)
	}
	if r := look(&m, start+second, "10/d;sliding-log", 1); r.Granted != 0 {
		t.Errorf("%+v, want no grant", r)
	}
	if r := look(&m, ends, "10/d", 1); r.Remaining != 8 {
		t.Errorf("%+v, want 2 of 10 used", r)
	}
}
