package telemetry

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Buckets are the upper bounds of the histogram of store calls, each included. A last bucket without a bound follows.
var Buckets = []time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second,
}

// maxBuckets is the number of Buckets and the last one.
const maxBuckets = 13

// storeCalls counts the calls of stores.
type storeCalls struct {
	buckets  [maxBuckets]atomic.Uint64
	total    atomic.Int64 // nanoseconds
	failures atomic.Uint64
}

// count counts the store call of o, if there was one.
func (s *storeCalls) count(o *core.Observation) {
	if o.Store <= 0 {
		return
	}
	i := 0
	for i < len(Buckets) && o.Store > Buckets[i] {
		i++
	}
	s.buckets[i].Add(1)
	s.total.Add(int64(o.Store))
	if failedCall(o) {
		s.failures.Add(1)
	}
}

// failedCall reports whether the store call of o failed or was late.
func failedCall(o *core.Observation) bool {
	return errors.Is(o.Err, core.ErrUnavailable) || o.Outcome == nil && o.Degraded != nil
}
