package redisx

import (
	"context"
	"slices"
	"time"
)

// giveBackTimeout bounds how long a job waits to give back what it was charged for nothing.
const giveBackTimeout = time.Second

// decide decides r: in one job if the keys may share a run, else in several, each atomic by itself.
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

// decideSeparately decides all jobs at once and gives back what one was charged though another denied. While it is charged,
// another request may be denied for it. So that a client that is refused anyway cannot keep another identity charged, nothing
// is charged if a pair was denied lately and one of the jobs would still deny.
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

// undoJob gives back the claims in j that were charged there and do not fit. The results become those after that. If it
// fails, what was charged stays, which is stricter.
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
