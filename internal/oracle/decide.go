package oracle

import (
	"maps"
	"math"
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
	fits := func(then int64) bool { return a.free(now, then).Cmp(a.asked) >= 0 }
	retry := a.after(now, fits)
	if retry == core.Never {
		return retry
	}
	if free := a.free(now, now); retry == 0 && free.Sub(free, a.held()).Cmp(a.asked) < 0 {
		retry = hint * time.Microsecond
	}
	ban := a.ban(now)
	if ban <= retry {
		return retry
	}
	return max(ban, a.after(now, func(then int64) bool { return then >= now+ban.Microseconds() && fits(then) }))
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
	s := a.state.(tokenBucket)
	others := maps.Clone(s)
	delete(others, int64(a.limit.Rate))
	a.behind = a.after(now, func(then int64) bool {
		used := others.used(a.limit, now, then)
		return used.Add(used, a.asked).Cmp(whole(int64(a.limit.Capacity()))) <= 0
	})
	if s.hasRoom(a.limit, now, a.behind, a.ban(now), a.asked) {
		a.retry, a.turn = 0, a.retry
	}
}

// capacity returns what can be used at an instant: what the limit admits, and what is granted on top of it.
func (a *ask) capacity(then int64) int64 {
	if a.limit.Rate == 0 { // nothing is admitted, whatever is granted
		return 0
	}
	most := int64(a.limit.Capacity()) + a.pair.granted(a.id, then)
	if a.id.algorithm == core.SlidingLog {
		return min(most, maxMembers)
	}
	return most
}

// free returns what is not charged at the instant then, if nothing is charged between now and then.
func (a *ask) free(now, then int64) *big.Rat {
	free := whole(a.capacity(then))
	return free.Sub(free, a.state.used(a.limit, now, then))
}

// held returns what requests in flight hold.
func (a *ask) held() *big.Rat {
	if a.limit.Algorithm == core.InFlight {
		_, count := a.pair.holds.sum()
		return whole(count)
	}
	cost, _ := a.pair.holds.sum()
	return whole(cost)
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
			a.state.(tokenBucket).book(a.limit, now, a.behind, a.ban(now), a.cost)
		case !a.hold:
			a.state.charge(a.limit, now, a.cost)
		case a.first:
			c := claims[a.claim]
			a.pair.holds.add(now, held{cost: saturated(0, int64(max(c.Cost, 1))), count: 1, limits: charged(c.Limits)})
		}
	}
}

// after returns how long after now the first instant is at which a condition holds, or Never. Between the ends of grants, the condition
// stays true once it is true; when a grant ends, it may become false.
func (a *ask) after(now int64, holds func(then int64) bool) time.Duration {
	begun := now
	for _, g := range a.pair.grants { // in the order of their ends
		if g.id != a.id || g.ends <= begun {
			continue
		}
		n := int(g.ends - begun)
		if i := sort.Search(n, func(i int) bool { return holds(begun + int64(i)) }); i < n {
			return time.Duration(begun+int64(i)-now) * time.Microsecond
		}
		begun = g.ends
	}
	if !holds(math.MaxInt64 / 2) {
		return core.Never
	}
	most := int(min(maxWait-(begun-now), math.MaxInt))
	if period := int(a.limit.Period.Microseconds()); period < most && holds(begun+int64(period)) { // as almost always
		most = period
	}
	i := sort.Search(most, func(i int) bool { return holds(begun + int64(i)) })
	return time.Duration(begun+int64(i)-now) * time.Microsecond
}

func (a *ask) result(now int64) core.Result {
	r := core.Result{
		Rule: a.rule, Limit: a.limit, Allowed: a.retry == 0, RetryAfter: a.retry, Wait: a.turn, DryRun: a.dry,
		At: time.UnixMicro(now),
	}
	if a.limit.Rate > 0 {
		r.Granted = int(a.capacity(now)) - a.limit.Capacity()
	}
	free, ban := a.free(now, now), a.ban(now)
	left := atLeastZero(free)
	if a.id.algorithm != core.TokenBucket && a.limit.Rate > 0 {
		r.Over = int(atLeastZero(new(big.Rat).Neg(free)))
	}
	empty := func(then int64) bool { return a.state.used(a.limit, now, then).Sign() == 0 }
	if a.limit.Rate > 0 && (left == 0 || !empty(now)) { // else nothing is missing
		if ban > 0 {
			left = 0
		}
		r.RefillAfter = a.after(now, func(then int64) bool {
			return then >= now+ban.Microseconds() && a.free(now, then).Cmp(whole(left+1)) >= 0
		})
		r.ResetAfter = a.after(now, empty)
		if left == 0 { // perhaps not before a grant that takes away has ended
			r.ResetAfter = max(r.ResetAfter, r.RefillAfter)
		} else { // grants that end may prevent that more is available
			r.RefillAfter = min(r.RefillAfter, r.ResetAfter)
		}
	}
	least := ban
	if a.held().Sign() > 0 {
		least = max(least, hint*time.Microsecond)
	}
	if a.limit.Rate == 0 { // it never recovers
		least = 0
	}
	r.RefillAfter, r.ResetAfter = max(r.RefillAfter, least), max(r.ResetAfter, least)
	if ban == 0 {
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
