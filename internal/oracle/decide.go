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
	free := new(big.Rat).Sub(a.capacity(), a.asked)
	if free.Sign() < 0 {
		return core.Never
	}
	retry := a.wait(now, free)
	if retry == 0 && a.used(now).Cmp(free.Sub(free, a.held())) > 0 {
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

// used returns what is charged at now, less what is granted.
func (a *ask) used(now int64) *big.Rat { return a.usedAt(now, now) }

func (a *ask) usedAt(now, then int64) *big.Rat {
	used := a.state.used(a.limit, a.peek, now, then)
	if then < a.grant.ends {
		used.Sub(used, whole(a.grant.n))
	}
	return used
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

// wait returns how long after now at most target requests are in use.
func (a *ask) wait(now int64, target *big.Rat) time.Duration {
	fits := func(w int) bool { return a.usedAt(now, now+int64(w)).Cmp(target) <= 0 }
	left := max(0, int(a.grant.ends-now)) // after that the grant no longer counts
	micros := sort.Search(left, fits)
	if micros == left {
		micros += sort.Search(maxWait-left, func(w int) bool { return fits(left + w) })
	}
	return time.Duration(micros) * time.Microsecond
}

func (a *ask) result(now int64) core.Result {
	r := core.Result{
		Rule: a.id.Rule, Limit: a.limit, Allowed: a.retry == 0, RetryAfter: a.retry, Wait: a.turn, DryRun: a.dry, At: time.UnixMicro(now),
	}
	free := new(big.Rat).Sub(a.capacity(), a.used(now))
	if left := atLeastZero(free); left < int64(a.limit.Capacity()) {
		r.RefillAfter = a.wait(now, whole(int64(a.limit.Capacity())-left-1))
		r.ResetAfter = a.wait(now, new(big.Rat))
	}
	least := a.ban(now)
	if a.held().Sign() > 0 {
		least = max(least, hint*time.Microsecond)
	}
	r.RefillAfter, r.ResetAfter = max(r.RefillAfter, least), max(r.ResetAfter, least)
	if a.ban(now) == 0 {
		r.Remaining = int(atLeastZero(free.Sub(free, a.held())))
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
