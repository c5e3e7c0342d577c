package oracle

import (
	"math/big"
	"sort"
	"time"

	"github.com/spillgate/spillgate/core"
)

// decide decides the asks that are dry runs, or the others, and reports whether all fit.
func decide(asks []*ask, now int64, dry bool) bool {
	all := true
	for _, a := range asks {
		if a.dry == dry {
			a.retry, a.turn = a.decide(now), 0
			a.book(now)
			all = all && a.retry == 0
		}
	}
	return all
}

// decide returns the wait until the cost fits, or Never.
func (a *ask) decide(now int64) time.Duration {
	retry := a.wait(now, a.asked)
	if retry == 0 && a.free(now).Cmp(a.asked) < 0 {
		retry = hint * time.Microsecond
	}
	return max(retry, a.ban(now))
}

// book gives a turn to a request that does not fit now, if the turn comes within the longest wait. Otherwise it sets retry
// to the time after which the turn would be soon enough. No request waits for holds, because nobody knows when they end.
func (a *ask) book(now int64) {
	if a.most == 0 || a.retry == 0 || a.retry == core.Never || a.held().Sign() > 0 {
		return
	}
	if a.retry > a.most {
		a.retry -= a.most
		return
	}
	if a.state.(*tokenBucket).hasRoom(a.limit, a.peek, now, a.ban(now), a.asked) {
		a.retry, a.turn = 0, a.retry
	}
}

// used returns what counts as charged at an instant.
func (a *ask) used(now, then int64) *big.Rat { return a.state.used(a.limit, a.peek, now, then) }

// room returns what is neither charged at an instant nor taken away.
func (a *ask) room(now, then int64) *big.Rat {
	room := new(big.Rat).Sub(a.capacity(), a.used(now, then))
	if a.limit.Rate == 0 { // nothing is admitted, whatever is granted
		return room
	}
	return room.Add(room, a.grant.at(then))
}

// held returns what requests in flight hold.
func (a *ask) held() *big.Rat {
	if a.limit.Algorithm == core.InFlight {
		return whole(a.pair.holds.sum().count)
	}
	return whole(a.pair.holds.sum().cost)
}

// ban returns how much longer the pair is banned.
func (a *ask) ban(now int64) time.Duration {
	return time.Duration(max(0, a.pair.banned-now)) * time.Microsecond
}

// counts reports whether a's limit counts requests in a window or a log, to which grants are added.
func (a *ask) counts() bool {
	_, isBucket := a.state.(*tokenBucket)
	return !isBucket && a.limit.Rate > 0 && a.limit.Algorithm != core.InFlight
}

// commit charges or holds the claims that are dry runs, or the others, as far as all limits of the claim fit.
func commit(asks []*ask, claims []core.Claim, now int64, dry bool) {
	fits := make(map[int]bool)
	for _, a := range asks {
		before, known := fits[a.claim]
		fits[a.claim] = a.retry == 0 && (before || !known)
	}
	for _, a := range asks {
		switch {
		case a.dry != dry || a.peek || !fits[a.claim]:
		case a.turn > 0:
			a.state.(*tokenBucket).book(a.limit, now, a.ban(now), a.cost)
		case !a.hold:
			a.state.charge(a.limit, now, a.cost)
		case a.first:
			a.pair.holds.add(now, held{saturated(0, int64(max(claims[a.claim].Cost, 1))), 1})
			fallthrough
		default:
			a.pair.held[a.id] = true
			a.state.keep(a.limit, now)
		}
	}
}

func (a *ask) capacity() *big.Rat { return whole(int64(a.limit.Capacity())) }

// wait returns how long after now there is room for cost, or Never.
func (a *ask) wait(now int64, cost *big.Rat) time.Duration {
	fits := func(w int) bool { return a.room(now, now+int64(w)).Cmp(cost) >= 0 }
	from := 0
	for _, g := range *a.grant { // until it ends, what is granted does not change
		if left := int(g.ends - now); left > 0 {
			if micros := from + sort.Search(left-from, func(w int) bool { return fits(from + w) }); micros < left {
				return time.Duration(micros) * time.Microsecond
			}
			from = left
		}
	}
	if a.capacity().Cmp(cost) < 0 {
		return core.Never
	}
	return time.Duration(from+sort.Search(maxWait-from, func(w int) bool { return fits(from + w) })) * time.Microsecond
}

// reset returns how long after now nothing is charged any more.
func (a *ask) reset(now int64) time.Duration {
	return time.Duration(sort.Search(maxWait, func(w int) bool { return a.used(now, now+int64(w)).Sign() == 0 })) * time.Microsecond
}

func (a *ask) result(now int64) core.Result {
	r := core.Result{
		Rule: a.id.Rule, Limit: a.limit, Allowed: a.retry == 0, RetryAfter: a.retry, Wait: a.turn, DryRun: a.dry, At: time.UnixMicro(now),
	}
	room := a.room(now, now)
	left := atLeastZero(room)
	if a.counts() {
		r.Granted = int(floor(a.grant.at(now)))
		r.Over = int(atLeastZero(new(big.Rat).Neg(room)))
	}
	if a.limit.Rate > 0 && (left == 0 || a.used(now, now).Sign() > 0) {
		r.RefillAfter, r.ResetAfter = a.wait(now, whole(left+1)), a.reset(now)
		if left == 0 {
			r.ResetAfter = max(r.RefillAfter, r.ResetAfter)
		} else { // grants that end may prevent that more is available
			r.RefillAfter = min(r.RefillAfter, r.ResetAfter)
		}
	}
	least := a.ban(now)
	if a.held().Sign() > 0 {
		least = max(least, hint*time.Microsecond)
	}
	r.RefillAfter, r.ResetAfter = max(r.RefillAfter, least), max(r.ResetAfter, least)
	if a.ban(now) == 0 {
		r.Remaining = int(atLeastZero(a.free(now)))
	}
	return r
}

// atLeastZero returns x rounded down, but at least 0.
func atLeastZero(x *big.Rat) int64 {
	if x.Sign() < 0 {
		return 0
	}
	return floor(x)
}
