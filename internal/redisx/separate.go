package redisx

import (
	"context"
	"slices"
	"time"
)

// giveBackTimeout bounds how long giving back the charges of a denied request may take.
const giveBackTimeout = time.Second

// decide decides r in one job if its keys may share a run, or else in several jobs, each of which is atomic.
func (s *Store) decide(ctx context.Context, r *request) (jobs []job, err error) {
	for how := routing(s.routing.Load()); ; {
		if jobs = s.split(r, how); len(jobs) == 1 {
			err = s.do(ctx, &jobs[0], false)
		} else {
			err = s.decideWithin(ctx, jobs)
		}
		switch {
		case hasCode(err, "CROSSSLOT") && how == anyKeys: // a client that wraps one of a Redis Cluster
			how = bySlot
			s.routing.Store(uint32(how))
		case hasCode(err, "TRYAGAIN") && how != byKey && len(r.keys) > 1:
			how = byKey
		default:
			return jobs, err
		}
	}
}

// decideWithin is decideSeparately for a caller that waits no longer than ctx.
func (s *Store) decideWithin(ctx context.Context, jobs []job) error {
	late := func(err error) error { return s.late(jobs[0].request.batch.Load(), err) }
	_, err := within(ctx, s, late, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.decideSeparately(ctx, jobs) })
	return err
}

// decideSeparately decides all jobs at the same time. If one job denies, it gives back what the others were charged.
// Until then, other requests may be denied because of these charges. So that a client that is denied anyway cannot keep
// another identity charged, decideSeparately first peeks if a pair was denied recently, and charges nothing if a job
// would still deny.
func (s *Store) decideSeparately(ctx context.Context, jobs []job) error {
	if s.denied.anyOf(jobs[0].request.keys, time.Now(), 0) {
		if err := s.peekAll(ctx, jobs); err != nil || !allAdmitted(jobs) {
			return err
		}
	}
	each(jobs, func(j *job) {
		j.prepare(nil)
		j.usages = j.usages[:0]
		j.err = s.do(ctx, j, true)
	})
	s.denied.add(jobs, time.Now())
	s.undo(ctx, jobs)
	return firstError(jobs)
}

// peekAll decides jobs without charging anything.
func (s *Store) peekAll(ctx context.Context, jobs []job) error {
	each(jobs, func(j *job) {
		j.prepare(func(int) bool { return true })
		j.err = s.do(ctx, j, true)
	})
	s.denied.add(jobs, time.Now())
	return firstError(jobs)
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

// undo gives back what a job was charged on its own but not as a part of the whole.
func (s *Store) undo(ctx context.Context, jobs []job) {
	r := jobs[0].request
	admitted := allAdmitted(jobs)
	fits := make(map[int]bool)
	for i := range r.asks {
		fits[r.asks[i].claim] = admitted
	}
	for i := range jobs {
		for n, m := range jobs[i].asks {
			if jobs[i].err == nil && jobs[i].usages[n].retry != 0 {
				fits[r.asks[m].claim] = false
			}
		}
	}
	each(jobs, func(j *job) {
		if j.admitted() {
			s.undoJob(ctx, j, fits)
		}
	})
}

// undoJob gives back the claims of j that were charged in j but do not fit as a whole, and updates the results. If it
// fails, the charges stay, which is stricter.
func (s *Store) undoJob(ctx context.Context, j *job, fits map[int]bool) {
	charged := func(claim int) bool { return !fits[claim] && j.fits(claim) }
	r := j.request
	if !slices.ContainsFunc(j.asks, func(i int) bool { return charged(r.asks[i].claim) && !r.asks[i].peek }) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if back := s.giveBack(ctx, j, charged); back.err == nil {
		j.usages, j.held = back.usages, j.held || back.held
	}
}
