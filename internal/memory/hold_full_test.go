package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// A pair in a full store must not be laxer for what it holds, nor for a ban.
func TestFullStoreSharesHoldsAndBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := atOnce(2)
		s := New(1, nil)
		take(s, "live", limitOf(t, algorithm.TokenBucket, 1, time.Minute), 1)
		x, y := sharing(s)
		hold(s, x, l)
		hold(s, y, l)
		if asks, _ := hold(s, x, l); asks[0].Retry == 0 {
			t.Error("a third request in flight of two pairs that share")
		}
		time.Sleep(2 * time.Minute)
		for range 2 { // x has a record of its own now, and y has none
			hold(s, x, l)
		}
		if asks, _ := hold(s, x, l); asks[0].Retry == 0 {
			t.Error("a third request in flight of a pair of its own")
		}
		if asks, _ := hold(s, y, l); asks[0].Retry != 0 {
			t.Error("what a pair holds on its own is in the way of one that shares")
		}
		audit(t, s)
		ban(s, y, time.Hour)
		if a := take(s, y, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1); a.Retry != time.Hour.Microseconds() {
			t.Errorf("a banned pair that shares: %+v", a.Retry)
		}
		if a := take(s, x, limitOf(t, algorithm.TokenBucket, 9, time.Hour), 1); a.Retry != 0 {
			t.Errorf("another pair is banned: %+v", a.Retry)
		}
		time.Sleep(3 * time.Minute) // all is idle but the ban
		take(s, y, limitOf(t, algorithm.TokenBucket, 9, time.Minute), 1)
		if a := take(s, y, limitOf(t, algorithm.TokenBucket, 9, time.Minute), 1); a.Retry == 0 {
			t.Error("the ban is lost when the pair gets a record of its own")
		}
		audit(t, s)
	})
}

// Many pairs need a record in one request; then none may be lost.
func TestHoldsOfManyPairsInOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1000, nil)
		l := limitOf(t, algorithm.TokenBucket, 2, time.Hour)
		for round := range 3 {
			var asks []query
			for i := range 200 {
				asks = append(asks, query{Pair: s.Pair("rule", string(rune(i))), Limit: l, Claim: i, Cost: 1, Hold: true})
			}
			decide(s, asks)
			for i := range asks {
				if (asks[i].Retry == 0) != (round < 2) {
					t.Fatalf("round %d, pair %d: retry %d", round, i, asks[i].Retry)
				}
			}
		}
		audit(t, s)
	})
}
