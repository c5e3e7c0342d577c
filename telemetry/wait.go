package telemetry

import (
	"slices"
	"sync/atomic"
	"time"
)

// WaitBuckets are the upper bounds of the histogram of waits, inclusive. No wait is longer than the last bound.
var WaitBuckets = []time.Duration{
	10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
}

// waits counts the requests that had to wait for their turn under a rule.
type waits struct {
	buckets [12]atomic.Uint64 // of WaitBuckets
	total   atomic.Int64      // nanoseconds
}

// count counts a wait, if there is one.
func (w *waits) count(d time.Duration) {
	if d <= 0 {
		return
	}
	i, _ := slices.BinarySearch(WaitBuckets, d)
	w.buckets[min(i, len(WaitBuckets)-1)].Add(1)
	w.total.Add(int64(d))
}

// waited returns how long requests had to wait under r.
func (r *rule) waited() Waits {
	w := Waits{Rule: r.name, Duration: time.Duration(r.waits.total.Load())}
	for i := range r.waits.buckets {
		w.Buckets = append(w.Buckets, r.waits.buckets[i].Load())
		w.Count += w.Buckets[i]
	}
	return w
}
