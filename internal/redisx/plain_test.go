package redisx_test

import (
	"fmt"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A plain request is read by MGET, which is how the others cannot be taken for it. See lua/plan.lua.
func TestWhichRequestsArePlain(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := redisx.New(client, options)
	for _, row := range []struct {
		why, limits string
		cost        int
		plain       bool
	}{
		{"one bucket", "10/m", 1, true},
		{"several of a pair", "10/s, 100/m", 1, true},
		{"all that a bucket holds", "10/m", 10, true},
		{"more than it ever holds is none", "10/m", 11, false},
		{"nor is a bucket that nothing drains", "0/m", 1, false},
		{"nor one of coarse ticks", "1000000/d", 1, false},
		{"nor another algorithm", "10/m;fixed-window", 1, false},
		{"nor both", "10/m, 10/m;sliding-window", 1, false},
	} {
		flush(t, client)
		c := claimOf("k", core.MustParseLimits(row.limits)...)
		c.Cost = row.cost
		before := calls(t, client, "mget")
		for range 3 { // of a key never seen, of one seen, and of one used up
			take(t, s, c)
		}
		if n, want := calls(t, client, "mget")-before, 3; (n == want) != row.plain || (n == 0) == row.plain {
			t.Errorf("%s: %d of %d are plain", row.why, n, want)
		}
	}
}

// A script passes no more than some 8,000 keys to a command.
func TestARequestMayHaveManyKeys(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	claims := make([]core.Claim, 8001)
	for i := range claims {
		claims[i] = claimOf(fmt.Sprint(i), core.PerMinute(2))
	}
	if r := take(t, s, claims...); !allowed(r) || r[8000].Remaining != 1 {
		t.Errorf("denied, or not charged: %+v", r[8000])
	}
}
