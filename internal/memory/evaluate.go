package memory

import "github.com/spillgate/spillgate/internal/algorithm"

// evaluate sets Retry by the state that is loaded.
func (a *Ask) evaluate(now int64) {
	if a.asked > a.Limit.Capacity {
		a.Retry = Never
		return
	}
	a.Retry = a.wait(now)
	if held := a.held(); held > 0 && a.Retry == 0 && !a.admits(now, a.asked+held) {
		a.Retry = algorithm.HoldHint
	}
	a.Retry = max(a.Retry, a.pair.banned-now)
}

// wait returns how long after now what was charged leaves room for what is asked.
func (a *Ask) wait(now int64) int64 {
	switch a.Limit.Algorithm {
	case algorithm.TokenBucket:
		return a.bucket.Wait(a.Limit, a.bucket.Rate, now, a.asked)
	case algorithm.FixedWindow:
		return a.window.Wait(a.Limit, now, a.asked)
	case algorithm.InFlight:
		return 0
	default:
		return a.log.Wait(a.Limit, now, a.asked)
	}
}

// admits reports whether what was charged leaves room for cost.
func (a *Ask) admits(now, cost int64) bool {
	switch a.Limit.Algorithm {
	case algorithm.TokenBucket:
		return cost <= a.Limit.Capacity && a.bucket.Wait(a.Limit, a.bucket.Rate, now, cost) == 0
	case algorithm.FixedWindow:
		return a.window.Used <= a.Limit.Rate-cost
	case algorithm.InFlight:
		return cost <= a.Limit.Capacity
	default:
		return a.log.Used() <= a.Limit.Rate-cost
	}
}

// held returns what requests hold that have not ended.
func (a *Ask) held() int64 {
	if a.Limit.Algorithm == algorithm.InFlight {
		return a.pair.count
	}
	return a.pair.cost
}
