package redisx

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// runBatch sends the jobs of b to the server. If the client continues after the deadline of b, so does runBatch.
func (s *Store) runBatch(b *batch) {
	defer s.finish(b)
	growStack(b.load)
	ctx := context.WithoutCancel(b.ctx)
	if !b.deadline.IsZero() {
		limited, cancel := context.WithDeadline(ctx, b.deadline)
		defer cancel()
		ctx = limited
	}
	err := s.run(ctx, b.jobs)
	if len(b.jobs) == 1 || !hasCode(err, "TRYAGAIN") && !hasCode(err, "CROSSSLOT") {
		return
	}
	if hasCode(err, "CROSSSLOT") { // a client that wraps one of a Redis Cluster
		s.routing.CompareAndSwap(uint32(anyKeys), uint32(bySlot))
	}
	each(b.jobs, func(j **job) { _ = s.run(ctx, []*job{*j}) })
}

// growStack grows the stack of a new goroutine in one step to the size that a client needs. Otherwise it grows in
// several steps, each of which copies the frames so far.
//
//go:noinline
func growStack(n int) byte {
	var room [4 << 10]byte
	return room[n%len(room)]
}

// run does jobs in one run of the script. It sets the reply of each job, or returns the error of all.
func (s *Store) run(ctx context.Context, jobs []*job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
		for _, j := range jobs {
			j.err = err
		}
		s.noteError(err)
	}()
	reply, err := s.call(ctx, callOf(s.instant(), jobs))
	if err != nil {
		return err
	}
	return s.deliver(reply, jobs)
}

// callOf returns the call for jobs. Jobs with the same plan are next to each other.
func callOf(now int64, jobs []*job) *call {
	byPlan := func(a, b *job) int { return strings.Compare(a.plan, b.plan) }
	if !slices.IsSortedFunc(jobs, byPlan) { // mostly there is one
		slices.SortStableFunc(jobs, byPlan)
	}
	c := newCall(len(jobs) + 4)
	for _, j := range jobs {
		c.addKeys(j.keys)
	}
	for i := 0; i < len(jobs); {
		first := i
		var numbers strings.Builder
		for ; i < len(jobs) && jobs[i].plan == jobs[first].plan; i++ {
			numbers.WriteString(jobs[i].numbers)
		}
		c.add(decidedAt(jobs[first].plan, now))
		if numbers.Len() > 0 {
			c.add(numbers.String())
		}
		if i < len(jobs) {
			c.add(i - first)
		}
	}
	return c
}

// instant returns when tests have calls decided, in microseconds since 1970, or 0 for now.
func (s *Store) instant() int64 {
	if now := s.clock.Load(); now != nil {
		return (*now)().UnixMicro()
	}
	return 0
}

// decidedAt returns a plan that is decided at an instant, if that is not 0.
func decidedAt(plan string, now int64) string {
	if now == 0 {
		return plan
	}
	return plan[:1] + strconv.FormatInt(now, 10) + plan[1:]
}

// op returns the letter that the plan of j begins with: see lua/plan.lua.
func (j *job) op() byte {
	if j.isOwed() {
		return 's'
	}
	return 't'
}

// isOwed reports whether j settles what earlier jobs have charged or held.
func (j *job) isOwed() bool { return len(j.request.settlements) > 0 }
