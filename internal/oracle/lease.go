package oracle

import "slices"

// A Portion is a number of requests that the store charged ahead at one instant of its clock.
type Portion struct{ At, Count int64 }

// An Answer says how a Holder decides a request.
type Answer struct {
	Taken  []Portion // what the request uses; if empty, the Holder does not decide the request
	Wait   bool      // the request waits for the pending grant and then asks again
	Unused []Portion // to be returned in the call that decides the request
	Want   int64     // how many requests to ask the store for ahead; 0: none
}

// A Holder is what one process holds of one key. Instants are on the monotonic clock of its process, in microseconds,
// except in Portion.
type Holder interface {
	// Ask decides a request. One that has waited does not wait again.
	Ask(now, cost int64, waited bool) Answer
	// PutBack puts back what a request took, because another claim of the request was denied.
	PutBack(now int64, taken []Portion)
	// Granted adds the portion that a call, sent at an instant, has charged ahead.
	Granted(now, sent int64, p Portion)
	// Failed ends a call for a grant that failed, or whose outcome is unknown.
	Failed(now int64)
	// Refund returns the portions to refund for a request that this Holder decided. at is the store's time of the decision, as
	// the process estimated it.
	Refund(now, at, cost int64) []Portion
	// Ended returns the unused portions whose lease has ended. They are returned to the store.
	Ended(now int64) []Portion
}

// A Lease is the reference Holder.
type Lease struct {
	length  int64     // how long a portion may be used
	live    []portion // oldest first, at most two
	unused  []Portion // to be returned to the store
	granted int64     // by the last grant
	asking  bool      // a grant is in flight
	resumes int64     // no grant is asked for before this instant
	asked   bool      // at least once
	last    int64     // when the key was last asked for
	span    int64     // the number of the current span of one length
	used    [2]int64  // in the current span, and in the last span before it that had a request
	late    bool      // the last grant came after its end
}

type portion struct {
	Portion
	ends int64
}

// NewLease returns a Lease with no portions.
func NewLease(length int64) *Lease { return &Lease{length: length} }

// Ask implements Holder.
func (l *Lease) Ask(now, cost int64, waited bool) Answer {
	again := l.asked && now-l.last < l.length
	l.asked, l.last = true, now
	l.expire(now)
	if !waited {
		l.use(now, cost)
	}
	if l.left() >= cost {
		taken := l.take(cost)
		if l.isLow(now) {
			return Answer{Taken: taken, Want: l.want(now, cost)}
		}
		return Answer{Taken: taken}
	}
	var a Answer
	if l.isBusy() && l.isLow(now) && !waited {
		a.Want = l.want(now, cost)
	}
	if a.Wait = l.asking && !l.late && !waited; a.Wait {
		return a
	}
	if a.Unused = l.empty(); again {
		a.Want += l.want(now, cost)
	}
	return a
}

// isLow reports whether the next grant should be asked for.
func (l *Lease) isLow(now int64) bool {
	if l.left() <= l.granted/4 {
		return true
	}
	return l.isBusy() && l.live[len(l.live)-1].ends-now <= l.length/4
}

func (l *Lease) isBusy() bool { return max(l.used[0], l.used[1]) >= 4 }

// expire moves the rest of each ended portion to unused.
func (l *Lease) expire(now int64) {
	for len(l.live) > 0 && now >= l.live[0].ends {
		l.drop()
	}
}

// drop moves the rest of the oldest portion to unused.
func (l *Lease) drop() {
	if p := l.live[0]; p.Count > 0 {
		l.unused = append(l.unused, p.Portion)
	}
	l.live = l.live[1:]
}

// use adds cost to the span that contains now.
func (l *Lease) use(now, cost int64) {
	if span := now / l.length; span != l.span {
		l.span, l.used = span, [2]int64{0, l.used[0]}
	}
	l.used[0] += cost
}

func (l *Lease) left() (left int64) {
	for _, p := range l.live {
		left += p.Count
	}
	return left
}

// take takes cost out of the portions, the oldest first.
func (l *Lease) take(cost int64) (taken []Portion) {
	for i := range l.live {
		p := &l.live[i]
		if n := min(cost, p.Count); n > 0 {
			p.Count -= n
			cost -= n
			taken = append(taken, Portion{p.At, n})
		}
	}
	return taken
}

// want starts asking for a grant and returns how much to ask for. It returns 0 while a grant is in flight and during a pause.
func (l *Lease) want(now, cost int64) int64 {
	if l.asking || now < l.resumes {
		return 0
	}
	l.asking = true
	return max(cost, l.used[0], l.used[1])
}

// empty takes all that is held and all that is unused.
func (l *Lease) empty() []Portion {
	for len(l.live) > 0 {
		l.drop()
	}
	return l.takeUnused()
}

func (l *Lease) takeUnused() []Portion {
	unused := l.unused
	l.unused = nil
	return unused
}

// PutBack implements Holder.
func (l *Lease) PutBack(now int64, taken []Portion) {
	l.expire(now)
	for _, p := range taken {
		i := slices.IndexFunc(l.live, func(q portion) bool { return q.At == p.At })
		if i < 0 {
			l.unused = append(l.unused, p)
			continue
		}
		l.live[i].Count += p.Count
	}
}

// Granted implements Holder. One grant may be late because its process had no CPU; after two in succession there is a pause.
func (l *Lease) Granted(now, sent int64, p Portion) {
	late := now >= sent+l.length
	if p.Count == 0 || late && l.late {
		l.resumes = now + l.length
	}
	l.asking, l.granted, l.late = false, p.Count, late
	if p.Count == 0 {
		return
	}
	l.expire(now)
	l.live = append(l.live, portion{p, sent + l.length})
	if len(l.live) > 2 {
		l.drop()
	}
	l.expire(now)
}

// Failed implements Holder.
func (l *Lease) Failed(now int64) {
	l.asking, l.resumes = false, now+l.length
}

// Refund implements Holder. It refunds as if the request had been charged one length earlier. The request cannot have
// used a portion charged before that, so Refund never refunds more than still counts.
func (l *Lease) Refund(_, at, cost int64) []Portion { return []Portion{{at - l.length, cost}} }

// Ended implements Holder.
func (l *Lease) Ended(now int64) []Portion {
	l.expire(now)
	return l.takeUnused()
}
