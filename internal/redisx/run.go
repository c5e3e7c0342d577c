package redisx

import (
	"context"
	"slices"
	"strings"
)

// runBatch has the server do the jobs of b. It goes on after the deadline of b if the client does.
func (s *Store) runBatch(b *batch) {
	defer s.finish(b)
	ctx := context.WithoutCancel(b.ctx)
	if !b.deadline.IsZero() {
		limited, cancel := context.WithDeadline(ctx, b.deadline)
		defer cancel()
		ctx = limited
	}
	err := s.run(ctx, b.queue.id.script, b.jobs)
	if len(b.jobs) == 1 || !hasCode(err, "TRYAGAIN") && !hasCode(err, "CROSSSLOT") {
		return
	}
	if hasCode(err, "CROSSSLOT") { // a client that wraps one of a Redis Cluster
		s.routing.CompareAndSwap(uint32(anyKeys), uint32(bySlot))
	}
	each(b.jobs, func(j **job) { _ = s.run(ctx, b.queue.id.script, []*job{*j}) })
}

// run has one run of a script do jobs. It sets the reply of each, or the error of all.
func (s *Store) run(ctx context.Context, script *script, jobs []*job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
		for _, j := range jobs {
			j.err = err
		}
		s.noteError(err)
	}()
	reply, err := callOf(script, s.shift(), jobs).run(ctx, s.client)
	if err != nil {
		return err
	}
	return s.deliver(reply, jobs)
}

// callOf returns the call of a script that does jobs. Those of one plan are next to each other.
func callOf(script *script, shift string, jobs []*job) *call {
	byPlan := func(a, b *job) int { return strings.Compare(a.plan, b.plan) }
	if !slices.IsSortedFunc(jobs, byPlan) { // mostly there is one
		slices.SortStableFunc(jobs, byPlan)
	}
	c := newCall(script, len(jobs)+4)
	for _, j := range jobs {
		c.addKeys(j.keys)
	}
	c.add(shift)
	for i := 0; i < len(jobs); {
		first, numbers := i, jobs[i].numbers
		for i++; i < len(jobs) && jobs[i].plan == jobs[first].plan; i++ {
			numbers += jobs[i].numbers
		}
		c.add(jobs[first].plan)
		c.add(i - first)
		c.add(numbers)
	}
	return c
}
