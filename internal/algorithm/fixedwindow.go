package algorithm

import "slices"

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

func (r *Record) window() Window {
	length := r.micros()
	if length >= firstCalendar {
		length = int64(r.Extra) * 1_000_000
	}
	return Window{Used: r.Level, Start: r.At, End: r.At + length}
}

func (r *Record) setWindow(w *Window) {
	r.Level, r.At, r.Extra = w.Used, w.Start, uint32((w.End-w.Start)/1_000_000)
}

var fixedWindow = Row{
	Name: "fixed-window",
	Open: func(s *State) int64 {
		var before Window
		if s.Stored != nil {
			before = s.Stored.window()
		}
		s.Window = before.Advance(s.Limit, s.Now, s.Offset)
		if s.Used > 0 && s.Window != before { // the clock was set
			s.Stored.setWindow(&s.Window)
		}
		if s.Cells != nil && !s.Ended {
			s.rewindGrants()
		}
		return s.Used
	},
	UntilUsed: func(s *State, _ int64) (until, unused int64) { return s.End - s.Now, s.End - s.Now },
	Charge: func(s *State, cost int64) {
		s.Used = min(s.Used+cost, MaxExact)
		s.used = s.Used
		s.Stored.setWindow(&s.Window)
	},
	Refund: func(s *State, at, _, cost int64) {
		if r := s.Stored; r != nil && at >= r.At && at < r.window().End {
			r.Level = max(0, r.Level-cost)
		}
	},
	Ends: func(r *Record) int64 { return r.window().End },
}

// rewindGrants moves grants of windows after the next one into the current window, because the clock has gone back: Advance moves what
// was used there, too.
func (s *State) rewindGrants() {
	for i := len(*s.Cells) - 1; i >= 0; i-- {
		x := (*s.Cells)[i]
		if x.Of != s.Limit.Kind || x.Ends <= s.End {
			continue
		}
		_, end := s.Limit.window(s.Now, s.Offset)
		if _, next := s.Limit.window(end, s.Offset); x.Ends > next {
			*s.Cells = slices.Delete(*s.Cells, i, i+1)
			x.Ends = end
			s.Cells.add(x)
			i = len(*s.Cells) // others have moved
		}
	}
}

// GrantEnds returns when a grant to the window or log of s, made at s.Now, ends.
func (s *State) GrantEnds() int64 {
	if s.Limit.Algorithm == FixedWindow {
		return s.End
	}
	return s.Now + s.Limit.Micros
}
