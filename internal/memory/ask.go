package memory

import (
	"math"

	"github.com/spillgate/spillgate/internal/algorithm"
)

// Never is the Retry of a cost that can never be admitted.
const Never = -1

// An Ask is one limit of one claim: what is asked of a Store, and what it answers.
type Ask struct {
	Pair   Pair
	Limit  *algorithm.Limit // compiled, and valid
	Claim  int              // the asks of one claim follow each other and have the same number
	Cost   int64            // at least 1, at most algorithm.MaxExact; 1 for a limit of requests in flight
	Peek   bool             // decide for Cost, charge nothing
	DryRun bool             // never deny; charge if the claim fits and the request is admitted

	Hold    bool // Take: hold instead of charging. Settle: it was held
	Renew   bool // Settle: keep what was held
	Renewed bool // answer of Settle: it is kept, and At is when it is held from

	Claimed int64 // the cost of the claim, which is held or was charged
	At      int64 // Settle: the instant of the Take, or of the last renewal, or NoInstant
	Final   int64 // Settle: what it costs after all
	Ban     int64 // Settle: microseconds for which nothing of the pair fits; the first ask of a claim says so

	Retry int64 // answer of Take: 0 if the limit admits Cost; else microseconds until it does, or Never
	Usage algorithm.Usage

	plain algorithm.Bucket // the state that plain.go decides by

	asked  int64 // the cost of all asks of this state that are decided as one
	shard  *shard
	record *record // of the pair or, if own is false, the one that it shares; nil if there is none
	own    bool
	added  bool // record was added for this ask

	bucket algorithm.RatedBucket
	window algorithm.Window
	log    *algorithm.Log
	pair   pairState
}

// NoInstant is the At of an ask of Settle whose Take another store has decided.
const NoInstant = math.MinInt64

// NoLimit is the limit of an ask for a ban alone.
var NoLimit = &algorithm.Limit{Kind: algorithm.BanKind}

// noLog is that of a pair without one. Nothing is ever charged to it.
var noLog algorithm.Log

// find sets record to that of the pair or, if it has none, that which it shares. It also finds what the pair remembers.
func (a *Ask) find() {
	s, id := a.shard, a.Pair.id
	a.record, a.pair = nil, pairState{}
	first := s.first(id)
	i := first
	for ; i < len(s.records) && s.records[i].id == id; i++ {
		r := &s.records[i]
		if r.is(a.Limit.Kind) {
			a.record = r
		}
		if r.isPairState() {
			a.pair.note(r)
		}
	}
	if a.own = a.record != nil; !a.own {
		a.record = s.findShared(a.Pair, a.Limit.Kind)
	}
	if i == first && s.shared > 0 {
		a.pair.find(s, a.Pair)
	}
}

// rewind has a bucket follow a clock that went back, even if nothing is charged: else denials would last until the clock is
// back where it was.
func (a *Ask) rewind(now int64) {
	if a.Limit.Algorithm == algorithm.TokenBucket && a.Limit.Rate > 0 && a.record != nil && a.record.at > now {
		a.record.setRatedBucket(a.record.ratedBucket().Rewind(a.Limit, now), a.Limit)
	}
}

// name has a bucket remember the rate of the request, whatever becomes of that. A peek must not slow a bucket down, but names a
// faster rate, so that the wait that it reports is the wait of a charge.
func (a *Ask) name(now int64) {
	if a.Limit.Algorithm != algorithm.TokenBucket || a.record == nil {
		return
	}
	switch b := a.record.ratedBucket(); {
	case !b.Remembers(a.Limit, a.pair.count > 0, now):
	case !a.Peek:
		a.record.setRatedBucket(a.advance(b, now), a.Limit)
	case a.own && a.Limit.Rate > b.Rate:
		a.record.setRatedBucket(b.Advance(a.Limit, now), a.Limit)
	}
}

// load loads the state as it is at now.
func (a *Ask) load(now, offset int64) {
	a.pair.load(a.shard, now)
	var r record
	if a.record != nil {
		r = *a.record
	}
	switch a.Limit.Algorithm {
	case algorithm.InFlight:
	case algorithm.TokenBucket:
		a.bucket = a.advance(r.ratedBucket(), now)
	case algorithm.FixedWindow:
		a.window = r.window().Advance(a.Limit, now, offset)
		if a.window.Used > 0 && a.window.Start != r.at { // the clock was set
			a.record.setWindow(a.window)
		}
	default:
		a.log = &noLog
		if r.extra != 0 {
			a.log = a.shard.logs.at(r.extra)
			a.log.Advance(a.Limit, now)
			a.record.setLog(a.log)
		}
	}
}

// advance returns a bucket as it is at now. A peek names no slower rate, and a shared bucket drains at the slowest one since it was
// last empty.
func (a *Ask) advance(b algorithm.RatedBucket, now int64) algorithm.RatedBucket {
	if a.Peek || !a.own {
		return b.AdvanceUnnamed(a.Limit, now)
	}
	return b.Advance(a.Limit, now)
}

// charge adds cost to the state that is loaded, and stores it.
func (a *Ask) charge(now, cost int64) {
	switch a.Limit.Algorithm {
	case algorithm.InFlight:
		return
	case algorithm.TokenBucket:
		a.bucket.Bucket = a.bucket.Charge(a.Limit, now, cost)
		a.record.setRatedBucket(a.bucket, a.Limit)
	case algorithm.FixedWindow:
		a.window = a.window.Charge(cost)
		a.record.setWindow(a.window)
	default:
		a.addLog()
		a.log.Charge(a.Limit, now, cost)
		a.record.setLog(a.log)
	}
	if a.added {
		a.shard.endsAt(a.record.ends())
	}
}

// addLog adds a log to the record of a, if it has none.
func (a *Ask) addLog() {
	if a.record.extra == 0 {
		a.record.extra = a.shard.logs.add(algorithm.Log{})
	}
	a.log = a.shard.logs.at(a.record.extra)
}

// refund takes cost, which was charged at an earlier instant, from the state as far as it still counts.
func (a *Ask) refund(now, at, cost int64) {
	if cost = min(cost, a.Limit.Capacity); a.record == nil || cost <= 0 || a.Limit.Algorithm == algorithm.InFlight {
		return
	}
	switch a.Limit.Algorithm {
	case algorithm.TokenBucket:
		a.record.setRatedBucket(a.record.ratedBucket().Refund(a.Limit, now, at, cost), a.Limit)
	case algorithm.FixedWindow:
		a.record.setWindow(a.record.window().Refund(a.Limit, at, cost))
	default:
		if a.record.extra != 0 {
			g := a.shard.logs.at(a.record.extra)
			g.Refund(a.Limit, at, cost)
			a.record.setLog(g)
		}
	}
	a.shard.endsAt(a.record.ends())
}

// report sets Usage by the state that is loaded.
func (a *Ask) report(now int64) {
	switch a.Limit.Algorithm {
	case algorithm.TokenBucket:
		a.Usage = a.bucket.Report(a.Limit, a.bucket.Rate, now)
	case algorithm.FixedWindow:
		a.Usage = a.window.Report(a.Limit, now)
	case algorithm.InFlight:
		a.Usage = algorithm.Usage{Remaining: a.Limit.Capacity}
	default:
		a.Usage = a.log.Report(a.Limit, now)
	}
	a.Usage = a.Usage.Less(a.held(), a.pair.banned-now)
}
