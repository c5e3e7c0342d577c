package algorithm

// A CalendarState is the state of a CalendarWindow: a counter that starts at 0 in each window of a calendar. It knows
// when its window ends, for requests that do not name its limit.
type CalendarState struct {
	Used    int64
	Granted int64 // on top of the rate, until End
	Start   int64
	End     int64
}

// windowOf returns the window of now; the wall clock is ahead of now by offset. A limit that no request names knows
// only the window of w and the start of the next one.
func (w CalendarState) windowOf(l *Limit, now, offset int64) (start, end int64) {
	switch {
	case l.Windows != nil:
		start, end = l.Windows(now + offset)
		return start - offset, end - offset
	case now < w.End:
		return w.Start, w.End
	}
	return w.End, w.End + longestWindow(l.Kind)
}

// longestWindow returns an upper bound of the length of the windows of a calendar kind, in microseconds.
func longestWindow(kind uint64) int64 {
	return [...]int64{0, 3, 10, 33, 368, 0, 0, 0}[kind>>4&7] * 24 * 60 * 60 * 1_000_000
}

// Advance returns w at now. If now has gone back, the next window stays unchanged, as in a FixedWindow.
func (w CalendarState) Advance(l *Limit, now, offset int64) CalendarState {
	if w.End <= now {
		w.Used, w.Granted = 0, 0
	}
	start, end := w.windowOf(l, now, offset)
	if w.Used == 0 && w.Granted == 0 || w.Start <= now || w.Start > end {
		w.Start, w.End = start, end
	}
	return w
}

// Wait returns how long after now w admits cost, which is at most the rate.
func (w CalendarState) Wait(l *Limit, now, cost int64) int64 {
	if w.Used-w.Granted <= l.Rate-cost {
		return 0
	}
	return w.End - now
}

// Report says what w leaves.
func (w CalendarState) Report(l *Limit, now int64) Usage {
	u := Usage{Remaining: max(0, l.Rate-w.Used+w.Granted)}
	if u.Remaining < l.Rate {
		u.Refill = w.End - now
		u.Reset = u.Refill
	}
	return u
}

// calendarWindow is the row of CalendarWindow. The row of a FixedWindow has the same functions, without the calendar.
var calendarWindow = Row{
	Code: 6,
	Load: func(s *State, p *Packed, l *Limit, now, offset int64, _ bool) {
		s.Calendar = p.calendar().Advance(l, now, offset)
		before := p.calendar()
		isEmpty := before.Used == 0 && before.Granted == 0
		if (isEmpty || s.Calendar.Used > 0 || s.Calendar.Granted != 0) && s.Calendar != before { // the window is new, or the clock was set
			p.setCalendar(s.Calendar)
		}
	},
	Wait: func(s *State, l *Limit, now, cost int64) int64 { return s.Calendar.Wait(l, now, cost) },
	Charge: func(s *State, p *Packed, _ *Limit, _, cost int64) {
		s.Calendar.Used = min(s.Calendar.Used+cost, MaxExact)
		p.setCalendar(s.Calendar)
	},
	Report: func(s *State, l *Limit, now int64) Usage { return s.Calendar.Report(l, now) },
	Refund: func(p *Packed, _ *Log, _ *Limit, _, at, cost int64) {
		if w := p.calendar(); at >= w.Start && at < w.End {
			p.Level = max(0, w.Used-cost)
		}
	},
	Grant: func(s *State, p *Packed, _ *Limit, _, n int64) {
		s.Calendar.Granted = addGrant(s.Calendar.Granted, n)
		p.setCalendar(s.Calendar)
	},
	Keep: func(s *State, p *Packed, _ *Limit, now int64, _ bool) {
		if p.calendar().End <= now { // otherwise another claim may have charged it since
			p.setCalendar(s.Calendar)
		}
	},
	End: func(p *Packed, _ *Log, l *Limit, _ bool, _, offset int64, ended []Ending) {
		w := p.calendar()
		for _, e := range ended {
			if then := w.Advance(l, e.At, offset); p.IsHeld() || then.Used > 0 {
				w = then
				w.Used = min(w.Used+e.Cost, MaxExact)
			}
		}
		p.setCalendar(w)
	},
	Ends: calendarEnds,
	EndsAfter: func(p *Packed, _ *Log, ended []Ending) int64 {
		return max(calendarEnds(p), lastOf(ended)+longestWindow(p.Kind))
	},
	LimitOf: func(p *Packed, _ *Log) Limit { return Limit{Algorithm: CalendarWindow, Kind: p.Kind & kindBits} },
	Empty: func(p *Packed, _ *Log) {
		p.Level = 0
		p.setGranted(0)
	},
}

func calendarEnds(p *Packed) int64 {
	w := p.calendar()
	if w.Used == 0 && w.Granted == 0 {
		return w.Start
	}
	return w.End
}
