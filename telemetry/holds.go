package telemetry

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/spillgate/spillgate/core"
)

// holds counts the claims of requests that hold a cost until they end.
type holds struct {
	held    atomic.Int64 // claims that are held now
	settled [settlements]atomic.Uint64
}

// The ways in which a request that held a cost was settled.
const (
	settledFree = iota
	settledCharged
	settledFailed
	settlements
)

var settlementNames = [settlements]string{"free", "charged", "failed"}

// begin counts a claim of an allowed request that is to be held.
func (h *holds) begin(results []core.Result) {
	for i := range results {
		if !results[i].Allowed {
			return // a dry run that does not fit holds nothing
		}
	}
	h.held.Add(1)
}

// settled counts the settlement of a request. The request itself was counted when it was decided.
func (t *Telemetry) settled(ctx context.Context, o *core.Observation) {
	t.holds.held.Add(-int64(len(o.Claims)))
	switch {
	case o.Err != nil:
		t.holds.settled[settledFailed].Add(1)
		w := finalFailed
		if errors.Is(o.Err, core.ErrUnavailable) {
			w = settlementFailed
		}
		t.failed(ctx, w, o)
	case o.Charged == 0:
		t.holds.settled[settledFree].Add(1)
	default:
		t.holds.settled[settledCharged].Add(1)
	}
}
