package algorithm

// A Window is the state of a FixedWindow: a counter that starts at 0 in each window. Windows are multiples of the period
// since the Unix epoch, or the windows of a calendar. A Record has Used as Level, Start as At, and the seconds of a calendar's
// window as Extra.
type Window struct{ Used, Start, End int64 }

// window returns the window of l that an instant lies in; the wall clock is ahead of instants by offset.
func (l *Limit) window(at, offset int64) (start, end int64) {
	if l.Micros == 0 {
		start, end = l.Windows(at + offset)
		return start - offset, end - offset
	}
	start = FloorTo(at+offset, l.Micros) - offset
	return start, start + l.Micros
}

// Advance returns w as it is at now. Windows follow a clock that is ahead of now by offset. If that clock is set, or
// now goes back, the count stays and belongs to the window that contains now. But the window after that one stays
// unchanged, because a clock that steps back across the start of a window must not admit the rate once more.
func (w Window) Advance(l *Limit, now, offset int64) Window {
	if w.End <= now {
		w.Used = 0
	}
	start, end := l.window(now, offset)
	if w.Used == 0 || w.Start <= now || w.Start > end {
		w.Start, w.End = start, end
	}
	return w
}

// until returns how long after s.Now the window takes to count no more than target.
func (s *State) untilWindow(target int64) int64 {
	if s.Used <= target {
		return 0
	}
	return s.End - s.Now
}

// window returns the window in r, of l.
func (r *Record) window(l *Limit) Window {
	length := l.Micros
	if length == 0 {
		length = int64(r.Extra) * 1_000_000
	}
	return Window{Used: r.Level, Start: r.At, End: r.At + length}
}

func (r *Record) setWindow(w *Window) {
	r.Level, r.At, r.Extra = w.Used, w.Start, uint32((w.End-w.Start)/1_000_000)
}

// fixedWindow is the row of FixedWindow.
var fixedWindow = Row{
	Name: "fixed-window",
	Open: func(s *State, cost int64) int64 {
		var before Window
		if s.Stored != nil {
			before = s.Stored.window(s.Limit)
		}
		s.Window = before.Advance(s.Limit, s.Now, s.Offset)
		if s.Used > 0 && s.Window != before { // the clock was set
			s.Stored.setWindow(&s.Window)
		}
		return s.waitFor(cost, (*State).untilWindow)
	},
	Charge: func(s *State, cost int64) {
		s.Used = min(s.Used+cost, MaxExact)
		s.Stored.setWindow(&s.Window)
	},
	Refund: func(s *State, at, _, cost int64) {
		if r := s.Stored; r != nil {
			if w := r.window(s.Limit); at >= w.Start && at < w.End {
				r.Level = max(0, r.Level-cost)
			}
		}
	},
	Report: func(s *State) { s.Usage = s.report(s.Used, (*State).untilWindow) },
	Ends: func(r *Record) int64 {
		if r.Level == 0 {
			return r.At
		}
		if length := r.micros(); length < firstCalendar {
			return r.At + length
		}
		return r.At + int64(r.Extra)*1_000_000
	},
}

// waitFor returns how long after s.Now cost fits, or Never. until says how long it takes until no more than so many requests are
// used.
func (s *State) waitFor(cost int64, until func(s *State, target int64) int64) int64 {
	target := s.Limit.Rate - cost
	switch {
	case s.Limit.Rate == 0, target < 0 && s.Cells == nil:
		return Never
	case s.Cells == nil:
		return until(s, target)
	}
	for from := int64(0); ; { // a grant counts until it ends
		granted, stays := s.granted(from)
		if target+granted >= 0 {
			if wait := max(from, until(s, target+granted)); wait < stays {
				return wait
			}
		}
		if stays == Never {
			return Never
		}
		from = stays
	}
}

// granted returns what the cells grant to the limit so many microseconds after s.Now, and for how long after s.Now that stays, or
// Never if it is for good.
func (s *State) granted(after int64) (n, stays int64) {
	n, until := s.Cells.Granted(s.Limit.Kind, s.Now+after)
	if s.Limit.Algorithm == SlidingLog {
		n = min(n, MaxMembers-s.Limit.Rate)
	}
	if until == Never {
		return n, until
	}
	return n, until - s.Now
}

// GrantEnds returns when a grant to the window or log of s, made at s.Now, ends.
func (s *State) GrantEnds() int64 {
	if s.Limit.Algorithm == FixedWindow {
		return s.End
	}
	return s.Now + s.Limit.Micros
}

// report says what the rate and the grants leave of what is used.
func (s *State) report(used int64, until func(s *State, target int64) int64) Usage {
	granted := int64(0)
	if s.Cells != nil {
		granted, _ = s.granted(0)
	}
	u, missing := UsageOf(s.Limit, used, granted)
	if !missing {
		return u
	}
	u.Reset = until(s, 0)
	if s.Cells == nil {
		u.Refill = until(s, s.Limit.Rate-u.Remaining-1)
		return u
	}
	u.Refill = s.waitFor(u.Remaining+1, until)
	if u.Remaining == 0 { // perhaps not before a grant that takes away has ended
		u.Reset = max(u.Reset, u.Refill)
	}
	u.Refill = min(u.Refill, u.Reset)
	return u
}

// UsageOf returns the usage of a window or a log, without waits, and reports whether anything is missing.
func UsageOf(l *Limit, used, granted int64) (u Usage, missing bool) {
	if l.Rate == 0 { // nothing is admitted, whatever is granted
		return u, false
	}
	free := l.Rate + granted - used
	return Usage{Remaining: max(0, free), Granted: granted, Over: max(0, -free)}, used > 0 || free <= 0
}
