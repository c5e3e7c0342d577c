package redisx

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/compiled"
	"github.com/spillgate/spillgate/internal/lease"
	"github.com/spillgate/spillgate/internal/recent"
)

// A decider decides and settles requests. It is the store of leases.
type decider struct {
	layout *layout
	server *server
	queues *queues
	denied recent.Pairs // by the hash of a key
}

// Take implements lease.Store.
func (s *decider) Take(ctx context.Context, claims []core.Claim, unused []core.Settlement, dst []core.Result) (
	results []core.Result, sent time.Time, err error,
) {
	j, err := s.layout.newTake(claims)
	if err != nil || len(claims) == 0 {
		return dst, sent, err
	}
	j.addSettlements(unused)
	if err = s.do(ctx, j); err != nil {
		return dst, sent, err
	}
	s.server.decided.Do(func() { go s.server.warnOfEviction() })
	// A denial because of a hold, or because of a charge that may be about to be refunded, may not be repeated.
	lasts := !j.held && !slices.ContainsFunc(j.parts, func(p *job) bool { return p.held })
	if j.route != "" {
		lasts = lasts && s.wasDenied(j.ops, j.begun, lasting)
		s.noteDenied(j.ops, j.begun)
	}
	if lasts {
		sent = j.begun
	}
	results = j.appendResults(dst, claims)
	j.release()
	return results, sent, nil
}

// Lend implements lease.Store.
func (s *decider) Lend(ctx context.Context, loan core.Claim, unused []core.Settlement) (charged int64, left []core.Result, err error) {
	limits, err := compiled.Limits(&loan)
	if err != nil {
		return 0, nil, err
	}
	j := s.layout.newJob(false) // of one key
	j.add(loan.Rule, loan.Key, limits, op{does: lend, final: int64(loan.Cost)})
	j.addSettlements(unused)
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
		j := s.layout.newJob(true)
		j.addSettlements(unused[i : i+1])
		err := s.do(ctx, j)
		if err == nil {
			j.release()
		}
		return err
	})
}

// do decides or settles j in one run if its keys may share one, or else in parts. Each part of a settlement is settled by itself. The error
// is a lease.NotRefunded if j was to refund unused requests of leases and has certainly not.
func (s *decider) do(ctx context.Context, j *job) (err error) {
	for how := routing(s.server.routing.Load()); ; {
		if how != anyKeys {
			how.split(j)
		}
		switch {
		case len(j.parts) == 0:
			j.prepare(false)
			err = s.queues.do(ctx, j)
		case j.owed:
			return cmp.Or(each(len(j.parts), func(i int) error { return s.do(ctx, j.parts[i]) })...)
		default:
			err = s.decideParts(ctx, j)
		}
		switch {
		case err == nil:
			return nil
		case hasCode(err, "CROSSSLOT") && how == anyKeys: // a client that wraps one of a Redis Cluster
			how = byIdentity
			s.server.routing.Store(uint32(how))
		case isMigrating(err) && how != byKey && (len(j.parts) > 0 || len(j.keys) > 1):
			how = byKey
		case j.settled > 0 && len(j.parts) == 0 && (j.unsent || isReply(err) && !hasRun(err)):
			return lease.NotRefunded{Err: err}
		default:
			return err
		}
	}
}
