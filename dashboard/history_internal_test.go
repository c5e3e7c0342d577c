package dashboard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// The history covers the time since the page started counting, whatever the clock says.
func TestHistoryIsAsLongAsThePageHasCounted(t *testing.T) {
	h := &handler{telemetry: telemetry.New(telemetry.Options{})}
	for age, want := range map[time.Duration]int{-time.Hour: 1, 0: 2, 5 * time.Second: 7, 3 * time.Hour: historySeconds} {
		from, sums := h.history(age, "", historySeconds)
		if last := from + int64(len(sums[0])) - 1; len(sums[0]) != want || len(sums[2]) != want || time.Now().Unix()-last > 60 {
			t.Errorf("after %v: got %d seconds from %d, want %d", age, len(sums[0]), from, want)
		}
	}
}

func TestRecentCountsOfTenCompleteSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{telemetry: telemetry.New(telemetry.Options{})}
		l := core.Must(core.New([]core.Rule{{Name: "api", Limits: []core.Limit{core.PerDay(100)}}}, core.WithObserver(h.telemetry.Observe)))
		for range 13 { // the last second is not over
			time.Sleep(999 * time.Millisecond)
			must.Get(l.Take(t.Context(), core.Claim{Rule: "api", Key: "k"}))(t)
		}
		must.Equal(t, h.recent("api"), [3]int{10}, "allowed, denied, would deny")
	})
}
