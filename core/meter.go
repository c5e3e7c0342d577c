package core

import "time"

// A pair of rule and key is known by its id, and by that of the state it shares when the store is full.
type pair struct {
	id, common uint64
}

// A meter is one limit of one claim while a MemoryStore decides it: what was asked, and the state of the pair.
type meter struct {
	pair
	limit  *scale
	shard  *shard
	claim  int
	cost   int64
	asked  int64 // the cost of all claims that charge this state
	peek   bool
	dryRun bool

	record *record // where the state is, until one is added to its table or removed; nil if it is that of a pair never seen
	own    bool    // record is of this pair
	retry  time.Duration
	bucket bucket
	window window
	queue  queue
}

// find sets record to that of the pair or, if it has none, that which it shares.
func (t *meter) find() {
	t.record = t.shard.find(t.id, t.limit.kind)
	t.own = t.record != nil
	if !t.own && t.shard.common > 0 {
		t.record = t.shard.find(t.common, t.limit.kind)
	}
}

// open finds and loads the state.
func (t *meter) open(now int64) {
	t.find()
	t.load(now)
}

// load loads the state as it is at now. A state from later than now is stored as it is decided on, or else denials would
// last until the clock is back where it was.
func (t *meter) load(now int64) {
	var r record
	if t.record != nil {
		r = *t.record
	}
	switch t.limit.limit.Algorithm {
	case TokenBucket:
		t.bucket = t.advance(r.bucket(), now)
		if t.bucket.at < r.at {
			t.record.setBucket(r.bucket().rewind(t.limit, now), t.limit)
		}
	case FixedWindow:
		if t.window = r.window().settle(t.limit, now); t.window.start < r.at {
			t.record.setWindow(t.window)
		}
	default:
		t.queue = r.queue().settle(&t.shard.entries, t.limit, now)
		if t.record != nil { // settling has dropped entries
			t.record.setQueue(t.queue)
		}
	}
}

// advance returns a bucket as it is at now. A peek names no rate, so its bucket drains at the slower one from then on. Pairs
// that share a bucket have it drain at the slowest rate since it was last empty.
func (t *meter) advance(b bucket, now int64) bucket {
	after := b.advance(t.limit, now)
	if (t.peek || t.record != nil && !t.own) && after.level > 0 && !b.isForgotten(now) {
		after.rate = min(b.rate, t.limit.rate)
	}
	return after
}

// name stores that a bucket was asked at another rate than before.
func (t *meter) name(now int64) {
	if t.record == nil || t.peek || t.limit.limit.Algorithm != TokenBucket || t.limit.rate == 0 {
		return
	}
	b := t.record.bucket()
	if b.rate != t.limit.rate && !b.isForgotten(now) {
		t.record.setBucket(t.advance(b, now), t.limit)
	}
}

// decide sets retry: 0 if the limit admits what is asked.
func (t *meter) decide(now int64) {
	var wait int64
	switch {
	case t.asked > t.limit.capacity:
		t.retry = Never
		return
	case t.limit.limit.Algorithm == TokenBucket:
		wait = t.bucket.wait(t.limit, now, t.asked)
	case t.limit.limit.Algorithm == FixedWindow:
		wait = t.window.wait(t.limit, now, t.asked)
	default:
		wait = t.queue.wait(&t.shard.entries, t.limit, now, t.asked)
	}
	t.retry = micros(wait)
}

// charge adds the cost to the state.
func (t *meter) charge(now int64) {
	switch t.limit.limit.Algorithm {
	case TokenBucket:
		t.bucket = t.bucket.charge(t.limit, t.cost)
		t.record.setBucket(t.bucket, t.limit)
	case FixedWindow:
		t.window = t.window.charge(t.cost)
		t.record.setWindow(t.window)
	default:
		t.queue = t.queue.charge(&t.shard.entries, t.limit, now, t.cost)
		t.record.setQueue(t.queue)
	}
}

// refund gives back the cost, charged at an earlier instant.
func (t *meter) refund(now, at int64) {
	t.find()
	cost := min(t.cost, t.limit.capacity)
	if t.record == nil || cost == 0 {
		return
	}
	switch t.limit.limit.Algorithm {
	case TokenBucket:
		t.record.setBucket(t.record.bucket().refund(t.limit, now, at, cost), t.limit)
	case FixedWindow:
		t.record.setWindow(t.record.window().refund(t.limit, at, cost))
	default:
		t.record.setQueue(t.record.queue().refund(&t.shard.entries, t.limit.stamp(at), cost))
	}
}

func (t *meter) report(now int64) usage {
	switch t.limit.limit.Algorithm {
	case TokenBucket:
		return t.bucket.report(t.limit, now)
	case FixedWindow:
		return t.window.report(t.limit, now)
	default:
		return t.queue.report(&t.shard.entries, t.limit, now)
	}
}

// ticks are the microseconds of each tick that a record may count in.
var ticks = [anyTick + 1]int64{1, 1000, 1_000_000, 1_000_000}

func (r *record) bucket() bucket {
	return bucket{
		level: r.level, at: r.at, busy: r.at - int64(r.extra), tick: ticks[r.kind&anyTick], rate: int64(r.rate),
		slowest: unpackRate(r.kind >> slowestAt),
	}
}

// setBucket stores b, which counts in the ticks of l.
func (r *record) setBucket(b bucket, l *scale) {
	r.kind = l.mark | packRate(b.slowest)<<slowestAt
	r.level, r.at = b.level, b.at
	r.extra = uint32(min(max(0, b.at-b.busy), maxBusy))
	r.rate = uint32(b.rate)
}

// isPlain reports whether r is a bucket in the ticks of l for which no other rate was named since it was last empty.
func (r *record) isPlain(l *scale) bool { return r.kind == l.mark && int64(r.rate) == l.rate }

func (r *record) window() window { return window{used: r.level, start: r.at} }

func (r *record) setWindow(w window) { r.level, r.at = w.used, w.start }

func (r *record) queue() queue {
	if Algorithm(r.kind>>2&3) < SlidingWindow {
		return queue{}
	}
	return queue{used: r.level, newest: r.extra, last: r.at}
}

// take copies the state of another record of the same kind, and its entries.
func (r *record) take(from record, s *slab[entry]) {
	id := r.id
	*r = from
	r.id = id
	if q := from.queue(); q.newest != 0 {
		r.setQueue(q.clone(s))
	}
}

func (r *record) setQueue(q queue) { r.level, r.extra, r.at = q.used, q.newest, q.last }
