package core

import (
	"slices"
	"time"
)

// The most that takeKnown decides at once.
const (
	mostKnown = 8 // limits
	mostPairs = 4
)

// A known is a token bucket of a pair that has state of its own, while takeKnown decides it.
type known struct {
	limit  *scale
	record *record
	was    record // before grant charged it
}

// takeKnown is Take for two or a few more token buckets of different pairs that have state of their own. Without the
// machinery for everything else it takes two fifths of the time. It reports false if claims are not of that kind.
//
// It reads the clock when takeOne does, for the same reason.
func (m *MemoryStore) takeKnown(claims []Claim, dst []Result) ([]Result, bool) {
	var ids [mostPairs]uint64
	held := m.identify(claims, &ids)
	if held == 0 {
		return nil, false
	}
	now := m.now()
	m.lock(held)
	var buf [mostKnown]known
	n := 0
	for i := range claims {
		some := buf[n : n+len(claims[i].Limits)]
		if now = m.shard(ids[i]).know(some, ids[i], claims[i].Limits, now); now == 0 {
			m.unlock(held)
			return nil, false
		}
		n += len(some)
	}
	list := buf[:n]
	n = len(dst)
	dst = slices.Grow(dst, len(list))[:n+len(list)]
	if !grant(claims, list, now, dst[n:]) {
		deny(claims, list, now, dst[n:])
	}
	m.unlock(held)
	return dst, true
}

// identify sets the ids of the pairs of claims and returns the set of their shards. It is empty if claims are not for
// takeKnown.
func (m *MemoryStore) identify(claims []Claim, ids *[mostPairs]uint64) (held uint64) {
	if len(claims) > mostPairs || len(claims) == 1 && len(claims[0].Limits) == 1 {
		return 0
	}
	m.once.Do(m.init)
	limits, rule := 0, uint64(0)
	for i := range claims {
		c := &claims[i]
		limits += len(c.Limits)
		if c.Cost < 0 || c.DryRun || len(c.Limits) == 0 || limits > mostKnown {
			return 0
		}
		if i == 0 || c.Rule != claims[i-1].Rule {
			rule = m.ruleID(c.Rule)
		}
		id := m.pairID(c.Key, rule)
		if slices.Contains(ids[:i], id) {
			return 0
		}
		ids[i] = id
		held |= 1 << shardOf(id)
	}
	return held
}

// know sets list to the limits of a pair, each with its record, and returns the latest instant of a record, or now if that
// is later. It returns 0 if they are not for takeKnown.
func (s *shard) know(list []known, id uint64, limits []Limit, now int64) int64 {
	records := s.records[s.first(id):]
	records = records[:min(len(records), 64)] // as many as taken has bits
	var taken uint64                          // the records that have their limit
	for j := range limits {
		l := scaleOf(&limits[j])
		i := 0
		for ; i < len(records) && records[i].id == id && !records[i].is(l.kind); i++ {
		}
		if l.tick == 0 || i == len(records) || records[i].id != id || taken>>i&1 == 1 || !records[i].isPlain(l) {
			return 0
		}
		taken |= 1 << i
		list[j].limit, list[j].record = l, &records[i]
		now = max(now, records[i].at)
	}
	return now
}

// grant charges all and appends what each limit has to say. If one does not admit its cost, it charges none and reports
// false.
func grant(claims []Claim, list []known, now int64, say []Result) bool {
	n, at := 0, time.UnixMicro(now)
	for i := range claims {
		c := &claims[i]
		cost := int64(max(c.Cost, 1))
		for range c.Limits {
			k := &list[n]
			l := k.limit
			b := k.record.bucket().drain(l, l.rate, now)
			if !b.admits(l, cost) {
				revoke(list[:n])
				return false
			}
			k.was = *k.record
			if !c.Peek {
				b = b.charge(l, cost)
				k.record.setBucket(b, l)
			}
			say[n].fill(c, l, 0, b.report(l, now), at)
			n++
		}
	}
	return true
}

// revoke takes back what grant has charged.
func revoke(list []known) {
	for i := range list {
		*list[i].record = list[i].was
	}
}

// deny charges none and appends what each limit has to say.
func deny(claims []Claim, list []known, now int64, say []Result) {
	n, at := 0, time.UnixMicro(now)
	for i := range claims {
		c := &claims[i]
		for range c.Limits {
			k := &list[n]
			l := k.limit
			b := k.record.bucket().drain(l, l.rate, now)
			say[n].fill(c, l, b.retry(l, now, int64(max(c.Cost, 1))), b.report(l, now), at)
			n++
		}
	}
}
