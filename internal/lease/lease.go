package lease

import "math"

// A loan is what the store charged ahead in one call. It may be used until one Lease after the process has asked for it, which is
// before the store charges it.
type loan struct {
	at         int64  // when the store charged it, in microseconds
	until      int64  // in nanoseconds of a clock of this process; 0 for no loan
	left, size uint32 // requests
}

// Unused is a number of requests that were charged ahead and are to be returned to the store.
type Unused struct {
	At    int64 // when the store charged them, in microseconds
	Count int64
	next  *Unused // charged at another instant; nil if there are none
}

// add adds n unused requests charged at an instant. They stay apart from others: a window may have begun in between, or a reset have
// come, and what was charged before is not returned.
func (l *lease) add(at, n int64) {
	u := l.unused
	for u != nil && u.At != at {
		u = u.next
	}
	if u != nil {
		u.Count += n
	} else if n > 0 {
		l.unused = &Unused{at, n, l.unused}
	}
}

// A lease has the requests of one key that this process may admit without asking the store. It has no clock and no lock: its
// methods take the instant, in nanoseconds of a clock of this process, and length, the Lease of the rule.
type lease struct {
	loan
	next   *loan   // a refill that came while the loan had requests left; nil for none
	unused *Unused // of loans that have ended
	since  int64   // the store's time when the last loan ended, as this process estimated it
	used   [2]uint32
	span   uint16 // the number of the current span: used counts what was decided in it, and in the last one seen before
	pause  uint8  // number of spans until the next refill may be asked for
	late   bool   // the last refill came after its end
	gone   bool   // the lease is out of the table
}

// pauseSpans is the length of a pause between refills, in spans: at least one Lease.
const pauseSpans = 2

// advance advances l to now: it ends the loans that have expired. In another span, it keeps the use in the last span seen as an
// estimate, even if that was long ago, because the process may have had no CPU since.
func (l *lease) advance(now, length int64) {
	if span := uint16(now / length); span != l.span {
		l.used = [2]uint32{0, l.used[0]}
		l.pause -= uint8(min(uint16(l.pause), span-l.span))
		l.span = span
	}
	for l.until > 0 && l.until <= now {
		l.drop(now, length)
	}
}

// drop ends the loan, whose rest is unused, and begins the next one.
func (l *lease) drop(now, length int64) {
	l.since = l.instant(min(now, l.until), length)
	l.add(l.at, int64(l.left))
	if l.loan = (loan{}); l.next != nil {
		l.loan, l.next = *l.next, nil
	}
}

// instant returns the store's time at now, in microseconds: when it charged the loan, plus the time since. There must be a loan.
func (l *lease) instant(now, length int64) int64 { return l.at + (now-(l.until-length))/1000 }

func (l *lease) available() int64 {
	if l.next != nil {
		return int64(l.left) + int64(l.next.left)
	}
	return int64(l.left)
}

// take takes cost out of a loan of an advanced l, and returns when the store charged that loan. It reports false if no loan has
// enough. The next loan begins once the current one has too little.
func (l *lease) take(now, length, cost int64) (at int64, ok bool) {
	if cost > int64(l.left) && l.next != nil && cost <= int64(l.next.left) {
		l.drop(now, length)
	}
	if cost > int64(l.left) {
		return 0, false
	}
	l.left -= uint32(cost)
	l.use(cost)
	return l.at, true
}

func (l *lease) use(cost int64) { l.used[0] = uint32(min(int64(l.used[0])+cost, math.MaxInt32)) }

// putBack reverses a take. If the loan has ended since, the requests are unused.
func (l *lease) putBack(at, n int64) {
	if l.until > 0 && l.at == at {
		l.left += uint32(n)
	} else {
		l.add(at, n)
	}
	l.used[0] -= min(l.used[0], uint32(n))
}

// refund puts up to n requests back into the loan of an advanced l, and returns how many. at is the store's time of their
// decision. A request from before the loan was charged ahead earlier, or by the store alone, and does not return to it.
func (l *lease) refund(now, length, at, n int64) int64 {
	if l.until == 0 || at <= l.since || at < l.at || at > l.instant(now, length) {
		return 0
	}
	n = max(0, min(n, int64(l.size)-int64(l.left)))
	l.left += uint32(n)
	return n
}

// isLow reports whether to ask for a refill before a request needs it: l is busy, and at most a quarter of the loan is left, or it
// ends within a quarter of a Lease.
func (l *lease) isLow(now, length int64) bool {
	return l.next == nil && l.isBusy() && (l.left <= l.size/4 || l.until-now <= length/4)
}

// isBusy reports whether another request is likely within a quarter of a Lease.
func (l *lease) isBusy() bool { return max(l.used[0], l.used[1]) >= 4 }

// want returns how much to ask for: what was used in the last Lease, plus the cost of a waiting request, which ends the loan, or less what will
// be used of the loan. To ask for more wastes it: it would be returned after other charges, when a bucket takes back only what cannot have drained.
func (l *lease) want(now, length, waiting int64) int64 {
	used := int64(max(l.used[0], l.used[1], 1))
	if waiting == 0 {
		used -= min(int64(l.left), max(0, l.until-now)/1000*used/(length/1000))
	}
	return min(max(used, 1)+waiting, math.MaxInt32)
}

// credit adds n requests to an advanced l, which the store has charged at an instant. If their time is over, they are unused. A
// pause follows a refill of nothing, and two late refills in succession. A single refill may be late because this process had no CPU.
func (l *lease) credit(now, length, at, until, n int64) {
	late := until <= now
	if n == 0 || late && l.late {
		l.pause = pauseSpans
	}
	l.late = late
	if l.until > 0 && l.left == 0 && !late {
		l.drop(now, length)
	}
	switch lent := (loan{at, until, uint32(n), uint32(n)}); {
	case late:
		l.add(at, n)
	case n == 0:
	case l.until == 0:
		l.loan = lent
	default:
		l.next = &lent
	}
}

// finish ends all loans.
func (l *lease) finish(now, length int64) {
	for l.until > 0 {
		l.drop(now, length)
	}
}

// isIdle reports whether an advanced l does not differ from a new lease in what it may do.
func (l *lease) isIdle() bool {
	return l.until == 0 && l.unused == nil && l.used == [2]uint32{} && l.pause == 0
}
