package redisx

import (
	"context"
	"errors"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/lease"
)

// A lender implements lease.Store.
type lender struct{ *decider }

// Lend implements lease.Store. Each loan is a request of its own, so that loans with equal limits share a plan and a run.
func (s lender) Lend(ctx context.Context, claims []core.Claim, loans []lease.Loan, dst []core.Result) ([]core.Result, bool, error) {
	if len(claims) > 0 {
		return s.decideClaims(ctx, claims, loans, dst)
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
	r := requests.Get().(*request)
	r.addUnused(s.layout, l)
	r.add(s.layout, l.Pair.Rule, l.Pair.Key, l.Compiled, op{does: peek, cost: 1})
	r.add(s.layout, l.Pair.Rule, l.Pair.Key, l.Compiled, op{does: lend, cost: l.Want})
	jobs := s.queues.how().jobsOf(r, s.layout)
	j := &jobs[0] // of one key
	err := s.queues.do(ctx, j)
	if l.Return = outcomeOf(jobs, err); err != nil {
		return err
	}
	l.At, l.Granted = j.at, j.moved[len(j.moved)-1]
	l.Left = make([]algorithm.Usage, len(j.usages))
	for i := range j.usages {
		l.Left[i] = j.usages[i].Usage
	}
	r.release()
	return nil
}

// returnUnused refunds l.Unused to its limits.
func (s lender) returnUnused(ctx context.Context, l *lease.Loan) error {
	r := requests.Get().(*request)
	r.owed = true
	r.addUnused(s.layout, l)
	jobs, err := s.settle(ctx, r)
	if l.Return = outcomeOf(jobs, err); err == nil {
		r.release()
	}
	return err
}

// addUnused adds ops that refund the unused requests of a loan.
func (r *request) addUnused(layout *layout, l *lease.Loan) {
	for _, p := range l.Unused {
		if p.Count > 0 {
			r.add(layout, l.Pair.Rule, l.Pair.Key, l.Compiled, op{does: adjust, cost: p.Count, at: p.At})
		}
	}
}
