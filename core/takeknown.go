package core

import "time"

// The most that takeKnown decides at once.
const (
	mostKnown = 8 // limits
	mostPairs = 4
)

// A known is a token bucket of a pair that has state of its own, while takeKnown decides it.
type known struct {
	limit  *scale
	record *record
	bucket bucket
	retry  time.Duration
}

// takeKnown is Take for two or a few more token buckets of different pairs that have state of their own. Without the machinery for
// everything else it takes half the time. It reports false if claims are not of that kind.
func (m *MemoryStore) takeKnown(claims []Claim, dst []Result) (at time.Time, results []Result, ok bool) {
	var buf [mostPairs]pair
	pairs := m.fewPairs(claims, &buf)
	if pairs == nil {
		return at, nil, false
	}
	held := m.lock(pairs)
	defer m.unlock(held)
	now := m.now()
	var list [mostKnown]known
	admitted, ok := m.ask(claims, pairs, &list, now)
	if !ok {
		return at, nil, false
	}
	return time.UnixMicro(now), grant(claims, &list, admitted, now, dst), true
}

// fewPairs returns the pairs of claims in buf, or nil if they are not for takeKnown.
func (m *MemoryStore) fewPairs(claims []Claim, buf *[mostPairs]pair) []pair {
	if len(claims) > mostPairs || len(claims) == 1 && len(claims[0].Limits) == 1 {
		return nil
	}
	m.once.Do(m.init)
	limits := 0
	for i := range claims {
		c := &claims[i]
		limits += len(c.Limits)
		if c.Cost < 0 || c.DryRun || len(c.Limits) == 0 || limits > mostKnown {
			return nil
		}
		buf[i].id = m.id(c)
		for j := range i {
			if buf[j].id == buf[i].id {
				return nil
			}
		}
	}
	return buf[:len(claims)]
}

// ask decides each limit by itself and reports whether all admit what they are asked. ok is false if one is not for
// takeKnown.
func (m *MemoryStore) ask(claims []Claim, pairs []pair, list *[mostKnown]known, now int64) (admitted, ok bool) {
	n := 0
	admitted = true
	for i := range claims {
		c, id := &claims[i], pairs[i].id
		s := m.shard(id)
		first := s.first(id)
		for j := range c.Limits {
			l := scaleOf(&c.Limits[j])
			r := s.pick(first, id, l.kind)
			if l.tick == 0 || r == nil || holds(list[n-j:n], r) {
				return false, false
			}
			k := &list[n]
			k.limit, k.record = l, r
			k.bucket = r.bucket().settle(l, now)
			k.retry = k.bucket.retry(l, now, int64(max(c.Cost, 1)))
			admitted = admitted && k.retry == 0
			n++
		}
	}
	return admitted, true
}

// holds reports whether r is in list.
func holds(list []known, r *record) bool {
	for i := range list {
		if list[i].record == r {
			return true
		}
	}
	return false
}

// grant charges all, if they are admitted, and appends what each limit has to say.
func grant(claims []Claim, list *[mostKnown]known, admitted bool, now int64, dst []Result) []Result {
	n := 0
	for i := range claims {
		c := &claims[i]
		for range c.Limits {
			k := &list[n]
			if admitted && !c.Peek {
				k.bucket = k.bucket.charge(k.limit, int64(max(c.Cost, 1)))
				k.record.setBucket(k.bucket, k.limit)
			}
			dst = appendResult(dst, c, k.limit, k.retry, k.bucket.report(k.limit, now))
			n++
		}
	}
	return dst
}
