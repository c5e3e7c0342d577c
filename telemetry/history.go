package telemetry

import (
	"sync"
	"sync/atomic"
	"time"
)

// historySeconds is the length of a rule's history.
const historySeconds = 3600

// A Second counts the requests of one second that a rule applied to, apart from those that only other rules denied.
type Second struct {
	Time      time.Time
	Allowed   int // allowed by all rules, unless this rule is a dry run that would have denied them
	Denied    int // denied by this rule
	WouldDeny int // allowed by all rules, but this rule is a dry run that would have denied them
}

// A history is a ring of seconds. When a second ends, its count is computed as the difference of two totals. So
// counting a request does not write to the history.
type history struct {
	mu      sync.Mutex
	buckets *[historySeconds]bucket // nil until the first second
	second  atomic.Int64            // the current second, changed under mu; 0 if there is none
	totals  [3]uint64               // the totals when it began
}

// A bucket is one second of a history.
type bucket struct {
	second uint32
	counts [3]uint32 // allowed, denied, would deny
}

// turn ends the current second, with the totals so far, and begins the next.
func (h *history) turn(second int64, totals [3]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.second.Load()
	if second <= before {
		return
	}
	if h.buckets == nil {
		h.buckets = new([historySeconds]bucket)
	}
	if before != 0 {
		h.buckets[before%historySeconds] = h.current(totals)
	}
	h.totals = totals
	h.second.Store(second)
}

// current returns the current second, from the totals so far.
func (h *history) current(totals [3]uint64) bucket {
	b := bucket{second: uint32(h.second.Load())}
	for i := range totals {
		b.counts[i] = uint32(max(totals[i], h.totals[i]) - h.totals[i]) // totals of concurrent requests may be torn
	}
	return b
}

// at returns a second, from the totals so far.
func (h *history) at(second int64, totals [3]uint64) bucket {
	if h.second.Load() == second {
		return h.current(totals)
	}
	if h.buckets != nil && h.buckets[second%historySeconds].second == uint32(second) {
		return h.buckets[second%historySeconds]
	}
	return bucket{}
}

// totals returns how many requests were allowed, denied, and allowed although a dry run would have denied them.
func (t *Telemetry) totals() [3]uint64 {
	would := t.would.Load() // first: its requests are counted as allowed before
	return [3]uint64{
		t.requests[allowed].Load() + t.requests[allowedDegraded].Load() - would,
		t.requests[denied].Load() + t.requests[deniedDegraded].Load(),
		would,
	}
}

// History returns the requests of a rule in each second of the last hour, or since the start if that is later. The rule
// "" means all requests, each counted once however many rules apply. The last second is not over yet. History returns
// nil if the rule has applied to no request.
func (t *Telemetry) History(rule string) []Second { return t.Recent(rule, historySeconds) }

// Recent returns the last n seconds of History.
func (t *Telemetry) Recent(rule string, n int) []Second {
	if rule == "" {
		return t.seconds(&t.total, t.totals(), n)
	}
	r := t.rules.Load().named(rule)
	if r == nil {
		return nil
	}
	return t.seconds(&r.history, r.totals(), n)
}

// seconds returns the last n seconds of h, from the totals so far.
func (t *Telemetry) seconds(h *history, totals [3]uint64, n int) (seconds []Second) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, last := time.Now().Truncate(time.Second), t.clock.now()
	for second := max(1, last-int64(min(n, historySeconds))+1); second <= last; second++ {
		counts := h.at(second, totals).counts
		seconds = append(seconds, Second{
			Time:    now.Add(time.Duration(second-last) * time.Second),
			Allowed: int(counts[0]), Denied: int(counts[1]), WouldDeny: int(counts[2]),
		})
	}
	return seconds
}
