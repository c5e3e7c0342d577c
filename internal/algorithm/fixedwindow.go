package algorithm

// A Window is the state of a FixedWindow: a counter that starts at 0 in each window. Windows are multiples of the period
// since the Unix epoch.
type Window struct {
	Used    int64
	Granted int64 // on top of the rate, until the window ends
	Start   int64
}

// Advance returns w as it is at now. Windows follow a clock that is ahead of now by offset. If that clock is set, or
// now goes back, the count stays and belongs to the window that contains now. But a window that begins at most one
// period after now stays unchanged, because a clock that steps back across the turn of a window must not admit the rate
// once more.
func (w Window) Advance(l *Limit, now, offset int64) Window {
	if w.Start+l.Micros <= now {
		w.Used, w.Granted = 0, 0
	}
	if start := FloorTo(now+offset, l.Micros) - offset; w.Used == 0 && w.Granted == 0 || w.Start <= now || w.Start > now+l.Micros {
		w.Start = start
	}
	return w
}

// End returns w after charging each ended hold at its end. If no held claim has named the limit, a window that counts
// nothing at that instant is not charged.
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
	if w.Used-w.Granted <= l.Rate-cost {
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
	u := Usage{Remaining: max(0, l.Rate-w.Used+w.Granted)}
	if u.Remaining < l.Rate {
		u.Refill = w.Start + l.Micros - now
		u.Reset = u.Refill
	}
	return u
}

// fixedWindow is the row of FixedWindow.
var fixedWindow = Row{
	Code: 4,
	Load: func(s *State, p *Packed, l *Limit, now, offset int64, _ bool) {
		s.Window = p.window().Advance(l, now, offset)
		if (s.Window.Used > 0 || s.Window.Granted != 0) && s.Window.Start != p.At { // the clock was set
			p.setWindow(s.Window)
		}
	},
	Wait: func(s *State, l *Limit, now, cost int64) int64 { return s.Window.Wait(l, now, cost) },
	Charge: func(s *State, p *Packed, _ *Limit, _, cost int64) {
		s.Window = s.Window.Charge(cost)
		p.setWindow(s.Window)
	},
	Report: func(s *State, l *Limit, now int64) Usage { return s.Window.Report(l, now) },
	Grant: func(s *State, p *Packed, _ *Limit, _, n int64) {
		s.Window.Granted = addGrant(s.Window.Granted, n)
		p.setWindow(s.Window)
	},
	Refund: func(p *Packed, _ *Log, l *Limit, _, at, cost int64) { p.setWindow(p.window().Refund(l, at, cost)) },
	End: func(p *Packed, _ *Log, l *Limit, _ bool, _, offset int64, ended []Ending) {
		p.setWindow(p.window().End(l, p.IsHeld(), offset, ended))
	},
	Ends:      windowEnds,
	EndsAfter: func(p *Packed, _ *Log, ended []Ending) int64 { return max(windowEnds(p), lastOf(ended)+p.micros()) },
	LimitOf: func(p *Packed, _ *Log) Limit {
		return Limit{Algorithm: FixedWindow, Kind: p.Kind & kindBits, Micros: p.micros()}
	},
	Empty: func(p *Packed, _ *Log) {
		p.Level = 0
		p.setGranted(0)
	},
}

func windowEnds(p *Packed) int64 {
	if p.granted() != 0 {
		return p.At + p.micros()
	}
	return periodEnds(p)
}

// periodEnds is Ends for states in which each charge counts for one period.
func periodEnds(p *Packed) int64 {
	if p.Level == 0 {
		return p.At
	}
	return p.At + p.micros()
}
