package oracle_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
	"github.com/spillgate/spillgate/internal/testpass"
	"pgregory.net/rapid"
)

func waiting(s string, cost int, most time.Duration) core.Claim {
	c := claim(s, cost)
	c.MaxWait = most
	return c
}

// giveBack returns the settlement that gives back a claim with this result.
func giveBack(c core.Claim, r core.Result) []core.Settlement {
	return oracle.Settled([]core.Claim{c}, []core.Result{r})
}

func settle(t *testing.T, m *oracle.Model, now int64, some []core.Settlement) {
	t.Helper()
	if err := m.Settle(now, some); err != nil {
		t.Fatal(err)
	}
}

// TestBooking checks that requests that do not fit get consecutive turns, and are denied if their turn would be too late.
func TestBooking(t *testing.T) {
	var m oracle.Model
	c := waiting("10/s;burst=1", 1, 250*msec)
	for i, want := range []time.Duration{0, 100 * msec, 200 * msec} {
		if r := m.Take(start, []core.Claim{c})[0]; !r.Allowed || r.Wait != want || r.RetryAfter != 0 || r.Remaining != 0 {
			t.Errorf("request %d: %+v, want a wait of %v", i, r, want)
		}
	}
	if r := m.Take(start, []core.Claim{c})[0]; r.Allowed || r.Wait != 0 || r.RetryAfter != 50*msec {
		t.Errorf("%+v, want a denial, and a retry after 50ms", r)
	}
	if r := m.Take(start+50*ms, []core.Claim{c})[0]; !r.Allowed || r.Wait != 250*msec {
		t.Errorf("%+v, want a wait of 250ms", r)
	}
}

// TestBookingIsGivenBack checks how much a request gives back before and after its turn.
func TestBookingIsGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		limit     string
		costs     []int // of requests at one instant
		give      int   // the index of the request that gives its cost back
		at        int64 // and when
		next      int64 // when another request comes
		wait      time.Duration
		remaining int
	}{
		"the last one gives back all":                           {"10/s;burst=1", []int{1, 1, 1}, 2, 50 * ms, 50 * ms, 150 * msec, 0},
		"nobody takes the place of one with others behind it":   {"10/s;burst=1", []int{1, 1, 1}, 1, 50 * ms, 50 * ms, 250 * msec, 0},
		"nor a part of its place":                               {"10/s;burst=5", []int{5, 5, 1}, 1, 0, 0, 700 * msec, 0},
		"one that did not wait, with others behind it":          {"10/s;burst=1", []int{1, 1}, 0, 50 * ms, 50 * ms, 150 * msec, 0},
		"one that did not wait, when those behind it have gone": {"10/s;burst=1", []int{1, 1}, 0, 120 * ms, 120 * ms, 80 * msec, 0},
		"one that has had its turn and is the last":             {"10/s;burst=3", []int{3, 1}, 1, 150 * ms, 150 * ms, 0, 0},
		"one of a bucket that is not used up":                   {"10/s;burst=3", []int{1, 1}, 0, 50 * ms, 50 * ms, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var m oracle.Model
			var claims []core.Claim
			var results []core.Result
			for _, cost := range c.costs {
				claim := waiting(c.limit, cost, time.Minute)
				claims, results = append(claims, claim), append(results, m.Take(start, []core.Claim{claim})[0])
			}
			settle(t, &m, start+c.at, giveBack(claims[c.give], results[c.give]))
			if r := m.Take(start+c.next, []core.Claim{waiting(c.limit, 1, time.Minute)})[0]; !r.Allowed || r.Wait != c.wait || r.Remaining != c.remaining {
				t.Errorf("%+v, want a wait of %v and %d remaining", r, c.wait, c.remaining)
			}
		})
	}
}

// TestBookingsAfterABan checks that the turns of waiting requests begin at the end of a ban.
func TestBookingsAfterABan(t *testing.T) {
	for limit, want := range map[string][]time.Duration{
		"10/s;burst=1": {sec, 1100 * msec, 1200 * msec},
		"10/s;burst=2": {sec, sec, 1100 * msec},
		"1000000/d":    {sec, sec, sec},
	} {
		var m oracle.Model
		settle(t, &m, start, []core.Settlement{{Rule: "r", Key: "k", Ban: sec}})
		for i, wait := range want {
			if r := m.Take(start, []core.Claim{waiting(limit, 1, 2*sec)})[0]; !r.Allowed || r.Wait != wait {
				t.Errorf("%s, request %d: %+v, want a wait of %v", limit, i, r, wait)
			}
		}
		if r := m.Take(start, []core.Claim{waiting(limit, 1, 900*msec)})[0]; r.Allowed || r.RetryAfter < 100*msec || r.RetryAfter > 400*msec {
			t.Errorf("%s: %+v, want a denial until the ban ends within the wait", limit, r)
		}
	}
}

// Requests that wait for a bucket of another rate go one after the other, not all at once when it has room.
func TestBookingsBehindASlowerRate(t *testing.T) {
	var m oracle.Model
	expect(t, m.Take(start, []core.Claim{claim("1/s;burst=3", 3)}), "yes 0")
	for i, want := range []time.Duration{sec, 1100 * msec, 1200 * msec} {
		if r := m.Take(start+100*ms, []core.Claim{waiting("10/s;burst=3", 1, time.Minute)})[0]; !r.Allowed || r.Wait != want-100*msec {
			t.Errorf("request %d: %+v, want a wait of %v", i, r, want-100*msec)
		}
	}
}

// TestNoRequestWaitsForHolds checks that a request is denied, and does not wait, if holds use up the limit.
func TestNoRequestWaitsForHolds(t *testing.T) {
	var m oracle.Model
	held := claim("10/s;burst=1", 1)
	held.Hold = true
	m.Take(start, []core.Claim{held})
	if r := m.Take(start, []core.Claim{waiting("10/s;burst=1", 1, time.Minute)})[0]; r.Allowed || r.RetryAfter != sec {
		t.Errorf("%+v, want a denial for a second", r)
	}
}

// A gone is a request whose turn came at an instant.
type gone struct{ at, cost int64 }

// checkSpans checks that in any span no more than burst + rate × span went on.
func checkSpans(l core.Limit, all []gone) error {
	slices.SortStableFunc(all, func(a, b gone) int { return int(a.at - b.at) })
	for i := range all {
		sum := int64(0)
		for j := i; j < len(all); j++ {
			sum += all[j].cost
			most := big.NewRat(int64(l.Rate)*(all[j].at-all[i].at), l.Period.Microseconds())
			most.Add(most, big.NewRat(int64(l.Capacity()), 1))
			if big.NewRat(sum, 1).Cmp(most) > 0 {
				return fmt.Errorf("%d went on from %d to %d, want at most %v", sum, all[i].at, all[j].at, most.FloatString(6))
			}
		}
	}
	return nil
}

// TestBookingsKeepTheLimit makes, cancels and refunds waiting requests at random, with bans. It checks that no more
// requests go on than the limit allows, that they go on in order, and that the wait of each denial is long enough.
func TestBookingsKeepTheLimit(t *testing.T) {
	testpass.Thorough(t)
	rapid.Check(t, func(t *rapid.T) {
		var m oracle.Model
		l := limit(rapid.SampledFrom([]string{"10/s;burst=1", "10/s;burst=4", "7/s;burst=3", "100/m;burst=20", "3/1ms;burst=2", "90/h;burst=5"}).Draw(t, "limit"))
		each := l.Period.Microseconds() / int64(l.Rate)
		type request struct {
			claim  core.Claim
			result core.Result
		}
		var waiting, went []request
		all := []gone{}
		now, last := int64(start), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 2*each).Draw(t, "after")
			for len(waiting) > 0 && turnOf(waiting[0].result) <= now {
				went, waiting = append(went, waiting[0]), waiting[1:]
			}
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step == 0 && len(waiting) > 0:
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "canceled")
				_ = m.Settle(now, giveBack(waiting[i].claim, waiting[i].result))
				waiting = slices.Delete(waiting, i, i+1)
			case step == 1 && len(went) > 0:
				i := rapid.IntRange(max(0, len(went)-3), len(went)-1).Draw(t, "refunded")
				_ = m.Settle(now, giveBack(went[i].claim, went[i].result))
				went = slices.Delete(went, i, i+1)
			case step == 2:
				ban := time.Duration(rapid.Int64Range(1, 5*each).Draw(t, "ban")) * time.Microsecond
				_ = m.Settle(now, []core.Settlement{{Rule: "r", Key: "k", Ban: ban}})
			default:
				c := core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{l}, Cost: rapid.IntRange(1, l.Capacity()).Draw(t, "cost")}
				c.MaxWait = time.Duration(rapid.Int64Range(1, 20*each).Draw(t, "most")) * time.Microsecond
				r := m.Take(now, []core.Claim{c})[0]
				if !r.Allowed {
					c.Peek = true
					if again := m.Take(now+r.RetryAfter.Microseconds(), []core.Claim{c})[0]; !again.Allowed || again.Wait > c.MaxWait {
						t.Fatalf("%+v\nafter its wait %+v", r, again)
					}
					break
				}
				if turnOf(r) < last && len(waiting) > 0 && turnOf(waiting[len(waiting)-1].result) > turnOf(r) {
					t.Fatalf("%+v goes before %+v", r, waiting[len(waiting)-1].result)
				}
				last = turnOf(r)
				waiting = append(waiting, request{c, r})
			}
		}
		for _, r := range append(went, waiting...) {
			all = append(all, gone{turnOf(r.result), int64(r.claim.Cost)})
		}
		if err := checkSpans(l, all); err != nil {
			t.Fatal(err)
		}
	})
}

func turnOf(r core.Result) int64 { return r.At.Add(r.Wait).UnixMicro() }
