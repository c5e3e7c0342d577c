package redisx_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
	"github.com/spillgate/spillgate/internal/redisx"
)

// The server keeps the plans of requests. A settlement of a key that also has the state of another tier leaves nothing behind that changes
// the settlements of other keys: here, a refund of the last window gives nothing back to the current one.
func TestSettlementLeavesNothingBehind(t *testing.T) {
	s := redisx.New(redistest.Start(t).Client(t), options)
	s.SetClock(func() time.Time { return start })
	day := []core.Limit{core.PerMinute(9).Using(core.FixedWindow), core.PerHour(50).Using(core.SlidingWindow)}
	other := claimOf("other", day[0], core.PerHour(40).Using(core.SlidingWindow))
	other.Limits[1].Buckets = 2
	first, c := claimOf("other", day...), claimOf("k", day...)
	c.Cost = 3
	take(t, s, other)
	take(t, s, first)
	take(t, s, c)
	more := settledAt(start, first)
	more[0].Final = 4
	s.Shift(time.Minute)
	take(t, s, c)
	for _, some := range [][]core.Settlement{more, settledAt(start, c)} {
		must.Do(t, s.Settle(t.Context(), some))
	}
	if r := take(t, s, claimOf("k", day...)); r[0].Remaining != 5 || r[1].Remaining != 46 {
		t.Errorf("%d remain of the window and %d of the sliding window, want 5 and 46", r[0].Remaining, r[1].Remaining)
	}
}
