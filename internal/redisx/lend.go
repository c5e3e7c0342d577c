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

// Lend implements lease.Store.
func (s lender) Lend(ctx context.Context, claims []core.Claim, loans []lease.Loan, dst []core.Result) ([]core.Result, bool, error) {
	switch {
	case len(claims) > 0:
		return s.decideClaims(ctx, claims, loans, dst)
	case loans[0].Want > 0:
		errs := make([]error, len(loans))
		each(len(loans), func(i int) { errs[i] = s.chargeAhead(ctx, &loans[i]) })
		return dst, false, errors.Join(errs...)
	}
	return dst, false, s.takeBack(ctx, loans)
}

// chargeAhead charges ahead the requests that l wants, and takes back l.Unused in the same call.
func (s lender) chargeAhead(ctx context.Context, l *lease.Loan) error {
	limits, err := compile(l)
	if err != nil {
		return err
	}
	r := new(request)
	r.add(s.layout, l.Pair.Rule, l.Pair.Key, limits, ask{})
	r.lease(0, l.Want, l.Unused)
	jobs := s.batcher.how().jobsOf(r, s.layout)
	j := &jobs[0] // of one key
	err = s.batcher.do(ctx, j, true)
	if l.Return = outcomeOf(jobs, err); err != nil {
		return err
	}
	l.At, l.Granted = j.at, r.leases[0].granted
	l.Left = make([]algorithm.Usage, len(j.usages))
	for i := range j.usages {
		l.Left[i] = j.usages[i].Usage
	}
	return nil
}

// takeBack takes back the unused requests of loans.
func (s lender) takeBack(ctx context.Context, loans []lease.Loan) error {
	r := new(request)
	var of []*lease.Loan // by settlement
	for i := range loans {
		l := &loans[i]
		limits, err := compile(l)
		if err != nil {
			return err
		}
		for _, p := range l.Unused {
			if p.Count > 0 {
				r.settlements = append(r.settlements, settlement{at: p.At, cost: p.Count})
				r.add(s.layout, l.Pair.Rule, l.Pair.Key, limits, ask{claim: len(of)})
				of = append(of, l)
			}
		}
	}
	jobs, err := s.settle(ctx, r)
	switch {
	case len(jobs) == 1 && len(jobs[0].keys) == 1:
		jobs[0].err = err
	case err != nil && ctx.Err() != nil:
		return err // jobs may be in flight
	}
	for i := range jobs {
		for _, claim := range jobs[i].claims {
			of[claim].Return = outcomeOf(jobs[i:i+1], jobs[i].err)
		}
	}
	return err
}

// compile returns the compiled limits of l.
func compile(l *lease.Loan) ([]algorithm.Limit, error) {
	c := core.Claim{Limits: l.Limits}
	return c.Compile()
}
