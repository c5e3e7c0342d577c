package redisx

import (
	"context"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/compiled"
	"github.com/spillgate/spillgate/internal/deadline"
	"github.com/spillgate/spillgate/internal/lease"
)

// refundTimeout bounds how long the refund of a denied request may take.
const refundTimeout = time.Second

// A decider decides and settles requests, each in as few jobs as its keys allow.
type decider struct {
	layout *layout
	server *server
	queues *queues
	denied deniedPairs
}

// decideClaims decides claims, in the same calls that first return the unused requests of loans to their limits. lasts
// reports whether the results are a denial that may be repeated.
func (s *decider) decideClaims(ctx context.Context, claims []core.Claim, loans []lease.Loan, dst []core.Result) (results []core.Result, lasts bool, err error) {
	r, err := s.layout.newTake(claims)
	if err != nil || len(r.asks) == 0 {
		return dst, false, err
	}
	for i := range loans { // a loan of a claim, and of its limits
		if c := &claims[i]; loans[i].Unused.Count() > 0 {
			limits, _ := compiled.Limits(c)
			r.addUnused(s.layout, &lease.Loan{Pair: core.Pair{Rule: c.Rule, Key: c.Key}, Compiled: limits, Unused: loans[i].Unused})
		}
	}
	sent := time.Now()
	jobs, err := s.decide(ctx, r)
	for i := range loans {
		loans[i].Return = outcomeOf(jobs, err)
	}
	if err != nil {
		return dst, false, err
	}
	s.server.warnOnce()
	results, lasts = r.appendResults(dst, claims, jobs), s.lasts(r, jobs, sent)
	r.release()
	return results, lasts, nil
}

// outcomeOf returns the outcome for the unused requests that jobs should have returned.
func outcomeOf(jobs []job, err error) lease.Outcome {
	switch {
	case err == nil:
		return lease.Returned
	case len(jobs) == 1 && (jobs[0].unsent || isReply(err)):
		return lease.NotReturned
	}
	return lease.Unknown
}

// lasts reports whether a denial of jobs may be repeated. A denial because of a hold, or because of a charge that may
// be about to be refunded, may not.
func (s *decider) lasts(r *request, jobs []job, sent time.Time) bool {
	if jobs[0].route == "" { // the only job
		return !heldBack(jobs)
	}
	known := s.denied.anyOf(r.keys, sent, settled)
	s.noteDenied(jobs, sent)
	return known && !heldBack(jobs)
}

// decide decides r in one job if its keys may share a run, or else in several jobs, each of which is atomic.
func (s *decider) decide(ctx context.Context, r *request) (jobs []job, err error) {
	for how := s.queues.how(); ; {
		if jobs = how.jobsOf(r, s.layout); len(jobs) == 1 {
			err = s.queues.do(ctx, &jobs[0])
		} else {
			err = s.decideAll(ctx, r, jobs)
		}
		switch {
		case hasCode(err, "CROSSSLOT") && how == anyKeys: // a client that wraps one of a Redis Cluster
			how = bySlot
			s.queues.setRouting(how)
		case hasCode(err, "TRYAGAIN") && how != byKey && len(r.keys) > 1:
			how = byKey
		default:
			return jobs, err
		}
	}
}

// decideAll decides all jobs at the same time. If one job denies, it refunds what the others were charged. Until then,
// other requests may be denied because of these charges. So that a client that is denied anyway cannot keep another
// identity charged, decideAll first peeks if a pair was denied recently, and charges nothing if a job would still deny.
func (s *decider) decideAll(ctx context.Context, r *request, jobs []job) error {
	if s.denied.anyOf(r.keys, time.Now(), 0) {
		if err := s.doAll(ctx, jobs, true); err != nil || !allAdmitted(jobs) {
			return err
		}
	}
	err := s.doAll(ctx, jobs, false)
	if late := s.refundDenied(ctx, jobs); err == nil {
		err = late
	}
	return err
}

// doAll does jobs at the same time, and records the pairs that denied one. If peek is set, it charges nothing.
func (s *decider) doAll(ctx context.Context, jobs []job, peek bool) error {
	each(len(jobs), func(i int) {
		j := &jobs[i]
		j.prepare(peek)
		j.usages = j.usages[:0]
		if j.err = s.queues.do(ctx, j); j.err == nil {
			for _, i := range j.settled { // unused requests of leases, which are returned once
				j.request.ops[i].final = j.request.ops[i].cost
			}
		}
	})
	s.noteDenied(jobs, time.Now())
	return firstError(jobs)
}

// noteDenied records the pairs that denied one of jobs.
func (s *decider) noteDenied(jobs []job, now time.Time) {
	for i := range jobs {
		j := &jobs[i]
		for n := range j.usages {
			if a := &j.request.asks[j.asks[n]]; j.usages[n].retry != 0 && !j.request.ops[a.op].dryRun {
				s.denied.add(j.request.keys[a.key], now)
			}
		}
	}
}

func firstError(jobs []job) error {
	for i := range jobs {
		if jobs[i].err != nil {
			return jobs[i].err
		}
	}
	return nil
}

func allAdmitted(jobs []job) bool {
	for i := range jobs {
		if !jobs[i].admitted() {
			return false
		}
	}
	return true
}

// admitted reports whether j by itself was charged.
func (j *job) admitted() bool {
	if j.err != nil {
		return false
	}
	for n, i := range j.asks {
		if !j.request.ops[j.request.asks[i].op].dryRun && j.usages[n].retry != 0 {
			return false
		}
	}
	return true
}

// fits reports whether all limits in j of an op admit its cost.
func (j *job) fits(op int) bool {
	for n, i := range j.asks {
		if j.request.asks[i].op == op && j.usages[n].retry != 0 {
			return false
		}
	}
	return true
}

// refundDenied refunds what a job was charged on its own but not as a part of the whole. It returns breaker.ErrTooMany
// if ctx ends first. The refunds go on then.
func (s *decider) refundDenied(ctx context.Context, jobs []job) error {
	r := jobs[0].request
	admitted := allAdmitted(jobs)
	fits := make(map[int]bool)
	for i := range r.asks {
		fits[r.asks[i].op] = admitted
	}
	for i := range jobs {
		for n, m := range jobs[i].asks {
			if jobs[i].err == nil && jobs[i].usages[n].retry != 0 {
				fits[r.asks[m].op] = false
			}
		}
	}
	var charged []*job
	for i := range jobs {
		if j := &jobs[i]; j.admitted() && j.charged(fits) {
			charged = append(charged, j)
		}
	}
	if len(charged) == 0 {
		return nil
	}
	err := s.server.within(ctx, func(ctx context.Context) error {
		each(len(charged), func(i int) { s.refundJob(ctx, charged[i], fits) })
		return nil
	})
	if err != nil {
		return breaker.ErrTooMany
	}
	return nil
}

// charged reports whether j was charged for an op that does not fit as a whole.
func (j *job) charged(fits map[int]bool) bool {
	return slices.ContainsFunc(j.asks, func(i int) bool {
		op := j.request.asks[i].op
		return !fits[op] && j.request.ops[op].does != peek && j.fits(op)
	})
}

// refundJob refunds the claims of j that were charged in j but do not fit as a whole, and updates the results. If it
// fails, the charges stay, which is stricter.
func (s *decider) refundJob(ctx context.Context, j *job, fits map[int]bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
	defer cancel()
	charged := func(op int) bool { return !fits[op] && j.request.ops[op].does != peek && j.fits(op) }
	if back := s.refund(deadline.Context{Context: ctx}, j, charged); back.err == nil {
		j.usages, j.held = back.usages, j.held || back.held
	}
}

// settle executes r, the request of a Settle.
func (s *decider) settle(ctx context.Context, r *request) ([]job, error) {
	jobs := s.queues.how().jobsOf(r, s.layout)
	if len(jobs) == 1 && len(jobs[0].keys) == 1 {
		return jobs, s.queues.do(ctx, &jobs[0])
	}
	each(len(jobs), func(i int) { s.settleJob(ctx, &jobs[i]) })
	return jobs, firstError(jobs)
}

// settleJob does j, key by key if its slot is migrating.
func (s *decider) settleJob(ctx context.Context, j *job) {
	if j.err = s.queues.do(ctx, j); len(j.keys) == 1 || !hasCode(j.err, "TRYAGAIN") && !hasCode(j.err, "CROSSSLOT") {
		return
	}
	var jobs []job
	for _, key := range j.keys {
		one := job{request: j.request, route: key}
		for _, i := range j.others {
			if j.request.keys[j.request.asks[i].key] == key {
				one.add(i)
			}
		}
		if len(one.others) > 0 { // otherwise it is the key of a log, which goes with its pair
			one.addKeys()
			one.prepare(false)
			jobs = append(jobs, one)
		}
	}
	each(len(jobs), func(i int) { jobs[i].err = s.queues.do(ctx, &jobs[i]) })
	j.settled, j.moved = nil, nil
	if j.err = firstError(jobs); j.err != nil {
		return // some of its claims may be settled, so do not report that none was
	}
	for i := range jobs {
		j.settled, j.moved = append(j.settled, jobs[i].settled...), append(j.moved, jobs[i].moved...)
	}
}

// refund reverses the charges of those ops of j for which charged reports true, and returns a job with what that leaves. If requests
// may wait, each limit is refunded by itself, because each has a turn of its own.
func (s *decider) refund(ctx context.Context, j *job, charged func(op int) bool) *job {
	r := &request{keys: j.request.keys, ops: slices.Clone(j.request.ops), asks: slices.Clone(j.request.asks), owed: true}
	back := &job{request: r, route: j.route, keys: j.keys, asks: j.asks}
	last := -1
	for n, i := range j.asks {
		a := r.asks[i]
		o := r.ops[a.op]
		if !charged(a.op) {
			continue
		}
		if a.op != last || o.maxWait > 0 {
			last = a.op
			given := op{does: adjust, cost: o.cost, at: j.at}
			if o.does == hold {
				given.does = release
			} else if o.maxWait > 0 {
				given.turn = 1 + j.usages[n].wait
			}
			r.ops = append(r.ops, given)
		}
		a.op = len(r.ops) - 1
		r.asks = append(r.asks, a)
		back.others = append(back.others, len(r.asks)-1)
	}
	back.prepare(true)
	back.err = s.queues.do(ctx, back)
	return back
}

// heldBack reports whether a job was denied because of requests in flight.
func heldBack(jobs []job) bool {
	for i := range jobs {
		if jobs[i].held {
			return true
		}
	}
	return false
}
