package algorithm

// A Window is the state of a FixedWindow: a counter that starts at 0 in each window. Windows are multiples of the period
// since the Unix epoch, or the windows of a calendar. A Window knows when it ends, for requests that do not name its
// limit.
type Window struct {
	Used    int64
	Granted int64 // on top of the rate, until End
	Start   int64
	End     int64
}

// windowOf returns the window of now; the wall clock is ahead of now by offset. A calendar's limit that no request names
// knows only the window of w and the start of the next one.
func (w Window) windowOf(l *Limit, now, offset int64) (start, end int64) {
	switch {
	case l.Micros > 0:
		start = FloorTo(now+offset, l.Micros) - offset
		return start, start + l.Micros
	case l.Windows != nil:
		start, end = l.Windows(now + offset)
		return start - offset, end - offset
	case now < w.End:
		return w.Start, w.End
	}
	return w.End, w.End + longestWindow(l.Kind)
}

// longestWindow returns an upper bound of the length of the windows of a kind, in microseconds.
func longestWindow(kind uint64) int64 {
	if of := kind & kindBits >> 4; of < firstCalendar {
		return int64(of)
	}
	return [...]int64{0, 3, 10, 33, 368, 0, 0, 0}[kind>>4&7] * 24 * 60 * 60 * 1_000_000
}

// Advance returns w as it is at now. Windows follow a clock that is ahead of now by offset. If that clock is set, or
// now goes back, the count stays and belongs to the window that contains now. But the window after that one stays
// unchanged, because a clock that steps back across the turn of a window must not admit the rate once more.
func (w Window) Advance(l *Limit, now, offset int64) Window {
	if w.End <= now {
		w.Used, w.Granted = 0, 0
	}
	start, end := w.windowOf(l, now, offset)
	if w.isEmpty() || w.Start <= now || w.Start > end {
		w.Start, w.End = start, end
	}
	return w
}

// isEmpty reports whether w equals a new window.
func (w *Window) isEmpty() bool { return w.Used == 0 && w.Granted == 0 }

// finish returns w after charging each ended hold at its end. If no held claim has named the limit, a window that counts
// nothing at that instant is not charged.
func (w Window) finish(l *Limit, held bool, offset int64, ended []Ending) Window {
	for _, e := range ended {
		if then := w.Advance(l, e.At, offset); held || then.Used > 0 {
			w = then.Charge(e.Cost)
		}
	}
	return w
}

// Wait returns how long after now w admits cost, or Never.
func (w Window) Wait(l *Limit, now, cost int64) int64 {
	switch {
	case l.Rate > 0 && w.Used-w.Granted <= l.Rate-cost:
		return 0
	case cost > l.Rate: // the next window has no grant
		return Never
	}
	return w.End - now
}

// Charge returns w with cost in it, whether it fits or not.
func (w Window) Charge(cost int64) Window {
	w.Used = min(w.Used+cost, MaxExact)
	return w
}

// Refund returns w, advanced or not, without a charge of cost at an earlier instant, if that was in this window.
func (w Window) Refund(at, cost int64) Window {
	if at >= w.Start && at < w.End {
		w.Used = max(0, w.Used-cost)
	}
	return w
}

// Report says what w leaves.
func (w Window) Report(l *Limit, now int64) Usage {
	u, missing := UsageOf(l, w.Used, w.Granted)
	if missing {
		u.Refill = w.End - now
		u.Reset = u.Refill
	}
	return u
}

// fixedWindow is the row of FixedWindow.
var fixedWindow = Row{
	Code: 4,
	Load: func(s *State) {
		before := s.Stored.window()
		s.Window = before.Advance(s.Limit, s.Now, s.Offset)
		if s.Window != before && (before.isEmpty() || !s.Window.isEmpty()) { // the window is new, or the clock was set
			s.Stored.setWindow(s.Window)
		}
	},
	Wait: func(s *State, cost int64) int64 { return s.Window.Wait(s.Limit, s.Now, cost) },
	Charge: func(s *State, cost int64) {
		s.Window = s.Window.Charge(cost)
		s.Stored.setWindow(s.Window)
	},
	Report: func(s *State) Usage { return s.Window.Report(s.Limit, s.Now) },
	Grant: func(s *State, n int64) {
		s.Window.Granted = addGrant(s.Window.Granted, n)
		s.Stored.setWindow(s.Window)
	},
	Refund: func(p *Packed, _ *Log, _ *Limit, _, at, cost int64) { p.setWindow(p.window().Refund(at, cost)) },
	Keep: func(s *State) {
		if s.Stored.window().End <= s.Now { // otherwise another claim may have charged it since
			s.Stored.setWindow(s.Window)
		}
	},
	Finish: func(p *Packed, _ *Log, l *Limit, _ bool, _, offset int64, ended []Ending) {
		p.setWindow(p.window().finish(l, p.IsHeld(), offset, ended))
	},
	Ends: windowEnds,
	EndsAfter: func(p *Packed, _ *Log, ended []Ending) int64 {
		return max(windowEnds(p), lastOf(ended)+longestWindow(p.Kind))
	},
	LimitOf: func(p *Packed, _ *Log) Limit {
		l := Limit{Algorithm: FixedWindow, Kind: p.Kind & kindBits}
		if of := p.micros(); of < firstCalendar {
			l.Micros = of
		}
		return l
	},
	Forget: func(p *Packed, _ *Log) {
		p.Level = 0
		p.setGranted(0)
	},
}

func windowEnds(p *Packed) int64 {
	w := p.window()
	if w.isEmpty() {
		return w.Start
	}
	return w.End
}

// periodEnds is Ends for states in which each charge counts for one period.
func periodEnds(p *Packed) int64 {
	if p.Level == 0 {
		return p.At
	}
	return p.At + p.micros()
}
