package telemetry_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/telemetry"
)

// TestWaits checks that the waits of allowed requests are counted by rule, that a dry run counts the requests that
// would wait or be denied, and the number of waiting requests.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := telemetry.New(telemetry.Options{})
		limits := []core.Limit{core.PerSecond(1)}
		l := core.Must(core.New([]core.Rule{
			{Name: "webhooks", Limits: limits, MaxWait: 3 * time.Second}, {Name: "trial", Limits: limits, MaxWait: time.Second, DryRun: true},
		}, core.WithObserver(tel.Observe)))
		tel.Attach(l)
		var all sync.WaitGroup
		for range 5 { // one is admitted at once, three wait, one is denied
			all.Go(func() {
				_, _ = l.Wait(t.Context(), core.Claim{Rule: "webhooks", Key: "k"}, core.Claim{Rule: "trial", Key: "k"})
			})
		}
		synctest.Wait()
		if n := tel.Snapshot().Waiting; n != 3 {
			t.Errorf("%d requests wait, want 3", n)
		}
		all.Wait()
		s := tel.Snapshot()
		waits := make(map[string]telemetry.Waits)
		for _, w := range s.Waits {
			waits[w.Rule] = w
		}
		w, dry := waits["webhooks"], waits["trial"]
		if w.Count != 3 || w.Duration != 6*time.Second || w.Buckets[4] != 1 || w.Buckets[5] != 2 || dry.Count != 0 || s.Waiting != 0 {
			t.Errorf("waits %+v, of the dry run %+v, %d wait", w, dry, s.Waiting)
		}
		results := make(map[string]uint64)
		for _, r := range s.Results {
			if r.Rule == "trial" {
				results[r.Result] += r.Count
			}
		}
		if results["would_wait"] != 1 || results["would_deny"] != 3 || results["near"] != 1 {
			t.Errorf("results of the dry run: %v", results)
		}
	})
}
