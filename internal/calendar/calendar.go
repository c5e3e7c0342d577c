// Package calendar finds the windows of a calendar: the days, weeks, months and years of a time zone.
//
//	c, err := calendar.New(calendar.Month, "Europe/Berlin", 15)
//	start, end := c.Window(time.Now()) // the 15th, 00:00 in Berlin
//
// Dates and offsets come from package time and its database of time zones. It has no clock.
package calendar

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// A Unit is how long a window is. The numbers are the same as core.CalendarUnit's.
type Unit uint8

// The units.
const (
	Day Unit = iota + 1
	Week
	Month
	Year
)

// A Calendar divides time into windows.
type Calendar struct {
	unit Unit
	from int // the day of a month, 1 to 31, or of a week, 1 for Monday to 7
	zone *time.Location
}

// zones caches loaded locations by name, because time.LoadLocation reads a file each time.
var zones sync.Map

// Zone returns the location of an IANA name; "" is UTC. A name whose meaning depends on the machine, such as "Local",
// is an error.
func Zone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if name == "Local" {
		return nil, errors.New(`"Local" differs between machines; want a name such as "Europe/Berlin"`)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("this machine does not know %q; check the name, install tzdata or import time/tzdata", name)
	}
	zones.Store(name, z)
	return z, nil
}

// New returns a calendar of one unit in a zone. Its windows begin on the day from of the month or the week; 0 means 1.
func New(unit Unit, zone string, from int) (*Calendar, error) {
	z, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	return &Calendar{unit: unit, from: max(from, 1), zone: z}, nil
}

// Window returns the window of t, which begins at start and ends just before end. The end is the start of the next window.
func (c *Calendar) Window(t time.Time) (start, end time.Time) {
	date := c.begins(t.In(c.zone).Date())
	start = c.start(date)
	for {
		date = c.next(date)
		if end = c.start(date); end.After(t) {
			return start, end
		}
		start = end // the clock was set back, so the local date of t had ended before
	}
}

// A date is the midnight of a day in UTC: package time then does the arithmetic of dates.
type date = time.Time

func newDate(year int, month time.Month, day int) date {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// begins returns the date on which the window of a day begins.
func (c *Calendar) begins(year int, month time.Month, day int) date {
	switch today := newDate(year, month, day); c.unit {
	case Week:
		since := (int(today.Weekday()) - c.from + 7) % 7
		return today.AddDate(0, 0, -since)
	case Month:
		if first := c.inMonth(year, month); !first.After(today) {
			return first
		}
		return c.inMonth(year, month-1)
	case Year:
		return newDate(year, time.January, 1)
	default:
		return today
	}
}

// next returns the date on which the window after the one that begins on d begins.
func (c *Calendar) next(d date) date {
	switch c.unit {
	case Week:
		return d.AddDate(0, 0, 7)
	case Month:
		return c.inMonth(d.Year(), d.Month()+1)
	case Year:
		return d.AddDate(1, 0, 0)
	default:
		return d.AddDate(0, 0, 1)
	}
}

// inMonth returns the date of a month on which a window begins: the last one if the month is too short.
func (c *Calendar) inMonth(year int, month time.Month) date {
	last := newDate(year, month+1, 0)
	return last.AddDate(0, 0, min(c.from, last.Day())-last.Day())
}

// widest is larger than the offset of any zone from UTC.
const widest = 24 * time.Hour

// start returns the first instant at which the local time of the zone is midnight of d or later. If midnight occurs
// twice, that is the first midnight; if it does not occur, that is the end of the gap.
func (c *Calendar) start(d date) time.Time {
	t := d.Add(-widest).In(c.zone)
	_, before := t.Zone()
	for {
		_, offset := t.Zone()
		midnight := d.Add(-time.Duration(offset) * time.Second).In(c.zone)
		if offset != before && midnight.Before(t) { // in the gap that ends at t
			return t
		}
		_, end := t.ZoneBounds()
		if end.IsZero() || midnight.Before(end) {
			return midnight
		}
		if !end.After(t) { // ZoneBounds assumes 365 days for each year of a rule, even for a leap year
			end = t.Add(time.Hour)
		}
		t, before = end, offset
	}
}
