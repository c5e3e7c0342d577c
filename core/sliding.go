package core

// SlidingWindow and SlidingLog differ in one thing: the stamp they put on an admitted request. Both count it until one
// period after its stamp.

// stamp returns what a sliding limit remembers of a request at now, in microseconds: a SlidingLog the instant itself, a
// SlidingWindow the end of its sub-bucket.
func (l *scale) stamp(now int64) int64 {
	if l.width == 0 {
		return now
	}
	return floorTo(now, l.width) + l.width
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

// latest returns the latest stamp that a request up to now can have got, whatever the number of sub-buckets: the fewest
// are two.
func (l *scale) latest(now int64) int64 {
	if l.width == 0 {
		return now
	}
	return now + ceilDiv(l.micros, minBuckets)
}

// settle drops what no longer counts at now. After the clock went back, what has a later stamp than is possible counts
// as if made now.
func (q queue) settle(s *slab[entry], l *scale, now int64) queue {
	for q.newest != 0 && s.at(s.at(q.newest).next).stamp+l.micros <= now {
		q = q.dropAfter(s, q.newest)
	}
	if q.newest != 0 && q.last > l.latest(now) {
		q = q.clamp(s, l.stamp(now))
	}
	return q
}

// clamp lowers every stamp to limit, which the newest exceeds.
func (q queue) clamp(s *slab[entry], limit int64) queue {
	i := s.at(q.newest).next
	for s.at(i).stamp < limit {
		i = s.at(i).next
	}
	e := s.at(i)
	for i != q.newest {
		count := s.at(e.next).count
		q = q.dropAfter(s, i)
		q.used += count
		e.count += count
	}
	e.stamp, q.last = limit, limit
	return q
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
func (q queue) wait(s *slab[entry], l *scale, now, cost int64) int64 {
	return q.until(s, l, now, l.rate-cost)
}

// until returns how long after now a settled q takes to shrink to target. What stands in a sub-bucket that was wider
// than it would be now counts as if made now.
func (q queue) until(s *slab[entry], l *scale, now, target int64) int64 {
	if q.used <= target {
		return 0
	}
	left := q.used
	for i := s.at(q.newest).next; ; i = s.at(i).next {
		e := s.at(i)
		if left -= e.count; left <= target {
			return min(e.stamp, l.stamp(now)) + l.micros - now
		}
	}
}

// charge returns a settled q with cost in it.
func (q queue) charge(s *slab[entry], l *scale, now, cost int64) queue {
	stamp := l.stamp(now)
	if q.last > stamp {
		q = q.clamp(s, stamp)
	}
	q.used += cost
	if q.newest != 0 && q.last == stamp {
		s.at(q.newest).count += cost
		return q
	}
	return q.append(s, entry{stamp: stamp, count: cost})
}

// append returns q with e as its newest entry, which is already in used.
func (q queue) append(s *slab[entry], e entry) queue {
	added := s.add(e)
	if q.newest == 0 {
		s.at(added).next = added
	} else {
		newest := s.at(q.newest)
		s.at(added).next = newest.next
		newest.next = added
	}
	q.newest, q.last = added, e.stamp
	return q
}

// refund returns q, settled or not, without a charge of cost that got this stamp, if it still counts.
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

// clone returns a copy of q, which has some entries, with entries of its own.
func (q queue) clone(s *slab[entry]) queue {
	c := queue{used: q.used}
	for i := s.at(q.newest).next; ; i = s.at(i).next {
		c = c.append(s, *s.at(i))
		if i == q.newest {
			return c
		}
	}
}

// report says what a settled q leaves.
func (q queue) report(s *slab[entry], l *scale, now int64) usage {
	u := usage{remaining: max(0, l.rate-q.used)}
	if u.remaining < l.rate {
		u.refill = q.until(s, l, now, l.rate-u.remaining-1)
		u.reset = min(q.last, l.stamp(now)) + l.micros - now // until 0 comes to the same, entry by entry
	}
	return u
}
