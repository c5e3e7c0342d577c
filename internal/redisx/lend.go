package redisx

import (
	"context"
	"errors"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/lease"
)

// A lender implements lease.Store.
type lender struct{ *decider }

// Lend implements lease.Store. Each loan is a request of its own, so that loans with equal limits share a plan and a run.
func (s lender) Lend(ctx context.Context, claims []core.Claim, loans []lease.Loan, dst []core.Result) ([]core.Result, bool, error) {
	if len(claims) > 0 {
		return s.decideClaims(ctx, time.Now(), claims, loans, dst)
	}
	errs := make([]error, len(loans))
	each(len(loans), func(i int) {
		growStack(i) // a grant, and each return of a sweep, has a goroutine of its own
		if l := &loans[i]; l.Want > 0 {
			errs[i] = s.chargeAhead(ctx, l)
		} else {
			errs[i] = s.returnUnused(ctx, l)
		}
	})
	return dst, false, errors.Join(errs...)
}

// chargeAhead charges ahead the requests that l wants, in a call that first returns l.Unused to its limits.
func (s lender) chargeAhead(ctx context.Context, l *lease.Loan) error {
	j := s.layout.newJob(false) // of one key
	j.add(s.layout, l.Pair.Rule, l.Pair.Key, l.Compiled, op{does: peek, cost: 1})
	j.addUnused(s.layout, l)
	j.add(s.layout, l.Pair.Rule, l.Pair.Key, l.Compiled, op{does: lend, cost: l.Want})
	if how := s.queues.how(); how != anyKeys {
		how.split(j, s.layout)
	}
	j.prepare(false)
	err := s.queues.do(ctx, j, time.Now())
	if l.Return = j.outcome(err); err != nil {
		return err
	}
	l.At, l.Granted = j.at, j.ops[len(j.ops)-1].moved
	l.Left = make([]algorithm.Usage, len(j.usages))
	for i := range j.usages {
		l.Left[i] = j.usages[i].Usage
	}
	j.release()
	return nil
}

// returnUnused refunds l.Unused to its limits.
func (s lender) returnUnused(ctx context.Context, l *lease.Loan) error {
	j := s.layout.newJob(true)
	j.addUnused(s.layout, l)
	err := s.settle(ctx, j, s.queues.how())
	if l.Return = j.outcome(err); err == nil {
		j.release()
	}
	return err
}

// addUnused adds ops that refund the unused requests of a loan.
func (j *job) addUnused(layout *layout, l *lease.Loan) {
	for _, p := range l.Unused {
		if p.Count > 0 {
			j.add(layout, l.Pair.Rule, l.Pair.Key, l.Compiled, op{does: adjust, cost: p.Count, at: p.At})
		}
	}
}
