package core

// A window is the state of a FixedWindow: a counter that starts at 0 in each window. Windows are multiples of the period
// since the Unix epoch. Times are in microseconds.
type window struct {
	used  int64
	start int64
}

// settle returns w as it is at now. After the clock went back, the count of a later window stands in the current one.
func (w window) settle(l *scale, now int64) window {
	start := floorTo(now, l.micros)
	if start > w.start {
		return window{start: start}
	}
	w.start = start
	return w
}

// wait returns how long after now a settled w admits cost, which is at most the rate.
func (w window) wait(l *scale, now, cost int64) int64 {
	if w.used <= l.rate-cost {
		return 0
	}
	return w.start + l.micros - now
}

// charge returns a settled w with cost in it.
func (w window) charge(cost int64) window {
	w.used += cost
	return w
}

// refund returns w, settled or not, without a charge of cost at an earlier instant, if that was in this window.
func (w window) refund(l *scale, at, cost int64) window {
	if floorTo(at, l.micros) == w.start {
		w.used = max(0, w.used-cost)
	}
	return w
}

// report says what a settled w leaves.
func (w window) report(l *scale, now int64) usage {
	u := usage{remaining: max(0, l.rate-w.used)}
	if u.remaining < l.rate {
		u.refill = w.start + l.micros - now
		u.reset = u.refill
	}
	return u
}
