package redisx

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/lease"
	"github.com/spillgate/spillgate/internal/recent"
)

// A decider decides and settles requests.
type decider struct {
	layout *layout
	server *server
	queues *queues
	denied atomic.Pointer[recent.Pairs] // by the hash of a key; nil until a pair was denied
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
	if err = j.marked(s.do(ctx, j, begun, s.server.how())); err != nil {
		return dst, false, err
	}
	s.server.decided.Do(func() { go s.server.warnOfEviction() })
	// A denial because of a hold, or because of a charge that may be about to be refunded, may not be repeated.
	lasts = !j.held
	for i := range j.parts {
		lasts = lasts && !j.parts[i].held
	}
	if j.route != "" {
		lasts = lasts && s.wasDenied(j.ops, begun, lasting)
		s.noteDenied(j.ops, begun)
	}
	results = j.appendResults(dst, claims)
	j.release()
	return results, lasts, nil
}

// marked returns err, with which j has ended, marked if j was to refund unused requests of leases and has certainly not.
func (j *job) marked(err error) error {
	if err != nil && j.settled > 0 && len(j.parts) == 0 && (j.unsent || isReply(err) && !hasRun(err)) {
		return lease.NotRefunded{Err: err}
	}
	return err
}

// do decides or settles j in one run if its keys may share one, or else in parts. Each part of a settlement is settled by itself.
func (s *decider) do(ctx context.Context, j *job, begun time.Time, how routing) (err error) {
	if how != anyKeys {
		how.split(j, s.layout)
	}
	switch {
	case len(j.parts) == 0:
		j.prepare(false)
		err = s.queues.do(ctx, j, begun)
	case j.owed:
		return cmp.Or(each(len(j.parts), func(i int) error { return s.do(ctx, &j.parts[i], begun, how) })...)
	default:
		err = s.decideParts(ctx, j)
	}
	switch {
	case err == nil:
	case hasCode(err, "CROSSSLOT") && how == anyKeys: // a client that wraps one of a Redis Cluster
		s.server.setRouting(byIdentity)
		return s.do(ctx, j, time.Now(), byIdentity)
	case isMigrating(err) && how != byKey && (len(j.parts) > 0 || len(j.keys) > 1):
		return s.do(ctx, j, time.Now(), byKey)
	}
	return err
}
