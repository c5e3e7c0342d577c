package redisx

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/lease"
)

// A decider decides and settles requests.
type decider struct {
	layout *layout
	server *server
	queues *queues
	denied deniedPairs
}

// decideClaims decides claims, which arrived at an instant, in the same calls that first refund the unused requests of leases.
// lasts reports whether the results are a denial that may be repeated.
func (s *decider) decideClaims(ctx context.Context, begun time.Time, claims []core.Claim, unused []core.Settlement, dst []core.Result) (
	results []core.Result, lasts bool, err error,
) {
	j, err := s.layout.newTake(claims)
	if err != nil || len(claims) == 0 {
		return dst, false, err
	}
	j.addSettlements(s.layout, unused)
	if err = s.decide(ctx, j, begun); err != nil {
		if len(unused) > 0 {
			err = j.marked(err)
		}
		return dst, false, err
	}
	s.server.decided.Do(func() { go s.server.warnOfEviction() })
	// A denial because of a hold, or because of a charge that may be about to be refunded, may not be repeated.
	lasts = !j.held
	for i := range j.parts {
		lasts = lasts && !j.parts[i].held
	}
	if j.route != "" {
		lasts = lasts && s.denied.anyOf(j.ops, begun, lasting)
		s.denied.add(j.ops, begun)
	}
	results = j.appendResults(dst, claims)
	j.release()
	return results, lasts, nil
}

// marked returns err, with which j has ended, marked if j has certainly not refunded unused requests of leases.
func (j *job) marked(err error) error {
	if err != nil && len(j.parts) == 0 && (j.unsent || isReply(err)) {
		return lease.NotRefunded{Err: err}
	}
	return err
}

// decide decides j in one run if its keys may share one, or else in parts.
func (s *decider) decide(ctx context.Context, j *job, begun time.Time) (err error) {
	for how := s.queues.how(); ; begun = time.Now() {
		if how != anyKeys {
			how.split(j, s.layout)
		}
		if len(j.parts) > 0 {
			err = s.decideParts(ctx, j)
		} else {
			j.prepare(false)
			err = s.queues.do(ctx, j, begun)
		}
		switch {
		case err == nil:
			return nil
		case hasCode(err, "CROSSSLOT") && how == anyKeys: // a client that wraps one of a Redis Cluster
			how = bySlot
			s.queues.setRouting(how)
		case hasCode(err, "TRYAGAIN") && how != byKey && (len(j.parts) > 0 || len(j.keys) > 1):
			how = byKey
		default:
			return err
		}
	}
}

// settle does j, the job of a Settle, in runs for the keys that may share one, and key by key if a slot is migrating.
func (s *decider) settle(ctx context.Context, j *job, how routing) error {
	if how != anyKeys {
		how.split(j, s.layout)
	}
	if len(j.parts) > 0 {
		each(len(j.parts), func(i int) { j.parts[i].err = s.settle(ctx, &j.parts[i], how) })
		return firstError(j.parts)
	}
	j.prepare(false)
	err := s.queues.do(ctx, j, time.Now())
	if err != nil && how != byKey && len(j.keys) > 1 && (hasCode(err, "TRYAGAIN") || hasCode(err, "CROSSSLOT")) {
		return s.settle(ctx, j, byKey)
	}
	return err
}
