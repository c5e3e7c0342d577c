package oracle

// A Portion is a number of requests that the store charged ahead at one instant of its clock.
type Portion struct{ At, Count int64 }

// An Answer says how a Holder decides a request.
type Answer struct {
	Taken  Portion   // what the request uses; if empty, the Holder does not decide the request
	At     int64     // the store's time of the decision, as the Holder estimates it
	Wait   bool      // the request waits for the pending loan and then asks again
	Unused []Portion // to be returned in the call that decides the request
	Want   int64     // how many requests to ask the store for ahead; 0: none
}

// A Holder is what one process holds of one key. Instants are on the monotonic clock of its process, in microseconds,
// except in Portion.
type Holder interface {
	// Ask decides a request. One that has waited does not wait again.
	Ask(now, cost int64, waited bool) Answer
	// PutBack puts back what a request took, because another claim of the request was denied.
	PutBack(now int64, taken Portion)
	// Lent adds what a call, sent at an instant, has charged ahead.
	Lent(now, sent int64, p Portion)
	// Failed ends a call for a loan that failed, or whose outcome is unknown.
	Failed(now int64)
	// Refund puts back what it can of an admitted request, and returns what the store is to refund. at is the store's time of the
	// decision, as the process knows it.
	Refund(now, at, cost int64) Portion
	// Ended returns the unused requests whose lease has ended. They are returned to the store.
	Ended(now int64) []Portion
}

// A Lease is the reference Holder.
type Lease struct {
	length  int64     // how long a loan may be used
	loan    loan      // in use
	next    loan      // came while the other had requests left
	unused  []Portion // to be returned to the store
	asking  bool      // a loan is in flight
	resumes int64     // no loan is asked for before this instant
	asked   bool      // at least once
	last    int64     // when the key was last asked for
	span    int64     // the number of the current span of one length
	used    [2]int64  // in the current span, and in the last span before it that had a request
	late    bool      // the last loan came after its end
}

// A loan is what the store has charged ahead in one call. The zero value is none.
type loan struct {
	Portion
	size, ends int64
}

// NewLease returns a Lease without a loan.
func NewLease(length int64) *Lease { return &Lease{length: length} }

// Ask implements Holder.
func (l *Lease) Ask(now, cost int64, waited bool) Answer {
	again := l.asked && now-l.last < l.length
	l.asked, l.last = true, now
	l.expire(now)
	if !waited {
		l.use(now, cost)
	}
	if l.loan.Count < cost && l.next.Count >= cost {
		l.drop()
	}
	if l.loan.Count >= cost {
		l.loan.Count -= cost
		a := Answer{Taken: Portion{l.loan.At, cost}, At: l.loan.At + now - (l.loan.ends - l.length)}
		if l.isLow(now) {
			a.Want = l.want(now, cost)
		}
		return a
	}
	var a Answer
	if l.isBusy() && !waited {
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

// isLow reports whether the next loan should be asked for.
func (l *Lease) isLow(now int64) bool {
	return l.loan.Count <= l.loan.size/4 || l.isBusy() && l.loan.ends-now <= l.length/4
}

func (l *Lease) isBusy() bool { return max(l.used[0], l.used[1]) >= 4 }

// expire ends the loans whose time is over.
func (l *Lease) expire(now int64) {
	for l.loan.ends > 0 && now >= l.loan.ends {
		l.drop()
	}
}

// drop ends the loan in use, whose rest is unused.
func (l *Lease) drop() {
	if l.loan.Count > 0 {
		l.unused = append(l.unused, l.loan.Portion)
	}
	l.loan, l.next = l.next, loan{}
}

// use adds cost to the span that contains now.
func (l *Lease) use(now, cost int64) {
	if span := now / l.length; span != l.span {
		l.span, l.used = span, [2]int64{0, l.used[0]}
	}
	l.used[0] += cost
}

// want starts asking for a loan and returns how much to ask for. It returns 0 while a loan is in flight or waits for its use, and
// during a pause.
func (l *Lease) want(now, cost int64) int64 {
	if l.asking || l.next.ends > 0 || now < l.resumes {
		return 0
	}
	l.asking = true
	return max(cost, l.used[0], l.used[1])
}

// empty takes all that is held and all that is unused.
func (l *Lease) empty() []Portion {
	for l.loan.ends > 0 {
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
func (l *Lease) PutBack(now int64, taken Portion) {
	l.expire(now)
	if l.loan.ends > 0 && l.loan.At == taken.At {
		l.loan.Count += taken.Count
	} else {
		l.unused = append(l.unused, taken)
	}
}

// Lent implements Holder. One loan may be late because its process had no CPU; after two in succession there is a pause.
func (l *Lease) Lent(now, sent int64, p Portion) {
	late := now >= sent+l.length
	if p.Count == 0 || late && l.late {
		l.resumes = now + l.length
	}
	l.asking, l.late = false, late
	l.expire(now)
	switch {
	case p.Count == 0:
	case l.loan.Count > 0:
		l.next = loan{p, p.Count, sent + l.length}
	default:
		l.loan = loan{p, p.Count, sent + l.length}
	}
	l.expire(now)
}

// Failed implements Holder.
func (l *Lease) Failed(now int64) {
	l.asking, l.resumes = false, now+l.length
}

// Refund implements Holder. The store refunds the request as if it had been charged one length earlier. The request cannot have
// used a loan from before that, so the store never refunds more than still counts.
func (l *Lease) Refund(_, at, cost int64) Portion { return Portion{at - l.length, cost} }

// Ended implements Holder.
func (l *Lease) Ended(now int64) []Portion {
	l.expire(now)
	return l.takeUnused()
}
