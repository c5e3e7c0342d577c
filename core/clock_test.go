package core_test

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/oracle"
)

// A replay is a store on a clock of the test's choosing, which may go back.
type replay struct {
	store core.MemoryStore
	now   int64 // microseconds
}

// take is without an error, since the claim is valid.
func (r *replay) take(now int64, claims []core.Claim) core.Result {
	r.now = now
	results, _ := r.store.Take(context.Background(), claims, nil)
	return results[0]
}

// refund gives back at now what a take at an earlier call charged.
func (r *replay) refund(now, at int64, claims []core.Claim) {
	r.now = now
	r.store.Settle(context.Background(), []core.Settlement{oracle.Settlement(claims[0], time.UnixMicro(at))})
}
