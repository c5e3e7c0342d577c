package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// plain does all ops if they are takes and peeks of different pairs, and there is nothing rare about them: the states of all limits are
// stored, no ban can begin, no request waits, and no pair has cells. Nearly all ops are plain. Otherwise plain charges nothing and
// reports false.
func (c *call) plain(answers []Answer) bool {
	ops, asks, fit, n := c.ops, c.own, true, 0
	for i := range ops {
		o := &ops[i]
		s := &c.store.shards[o.Pair.shard()]
		run, _ := s.of(o.Pair.id)
		if o.Kind > Peek || o.DryRun || len(run) == 0 || run[0].Kind == algorithm.CellsKind || c.repeats(i) {
			return false
		}
		cost := min(max(o.Cost, 1), algorithm.MaxExact)
		for j := range o.Limits {
			a := &asks[n]
			a.Limit, a.Logs, a.Now, a.Offset, a.asked = &o.Limits[j], &s.logs, c.now, c.offset, cost
			if a.Pick(run); a.Stored == nil || a.Limit.Ban > 0 {
				return false
			}
			if a.retry = a.Open(cost); a.retry != 0 {
				if fit = false; o.MaxWait > 0 {
					return false
				}
			}
			n++
		}
	}
	n, c.own = 0, nil
	for i := range ops {
		charges := fit && ops[i].Kind == Take
		for range ops[i].Limits {
			a, answer := &asks[n], &answers[n]
			if charges {
				a.Limit.Row.Charge(&a.State, a.asked)
			}
			answer.Retry, answer.Wait = a.retry, 0
			a.Report(&answer.Usage)
			a.forget()
			n++
		}
	}
	return true
}

// repeats reports whether an op before op i is about the same pair.
func (c *call) repeats(i int) bool {
	for j := range i {
		if c.ops[j].Pair.id == c.ops[i].Pair.id {
			return true
		}
	}
	return false
}
