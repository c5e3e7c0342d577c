package redisx

import (
	"context"
	"errors"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/lease"
)

// A lender implements lease.Store.
type lender struct{ *decider }

// Lend implements lease.Store. Each exchange without claims is a request of its own, so that those with equal limits share a plan and
// a run.
func (s lender) Lend(ctx context.Context, claims []core.Claim, exchanges []lease.Exchange, dst []core.Result) ([]core.Result, bool, error) {
	if len(claims) > 0 {
		return s.decideClaims(ctx, time.Now(), claims, exchanges, dst)
	}
	errs := make([]error, len(exchanges))
	each(len(exchanges), func(i int) {
		growStack(i) // a refill, and each return of a sweep, has a goroutine of its own
		if x := &exchanges[i]; x.Want > 0 {
			errs[i] = s.chargeAhead(ctx, x)
		} else {
			errs[i] = s.returnUnused(ctx, x)
		}
	})
	return dst, false, errors.Join(errs...)
}

// chargeAhead charges ahead the requests that x wants, in a call that first returns x.Unused to its limits.
func (s lender) chargeAhead(ctx context.Context, x *lease.Exchange) error {
	j := s.layout.newJob(false) // of one key
	j.add(s.layout, x.Pair.Rule, x.Pair.Key, x.Compiled, op{does: peek, cost: 1})
	j.addUnused(s.layout, x)
	j.add(s.layout, x.Pair.Rule, x.Pair.Key, x.Compiled, op{does: lend, cost: x.Want})
	if how := s.queues.how(); how != anyKeys {
		how.split(j, s.layout)
	}
	j.prepare(false)
	err := s.queues.do(ctx, j, time.Now())
	if x.Outcome = j.outcome(err); err != nil {
		return err
	}
	x.At, x.Charged = j.at, j.ops[len(j.ops)-1].moved
	x.Left = make([]core.Result, len(j.usages))
	for i := range j.usages {
		u := &j.usages[i]
		x.Left[i] = core.Result{
			At: time.UnixMicro(j.at), Remaining: int(u.Remaining), Granted: int(u.Granted), RefillAfter: micros(u.Refill), ResetAfter: micros(u.Reset),
		}
	}
	j.release()
	return nil
}

// returnUnused refunds x.Unused to its limits.
func (s lender) returnUnused(ctx context.Context, x *lease.Exchange) error {
	j := s.layout.newJob(true)
	j.addUnused(s.layout, x)
	err := s.settle(ctx, j, s.queues.how())
	if x.Outcome = j.outcome(err); err == nil {
		j.release()
	}
	return err
}

// addUnused adds an op that refunds the unused requests of an exchange.
func (j *job) addUnused(layout *layout, x *lease.Exchange) {
	if u := x.Unused; u.Count > 0 {
		j.add(layout, x.Pair.Rule, x.Pair.Key, x.Compiled, op{does: adjust, cost: u.Count, at: u.At})
	}
}
