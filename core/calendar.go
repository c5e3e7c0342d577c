package core

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/calendar"
)

// A CalendarUnit is the length of a Calendar's windows.
type CalendarUnit uint8

// The units of a Calendar. The zero value is no unit.
const (
	CalendarDay   = CalendarUnit(calendar.Day)   // from midnight to midnight
	CalendarWeek  = CalendarUnit(calendar.Week)  // from Monday, or from the weekday in Calendar.From
	CalendarMonth = CalendarUnit(calendar.Month) // from the 1st, or from the day in Calendar.From
	CalendarYear  = CalendarUnit(calendar.Year)  // from January 1st
)

var calendarUnits = [...]string{CalendarDay: "day", CalendarWeek: "week", CalendarMonth: "month", CalendarYear: "year"}

// String returns the name of u in the notation of ParseLimits, such as "month".
func (u CalendarUnit) String() string {
	if u > 0 && int(u) < len(calendarUnits) {
		return calendarUnits[u]
	}
	return fmt.Sprintf("calendar unit(%d)", uint8(u))
}

// A Calendar divides time into days, weeks, months or years of a time zone. A window starts at local midnight and ends
// when the next one starts, so a day is as long as the local day. If a change of daylight saving time skips midnight,
// the window starts at the first instant of that date. If it repeats midnight, the window starts at the first of the
// two.
type Calendar struct {
	Unit CalendarUnit
	Zone string // IANA name, such as "Europe/Berlin"; "" is UTC
	From int    // month: the day 1 to 31 on which it starts, the last day where the month is shorter; week: 1 (Monday) to 7; 0 means 1
}

// Window returns the window of c that contains t. It includes start and excludes end, where the next window starts. It
// returns zero times if c is invalid.
func (c Calendar) Window(t time.Time) (start, end time.Time) {
	windows, err := calendar.New(calendar.Unit(c.Unit), c.Zone, c.From)
	if err != nil || c.validate() != nil {
		return start, end
	}
	return windows.Window(t)
}

// hasFrom reports whether windows of c may start on different days.
func (c *Calendar) hasFrom() bool { return c.Unit == CalendarWeek || c.Unit == CalendarMonth }

// windows returns the windows of c, which is valid, in microseconds. It remembers the last one.
func (c *Calendar) windows() func(at int64) (start, end int64) {
	windows, _ := calendar.New(calendar.Unit(c.Unit), c.Zone, c.From)
	type window struct{ start, end int64 }
	var last atomic.Pointer[window]
	return func(at int64) (start, end int64) {
		if w := last.Load(); w != nil && w.start <= at && at < w.end {
			return w.start, w.end
		}
		from, to := windows.Window(time.UnixMicro(at))
		w := &window{from.UnixMicro(), to.UnixMicro()}
		last.Store(w)
		return w.start, w.end
	}
}

// validate returns an error if c is invalid. It does not look up the zone, which this machine may not know.
func (c *Calendar) validate() error {
	last := 31
	if c.Unit == CalendarWeek {
		last = 7
	}
	switch {
	case c.Unit == 0:
		return invalid("only a day, a week, a month or a year has a time zone or a first day; want core.PerDay, PerWeek, PerMonth or PerYear, got zone %q and from %d", c.Zone, c.From)
	case int(c.Unit) >= len(calendarUnits):
		return invalid("there is no calendar unit %d; want CalendarDay, CalendarWeek, CalendarMonth or CalendarYear", uint8(c.Unit))
	case c.From != 0 && !c.hasFrom():
		return invalid("from must be 0 for a calendar %v, which always starts on the same day, got %d", c.Unit, c.From)
	case c.From < 0 || c.From > last:
		return invalid("from must be between 1 and %d for a calendar %v, got %d", last, c.Unit, c.From)
	}
	return nil
}

// notation returns the period and the options of a calendar limit in the notation of ParseLimits.
func (c *Calendar) notation() string {
	s := c.Unit.String()
	if c.Zone != "" {
		s += ";tz=" + c.Zone
	}
	if c.From != 0 {
		s += fmt.Sprintf(";from=%d", c.From)
	}
	if c.Zone == "" && c.From == 0 && c.Unit < CalendarMonth {
		s += ";calendar"
	}
	return s
}
