package redisx

import (
	"context"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/compiled"
)

// Lend implements lease.Store.
func (s *decider) Lend(ctx context.Context, loan core.Claim, unused []core.Settlement) (charged int64, left []core.Result, err error) {
	limits, err := compiled.Limits(&loan)
	if err != nil {
		return 0, nil, err
	}
	j := s.layout.newJob(false) // of one key
	j.add(s.layout, loan.Rule, loan.Key, limits, op{does: lend, final: int64(loan.Cost)})
	j.addSettlements(s.layout, unused)
	if err := s.do(ctx, j); err != nil {
		return 0, nil, err
	}
	charged, left = j.ops[0].moved, j.appendResults(nil, []core.Claim{loan})
	j.release()
	return charged, left, nil
}

// Refund implements lease.Store. Each refund is a request of its own, so that refunds of equal limits share a plan and a run.
func (s *decider) Refund(ctx context.Context, unused []core.Settlement) []error {
	return each(len(unused), func(i int) error {
		j := s.layout.newSettle(unused[i : i+1])
		err := s.do(ctx, j)
		if err == nil {
			j.release()
		}
		return err
	})
}
