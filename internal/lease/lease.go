package lease

import (
	"cmp"
	"math"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// A lease holds the requests of one key that were charged ahead, which this process may admit without asking the store. It has no
// clock and no lock: its methods take the instant, in nanoseconds of a clock of this process, and length, the Lease of the rule.
//
// Each grant of the store becomes a portion. There are at most two: the portion that requests use, and the portion that
// was asked for when little was left. A portion ends one Lease after the process has asked for it, which is before the
// store charges it.
type lease struct {
	at     [2]int64  // when the store charged each portion, in microseconds; the older one comes first
	ends   [2]int64  // 0 for no portion
	left   [2]uint32 // of each portion
	size   [2]uint32 // of each portion, as granted
	used   [2]uint32 // requests decided in the current span of one Lease, and in the last one seen before
	rare   *rare     // nil for nothing
	span   uint16    // the number of the current span
	pause  uint8     // number of spans until the next grant may be asked for
	late   bool      // the last grant came after its end
	stored uint32    // what the first limit had left in the store after the last call

	granted int32 // on top of the first limit's capacity, likewise
}

// pauseSpans is the length of a pause between grants, in spans: at least one Lease.
const pauseSpans = 2

// roll moves l to the span that contains now. It keeps the use in the last span seen as an estimate, even if that was
// long ago, because the process may have had no CPU since.
func (l *lease) roll(now, length int64) {
	span := uint16(now / length)
	if span == l.span {
		return
	}
	l.used = [2]uint32{0, l.used[0]}
	l.pause -= uint8(min(uint16(l.pause), span-l.span))
	l.span = span
}

// advance advances l to now: it ends the portions that have expired.
func (l *lease) advance(now, length int64) {
	l.roll(now, length)
	for l.ends[0] > 0 && l.ends[0] <= now {
		l.shift()
	}
}

// shift ends the older portion. The requests left in it are unused.
func (l *lease) shift() {
	l.addUnused(l.at[0], int64(l.left[0]))
	l.at = [2]int64{l.at[1]}
	l.ends = [2]int64{l.ends[1]}
	l.left, l.size = [2]uint32{l.left[1]}, [2]uint32{l.size[1]}
}

// addUnused records that n requests charged at an instant are to be returned to the store.
func (l *lease) addUnused(at, n int64) {
	if n == 0 {
		return
	}
	l.ensureRare().unused.add(at, n)
}

// available returns how many requests are left.
func (l *lease) available() int64 { return int64(l.left[0]) + int64(l.left[1]) }

// take takes cost out of an advanced l, from the older portion first, and reports whether l had enough. It returns how
// much it took from which portions.
func (l *lease) take(cost int64) (taken Portions, ok bool) {
	if cost > l.available() {
		return Portions{}, false
	}
	first := min(l.left[0], uint32(cost))
	second := uint32(cost) - first
	l.left[0], l.left[1] = l.left[0]-first, l.left[1]-second
	l.use(cost)
	return Portions{{l.at[0], int64(first)}, {l.at[1], int64(second)}}, true
}

// use counts a request that was decided.
func (l *lease) use(cost int64) { l.used[0] = uint32(min(int64(l.used[0])+cost, math.MaxInt32)) }

// putBack reverses a take. If a portion has ended since, the requests taken from it are unused.
func (l *lease) putBack(taken Portions) {
	for _, p := range taken {
		if p.Count > 0 && !l.putBackInto(p.At, uint32(p.Count)) {
			l.addUnused(p.At, p.Count)
		}
		l.used[0] -= min(l.used[0], uint32(p.Count))
	}
}

// putBackInto adds n to the portion that was charged at an instant, and reports whether there is one. Of two portions
// charged at the same instant, it uses the newer one, which the next grant does not end.
func (l *lease) putBackInto(at int64, n uint32) bool {
	for i := range slices.Backward(l.at[:]) {
		if l.ends[i] > 0 && l.at[i] == at {
			l.left[i] += n
			return true
		}
	}
	return false
}

// isLow reports whether to ask for the next grant before a request needs it: l is busy, and at most a quarter of the
// last grant is left, or the last portion ends within a quarter of a Lease.
func (l *lease) isLow(now, length int64) bool {
	last := l.newest()
	return l.isBusy() && (l.available() <= int64(l.size[last]/4) || l.ends[last]-now <= length/4)
}

// isBusy reports whether another request is likely within a quarter of a Lease.
func (l *lease) isBusy() bool { return max(l.used[0], l.used[1]) >= 4 }

// newest returns the index of the newer portion.
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

// want returns how much to ask for: what was used in the last Lease, plus the cost of a waiting request.
func (l *lease) want(waiting int64) int64 {
	return min(int64(max(l.used[0], l.used[1], 1))+waiting, math.MaxInt32)
}

// credit adds a portion of n requests, which the store has charged at an instant, to an advanced l. If the portion has
// ended already, it is unused; if l has three portions now, so is the rest of the oldest. A pause follows a
// grant of nothing, and two late grants in succession. A single grant may be late because this process had no CPU.
func (l *lease) credit(now, at, ends, n int64) {
	late := ends <= now
	if n == 0 || late && l.late {
		l.pause = pauseSpans
	}
	l.late = late
	switch {
	case late:
		l.addUnused(at, n)
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

// isUsedUp reports whether an advanced l holds nothing and asks for nothing, so that the store decides each request.
func (l *lease) isUsedUp() bool {
	return l.pause > 0 && l.available() == 0 && !l.hasUnused() && l.grantInFlight() == nil
}

// end ends all portions.
func (l *lease) end() {
	for l.ends[0] > 0 {
		l.shift()
	}
}

// takeUnused removes the unused requests from l. Its caller returns them to the store.
func (l *lease) takeUnused() (b Portions) {
	if l.rare != nil {
		b, l.rare.unused = l.rare.unused, Portions{}
		l.dropRare()
	}
	return b
}

// finish ends all portions and takes the unused requests. Its caller returns them to the store.
func (l *lease) finish() Portions {
	l.end()
	return l.takeUnused()
}

// isIdle reports whether an advanced l equals a new lease.
func (l *lease) isIdle() bool {
	return l.ends[0] == 0 && !l.hasUnused() && l.used == [2]uint32{} && l.pause == 0
}

// instant returns the store's time at now, in microseconds: the instant of the last reply plus the time since. There
// must be a portion.
func (l *lease) instant(now, length int64) int64 {
	i := l.newest()
	return l.at[i] + (now-(l.ends[i]-length))/1000
}

// Portions are requests of one key that the store charged ahead, at two instants at most. The zero value is empty.
type Portions [2]Portion

// A Portion is a number of requests that the store charged ahead at one instant of its clock, in microseconds.
type Portion struct{ At, Count int64 }

// add adds n requests charged at an instant. If there are three instants, it merges the two earliest into the earliest,
// which never returns more to the store.
func (p *Portions) add(at, n int64) {
	if n == 0 {
		return
	}
	for i := range p {
		if p[i].Count == 0 || p[i].At == at {
			p[i] = Portion{at, p[i].Count + n}
			return
		}
	}
	all := []Portion{p[0], p[1], {at, n}}
	slices.SortFunc(all, func(x, y Portion) int { return cmp.Compare(x.At, y.At) })
	*p = Portions{{all[0].At, all[0].Count + all[1].Count}, all[2]}
}

// addAll adds all of other.
func (p *Portions) addAll(other Portions) {
	for _, o := range other {
		p.add(o.At, o.Count)
	}
}

// Count returns how many requests p has.
func (p *Portions) Count() int64 { return p[0].Count + p[1].Count }

// mark returns when the earlier of the portions was charged.
func (p *Portions) mark() int64 {
	if p[0].Count > 0 {
		return p[0].At
	}
	return p[1].At
}

// rare has the fields that few leases need at a time, to keep most leases small.
type rare struct {
	unused Portions      // to be returned to the store
	others []after       // state of all limits but the first after the last call; nil if there is only one
	grant  *grant        // in flight; nil for none
	answer []core.Result // the store's latest answer to a request while the grant is in flight; nil for none
}

// ensureRare returns the rare state of l, allocated if there is none.
func (l *lease) ensureRare() *rare {
	if l.rare == nil {
		l.rare = new(rare)
	}
	return l.rare
}

// dropRare frees the rare state of l if it is empty.
func (l *lease) dropRare() {
	if r := l.rare; r != nil && r.unused == (Portions{}) && r.others == nil && r.grant == nil {
		l.rare = nil
	}
}

// hasUnused reports whether l has requests to return.
func (l *lease) hasUnused() bool { return l.rare != nil && l.rare.unused != (Portions{}) }

// grantInFlight returns the grant in flight, or nil.
func (l *lease) grantInFlight() *grant {
	if l.rare == nil {
		return nil
	}
	return l.rare.grant
}
