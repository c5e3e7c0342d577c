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

// giveBack returns the settlement that gives back a claim with this result.
func giveBack(c core.Claim, r core.Result) []core.Settlement {
	return oracle.Settled([]core.Claim{c}, []core.Result{r})
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
