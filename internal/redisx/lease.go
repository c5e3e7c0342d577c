package redisx

import (
	"math"
	"slices"
)

// A lease holds the requests of one key that were charged ahead, which this process may admit without asking the store. It has no
// clock and no lock: its methods take the instant, in nanoseconds of a clock of this process, and length, the Lease of the rule.
//
// Each grant of the store becomes a portion. There are at most two: the one that requests use, and the one that was asked for
// when little was left. A portion ends one Lease after it was asked for, which is before it was charged.
type lease struct {
	at     [2]int64   // when the store charged each portion, in microseconds; the older one comes first
	ends   [2]int64   // 0 for no portion
	left   [2]uint32  // of each portion
	size   [2]uint32  // of each portion, as granted
	used   [2]uint32  // requests decided in the current span of one Lease, and in the last one seen before
	rare   *leaseRare // nil for nothing
	span   uint16     // the number of the current span
	pause  uint8      // in how many spans the next grant may be asked for
	late   bool       // the last grant came after its end
	stored uint32     // what the first limit had left in the store after the last call
}

// taken records from which portions a request was taken.
type taken struct {
	at [2]int64  // when each portion was charged
	n  [2]uint32 // how many requests came from it
}

// mark returns when the store charged the older of the portions that t was taken from.
func (t *taken) mark() int64 {
	if t.n[0] > 0 {
		return t.at[0]
	}
	return t.at[1]
}

// pauseSpans is the length of a pause between grants, in spans: at least one Lease.
const pauseSpans = 2

// roll moves l on to the span that now lies in. What was used in the last one that was seen still says how much a Lease takes: a
// process may have had no CPU since.
func (l *lease) roll(now, length int64) {
	span := uint16(now / length)
	if span == l.span {
		return
	}
	l.used = [2]uint32{0, l.used[0]}
	l.pause -= uint8(min(uint16(l.pause), span-l.span))
	l.span = span
}

// advance brings l up to now: it ends the portions whose time is over.
func (l *lease) advance(now, length int64) {
	l.roll(now, length)
	for l.ends[0] > 0 && l.ends[0] <= now {
		l.shift()
	}
}

// shift ends the older portion: what is left of it is to be given back.
func (l *lease) shift() {
	l.giveBack(l.at[0], int64(l.left[0]))
	l.at = [2]int64{l.at[1]}
	l.ends = [2]int64{l.ends[1]}
	l.left, l.size = [2]uint32{l.left[1]}, [2]uint32{l.size[1]}
}

// giveBack notes that n requests charged at an instant are to be given back.
func (l *lease) giveBack(at, n int64) {
	if n == 0 {
		return
	}
	l.ensureRare().unused.add(at, n)
}

// available returns how many requests are left.
func (l *lease) available() int64 { return int64(l.left[0]) + int64(l.left[1]) }

// take takes cost out of an advanced l, the older portion first, and reports whether that had enough.
func (l *lease) take(cost int64) (t taken, ok bool) {
	if cost > l.available() {
		return taken{}, false
	}
	first := min(l.left[0], uint32(cost))
	t = taken{l.at, [2]uint32{first, uint32(cost) - first}}
	l.left[0], l.left[1] = l.left[0]-t.n[0], l.left[1]-t.n[1]
	l.use(cost)
	return t, true
}

// use counts a request that was decided.
func (l *lease) use(cost int64) { l.used[0] = uint32(min(int64(l.used[0])+cost, math.MaxInt32)) }

// putBack undoes a take. What was taken from a portion that has ended since is to be given back.
func (l *lease) putBack(t taken) {
	for i, n := range t.n {
		if n > 0 && !l.restore(t.at[i], n) {
			l.giveBack(t.at[i], int64(n))
		}
		l.used[0] -= min(l.used[0], n)
	}
}

// restore adds n to the portion that was charged at an instant, and reports whether there is one. Of two that were charged at the same
// instant it takes the newer one, which the next grant does not end.
func (l *lease) restore(at int64, n uint32) bool {
	for i := range slices.Backward(l.at[:]) {
		if l.ends[i] > 0 && l.at[i] == at {
			l.left[i] += n
			return true
		}
	}
	return false
}

// isLow reports whether the next grant should be asked for before a request needs it: l is busy, and at most a quarter of the last
// one is left, or it ends within a quarter of a Lease.
func (l *lease) isLow(now, length int64) bool {
	last := l.newest()
	return l.isBusy() && (l.available() <= int64(l.size[last]/4) || l.ends[last]-now <= length/4)
}

// isBusy reports whether another request is likely within a quarter of a Lease.
func (l *lease) isBusy() bool { return max(l.used[0], l.used[1]) >= 4 }

// newest returns the place of the newer portion.
func (l *lease) newest() int {
	if l.ends[1] > 0 {
		return 1
	}
	return 0
}

// refund puts up to n requests back into the portion for whose instant isOf reports true, and returns how many. A portion never
// has more than it was granted.
func (l *lease) refund(isOf func(at int64) bool, n int64) int64 {
	for i := range l.at {
		if l.ends[i] > 0 && isOf(l.at[i]) {
			n = min(n, int64(l.size[i]-l.left[i]))
			l.left[i] += uint32(n)
			return n
		}
	}
	return 0
}

// want returns how much to ask for: what was used in the last Lease, and what a request needs that waits for it.
func (l *lease) want(waiting int64) int64 {
	return min(int64(max(l.used[0], l.used[1], 1))+waiting, math.MaxInt32)
}

// credit adds a portion of n requests that the store has charged at an instant, to an advanced l. One that has ended is to be
// given back, and so is what is left of the oldest of three. There is a pause after a grant of nothing, and after two in
// succession that were late: one may be late because this process had no CPU.
func (l *lease) credit(now, at, ends, n int64) {
	late := ends <= now
	if n == 0 || late && l.late {
		l.pause = pauseSpans
	}
	l.late = late
	switch {
	case late:
		l.giveBack(at, n)
		return
	case n == 0:
		return
	case l.ends[1] > 0:
		l.shift()
	}
	i := 0
	if l.ends[0] > 0 {
		i = 1
	}
	l.at[i], l.ends[i], l.left[i], l.size[i] = at, ends, uint32(n), uint32(n)
}

// rest has l ask for no grants for a while, because little or nothing is left in the store: half of that would be nothing, and each
// request has to ask the store anyway.
func (l *lease) rest() { l.pause = max(l.pause, pauseSpans) }

// rests reports whether an advanced l rests and holds nothing.
func (l *lease) rests() bool {
	return l.pause > 0 && l.available() == 0 && !l.hasUnused() && l.grantInFlight() == nil
}

// end ends all portions.
func (l *lease) end() {
	for l.ends[0] > 0 {
		l.shift()
	}
}

// takeUnused returns what is to be given back, and forgets it.
func (l *lease) takeUnused() (b backs) {
	if l.rare != nil {
		b, l.rare.unused = l.rare.unused, backs{}
		l.dropRare()
	}
	return b
}

// isIdle reports whether an advanced l is as if it had never been.
func (l *lease) isIdle() bool {
	return l.ends[0] == 0 && !l.hasUnused() && l.used == [2]uint32{} && l.pause == 0
}

// instant returns what the clock of the store shows at now, in microseconds: the instant of the last reply, and the time since.
// There must be a portion.
func (l *lease) instant(now, length int64) int64 {
	i := l.newest()
	return l.at[i] + (now-(l.ends[i]-length))/1000
}
