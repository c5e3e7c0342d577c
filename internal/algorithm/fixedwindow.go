package algorithm

// A Window is the state of a FixedWindow: a counter that starts at 0 in each window. Windows are multiples of the period
// since the Unix epoch.
type Window struct {
	Used  int64
	Start int64
}

// Advance returns w as it is at now. Windows turn by a clock that is ahead of now by offset. When that clock is set, or when
// now went back, the count stays. It stands in the window that now lies in. But a window that begins after now, and at most one
// period after it, stays as it is: a clock that steps back across the turn of a window must not admit the rate once more.
func (w Window) Advance(l *Limit, now, offset int64) Window {
	if w.Start+l.Micros <= now {
		w.Used = 0
	}
	if start := FloorTo(now+offset, l.Micros) - offset; w.Used == 0 || w.Start <= now || w.Start > now+l.Micros {
		w.Start = start
	}
	return w
}

// End returns w with what ended holds are charged, each at its end. If no held claim has named its limit, a window that counts
// nothing then is not charged.
func (w Window) End(l *Limit, held bool, offset int64, ended []Ending) Window {
	for _, e := range ended {
		if then := w.Advance(l, e.At, offset); held || then.Used > 0 {
			w = then.Charge(e.Cost)
		}
	}
	return w
}

// Wait returns how long after now w admits cost, which is at most the rate.
func (w Window) Wait(l *Limit, now, cost int64) int64 {
	if w.Used <= l.Rate-cost {
		return 0
	}
	return w.Start + l.Micros - now
}

// Charge returns w with cost in it, whether it fits or not.
func (w Window) Charge(cost int64) Window {
	w.Used = min(w.Used+cost, MaxExact)
	return w
}

// Refund returns w, advanced or not, without a charge of cost at an earlier instant, if that was in this window.
func (w Window) Refund(l *Limit, at, cost int64) Window {
	if at >= w.Start && at < w.Start+l.Micros {
		w.Used = max(0, w.Used-cost)
	}
	return w
}

// Report says what w leaves.
func (w Window) Report(l *Limit, now int64) Usage {
	u := Usage{Remaining: max(0, l.Rate-w.Used)}
	if u.Remaining < l.Rate {
		u.Refill = w.Start + l.Micros - now
		u.Reset = u.Refill
	}
	return u
}
