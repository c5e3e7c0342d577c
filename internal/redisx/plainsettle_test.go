package redisx_test

import (
	"context"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// Of these, lua/plainsettle.lua settles the first two alone.
func TestHeldRequestsOfEachKindAreSettled(t *testing.T) {
	for _, limits := range []string{
		"9/m", "9/m, 5 at once", "9/m;fixed-window", "9/m;sliding-window", "9/m;sliding-log", "9/m, 20/h;fixed-window", "9/m;ban=1h", "1000000/52w",
	} {
		for _, dryRun := range []bool{false, true} {
			for _, final := range []int{0, 1, 4} {
				store, _ := frozen(t)
				c := claimOf("k", core.MustParseLimits(limits)...)
				c.Hold, c.DryRun, c.Cost = true, dryRun, 2
				before := take(t, store, c)
				st := oracle.Settlement(c, before[0].At)
				st.Final = final
				if err := store.Settle(context.Background(), []core.Settlement{st}); err != nil {
					t.Fatal(err)
				}
				c.Peek, c.Hold = true, false
				after := take(t, store, c)
				if got, want := after[0].Remaining, before[0].Remaining+2-final; got != want {
					t.Errorf("%s, dry run %t, settled at %d: %d remain, want %d", limits, dryRun, final, got, want)
				}
			}
		}
	}
}

func TestTwoClaimsOfAPairAreSettledAtTheirOwnCosts(t *testing.T) {
	store, _ := frozen(t)
	c := claimOf("k", core.MustParseLimits("9/m, 5 at once")...)
	c.Hold = true
	results := take(t, store, c, c)
	some := settled([]core.Claim{c, c}, results)
	some[0].Final, some[1].Final = 3, 1
	if err := store.Settle(context.Background(), some); err != nil {
		t.Fatal(err)
	}
	c.Peek, c.Hold = true, false
	after := take(t, store, c)
	if after[0].Remaining != 5 || after[1].Remaining != 5 {
		t.Errorf("%d of 9 and %d of 5 places remain, want 5 and 5", after[0].Remaining, after[1].Remaining)
	}
}

func TestClaimsOfTwoPairsAreSettledAtTheirOwnCosts(t *testing.T) {
	store, _ := frozen(t)
	one, two := claimOf("k", core.PerMinute(9)), claimOf("o", core.PerMinute(9))
	one.Hold, two.Hold, two.Cost = true, true, 2
	results := take(t, store, one, two)
	some := settled([]core.Claim{one, two}, results)
	some[0].Final, some[1].Final = 4, 1
	if err := store.Settle(context.Background(), some); err != nil {
		t.Fatal(err)
	}
	one.Peek, one.Hold, two.Peek, two.Hold = true, false, true, false
	if after := take(t, store, one, two); after[0].Remaining != 5 || after[1].Remaining != 8 {
		t.Errorf("%d and %d of 9 remain, want 5 and 8", after[0].Remaining, after[1].Remaining)
	}
}
