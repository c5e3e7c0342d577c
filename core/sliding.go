package core

// SlidingWindow and SlidingLog differ in one thing: the stamp they put on an admitted request. Both count it until one
// period after its stamp.

// stamp returns what a sliding limit remembers of a request at now, in microseconds: a SlidingLog the instant itself, a
// SlidingWindow the end of its sub-bucket.
func stamp(l *Limit, now int64) int64 {
	if l.Algorithm == SlidingLog {
		return now
	}
	width := l.Width().Microseconds()
	return floorTo(now, width) + width
}

// An entry says how much was admitted with one stamp. Entries of a queue form a ring: the newest points at the oldest.
type entry struct {
	stamp int64
	count int64
	next  uint32
}

// A queue is the state of a SlidingWindow or a SlidingLog: what was admitted and still counts, oldest first. Its entries
// live in a slab. Times are in microseconds.
type queue struct {
	used   int64  // the sum of all counts
	newest uint32 // the zero queue has none
	last   int64  // the stamp of the newest
}

// settle drops what no longer counts at now. After the clock went back, a stamp later than latest, the one that a
// request at now gets, becomes that one.
func (q queue) settle(s *slab[entry], period, now, latest int64) queue {
	for q.newest != 0 {
		newest := s.at(q.newest)
		oldest := s.at(newest.next)
		if oldest.stamp+period > now {
			break
		}
		q = q.dropAfter(s, q.newest)
	}
	if q.newest != 0 && q.last > latest {
		q.clamp(s, latest)
		q.last = latest
	}
	return q
}

// clamp lowers every stamp to latest.
func (q queue) clamp(s *slab[entry], latest int64) {
	for i := s.at(q.newest).next; ; i = s.at(i).next {
		e := s.at(i)
		e.stamp = min(e.stamp, latest)
		if i == q.newest {
			return
		}
	}
}

// dropAfter removes the entry that follows entry i of the ring.
func (q queue) dropAfter(s *slab[entry], i uint32) queue {
	before := s.at(i)
	dropped := before.next
	e := s.at(dropped)
	q.used -= e.count
	switch dropped {
	case i:
		q = queue{}
	case q.newest:
		q.newest, q.last = i, before.stamp
	}
	before.next = e.next
	s.drop(dropped)
	return q
}

// wait returns how long after now a settled q admits cost, which is at most the rate.
func (q queue) wait(s *slab[entry], rate, period, now, cost int64) int64 {
	return q.until(s, period, now, rate-cost)
}

// until returns how long after now a settled q takes to shrink to target.
func (q queue) until(s *slab[entry], period, now, target int64) int64 {
	if q.used <= target {
		return 0
	}
	left := q.used
	for i := s.at(q.newest).next; ; i = s.at(i).next {
		e := s.at(i)
		if left -= e.count; left <= target {
			return e.stamp + period - now
		}
	}
}

// charge returns a settled q with cost in it, at a stamp that is not before the period ends of what it holds. When the
// number of sub-buckets has changed, the stamp may lie between those of a coarser division.
func (q queue) charge(s *slab[entry], stamp, cost int64) queue {
	q.used += cost
	if q.newest == 0 {
		q.newest = s.add(entry{stamp: stamp, count: cost})
		s.at(q.newest).next = q.newest
		q.last = stamp
		return q
	}
	before := q.newest
	if stamp < q.last {
		for s.at(s.at(before).next).stamp <= stamp {
			before = s.at(before).next
		}
	}
	if e := s.at(before); e.stamp == stamp {
		e.count += cost
		return q
	}
	added := s.add(entry{stamp: stamp, count: cost, next: s.at(before).next})
	s.at(before).next = added
	if stamp > q.last {
		q.newest, q.last = added, stamp
	}
	return q
}

// refund returns q without a charge of cost that got this stamp, if it still counts.
func (q queue) refund(s *slab[entry], stamp, cost int64) queue {
	if q.newest == 0 {
		return q
	}
	for before := q.newest; ; before = s.at(before).next {
		i := s.at(before).next
		if e := s.at(i); e.stamp == stamp {
			if e.count <= cost {
				return q.dropAfter(s, before)
			}
			e.count -= cost
			q.used -= cost
			return q
		}
		if i == q.newest {
			return q
		}
	}
}

// clone returns a copy of q with entries of its own.
func (q queue) clone(s *slab[entry]) queue {
	var c queue
	if q.newest == 0 {
		return c
	}
	for i := s.at(q.newest).next; ; i = s.at(i).next {
		e := *s.at(i)
		c = c.charge(s, e.stamp, e.count)
		if i == q.newest {
			return c
		}
	}
}

// report says what a settled q leaves.
func (q queue) report(s *slab[entry], rate, period, now int64) usage {
	u := usage{remaining: max(0, rate-q.used)}
	if u.remaining < rate {
		u.refill = q.until(s, period, now, rate-u.remaining-1)
		u.reset = q.last + period - now
	}
	return u
}
