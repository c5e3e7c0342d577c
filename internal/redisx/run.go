package redisx

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// runAll does jobs in one run of the script, or each job in a run of its own if that is what the server needs. It reports
// whether the server needs runs for the keys of one slot each.
func (s *server) runAll(ctx context.Context, jobs []*job) (bySlot bool) {
	err := s.run(ctx, jobs)
	if bySlot = hasCode(err, "CROSSSLOT"); len(jobs) > 1 && (bySlot || hasCode(err, "TRYAGAIN")) {
		each(len(jobs), func(i int) { _ = s.run(ctx, jobs[i:i+1]) })
	}
	return bySlot && len(jobs) > 1
}

// run does jobs in one run of the script. It sets the reply of each job, or returns the error of all.
func (s *server) run(ctx context.Context, jobs []*job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
		for _, j := range jobs {
			j.err = err
		}
		s.noteError(err)
	}()
	c := callOf(s.clock.micros(), jobs)
	reply, err := s.call(ctx, c)
	if err != nil {
		return err
	}
	return s.deliver(reply, jobs)
}

// reset resets one pair, because in a slot that is migrating, the server returns an error for a script with several
// keys.
func (s *server) reset(ctx context.Context, key string) error {
	c := newCall(4)
	c.addKeys([]string{key})
	c.add(decidedAt("r", s.clock.micros()))
	_, err := s.call(ctx, c)
	s.noteError(err)
	return err
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

// decidedAt returns a plan that is decided at an instant, if that is not 0.
func decidedAt(plan string, now int64) string {
	if now == 0 {
		return plan
	}
	return plan[:1] + strconv.FormatInt(now, 10) + plan[1:]
}

// deliver gives each job its part of a script's reply.
func (s *server) deliver(reply []int64, jobs []*job) error {
	all := reply
	if len(reply) < 2 {
		return fmt.Errorf("the script replied %d", all)
	}
	s.countRepairs(reply[1])
	at, reply := reply[0], reply[2:]
	for _, j := range jobs {
		n := min(j.lengthOf(reply), len(reply))
		j.at, j.reply, reply = at, reply[:n], reply[n:]
	}
	if len(reply) > 0 {
		return fmt.Errorf("the script replied %d, which is too much", all)
	}
	return nil
}

// countRepairs counts and logs the states that a script has replaced.
func (s *server) countRepairs(n int64) {
	if n > 0 {
		s.repaired.Add(uint64(n))
		slog.Warn("spillgate: stored states made no sense and count as used up", "states", n)
	}
}
