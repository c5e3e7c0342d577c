package calendar_test

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/spillgate/spillgate/internal/calendar"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/testpass"
)

// zoneNames returns the names of all zones in Go's copy of the database. If several names are links to one zone, it returns one of them.
func zoneNames(t *testing.T) (names []string) {
	t.Helper()
	root := must.Get(exec.Command("go", "env", "GOROOT").Output())(t)
	z := must.Get(zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")))(t)
	defer z.Close()
	seen := make(map[uint32]bool)
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") || seen[f.CRC32] {
			continue
		}
		seen[f.CRC32] = true
		names = append(names, f.Name)
	}
	return names
}

// midnight returns the first instant at which the clocks of a zone show a date or a later one. It is the instant that time.Date returns,
// unless the zone changes its offset nearby: then midnight checks each minute and each second in turn.
func midnight(y int, m time.Month, d int, zone *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	start, end := t.ZoneBounds()
	near := 26 * time.Hour
	if t.Sub(start) > near && (end.IsZero() || end.Sub(t) > near) {
		return t
	}
	shift := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		_, before := at.Add(-time.Second).Zone()
		_, after := at.Zone()
		return time.Duration(max(before-after, after-before)) * time.Second
	}
	wide := shift(start) + shift(end) + time.Minute
	reads := func(at time.Time) bool { // the date or a later one
		year, month, day := at.Date()
		return !time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Before(time.Date(y, m, d, 0, 0, 0, 0, time.UTC))
	}
	first := func(from time.Time, step time.Duration) time.Time {
		for !reads(from) {
			from = from.Add(step)
		}
		return from
	}
	return first(first(t.Add(-wide), time.Minute).Add(-time.Minute), time.Second)
}

// lastOf returns the last day of a month that is at most day.
func lastOf(y int, m time.Month, day int) int {
	for time.Date(y, m, day, 0, 0, 0, 0, time.UTC).Day() != day {
		day--
	}
	return day
}

func TestWindowsStartAtMidnightInEveryZone(t *testing.T) {
	testpass.Thorough(t)
	names := make(chan string)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for name := range names {
				checkZone(t, name)
			}
		})
	}
	for _, name := range zoneNames(t) {
		names <- name
	}
	close(names)
	workers.Wait()
}

// checkZone compares the windows of a zone's calendars from 1970 to 2041 with the dates of package time. Under make
// soak, it continues to 2100, and starts months on every day.
func checkZone(t *testing.T, name string) {
	zone, err := calendar.Zone(name)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	const first = 1970
	last, fromDays := 2041, []int{1, 15, 29, 30, 31}
	if testpass.Soak() {
		last, fromDays = 2100, nil
		for from := 1; from <= 31; from++ {
			fromDays = append(fromDays, from)
		}
	}
	var days, years []time.Time
	months := make([][]time.Time, 32)
	weeks := make([][]time.Time, 8)
	for y := first; y <= last; y++ {
		for m := time.January; m <= time.December; m++ {
			begin := len(days)
			for d := 1; d <= 31; d++ {
				if lastOf(y, m, d) != d {
					break
				}
				days = append(days, midnight(y, m, d, zone))
				w := (int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday())+6)%7 + 1
				weeks[w] = append(weeks[w], days[len(days)-1])
			}
			for _, from := range fromDays {
				months[from] = append(months[from], days[begin+lastOf(y, m, from)-1])
			}
			if m == time.January {
				years = append(years, days[begin])
			}
		}
	}
	walk(t, name, calendar.Day, 0, days)
	walk(t, name, calendar.Year, 0, years)
	for from := 1; from <= 7; from++ {
		walk(t, name, calendar.Week, from, weeks[from])
	}
	for _, from := range fromDays {
		walk(t, name, calendar.Month, from, months[from])
	}
}

// walk checks that consecutive windows begin at these starts. A date that the zone skipped has no window.
func walk(t *testing.T, name string, unit calendar.Unit, from int, starts []time.Time) {
	c, err := calendar.New(unit, name, from)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for i := range starts[:len(starts)-1] {
		if starts[i].Equal(starts[i+1]) {
			continue
		}
		start, end := c.Window(starts[i])
		if !start.Equal(starts[i]) || !end.Equal(starts[i+1]) {
			t.Errorf("%s: unit %d from %d: got a window from %v to %v, want it from %v to %v", name, unit, from, start, end, starts[i], starts[i+1])
			return
		}
		if i%97 == 0 {
			for _, at := range []time.Time{end.Add(-1), start.Add(end.Sub(start) / 2)} {
				if s, e := c.Window(at); !s.Equal(start) || !e.Equal(end) {
					t.Errorf("%s: unit %d from %d: %v is in a window from %v to %v, want the one from %v to %v", name, unit, from, at, s, e, start, end)
				}
			}
		}
	}
}

func TestWindow(t *testing.T) {
	for _, tt := range []struct {
		unit                calendar.Unit
		zone                string
		from                int
		at, start, end, why string
	}{
		{calendar.Month, "", 31, "2023-02-15T00:00:00Z", "2023-01-31T00:00:00Z", "2023-02-28T00:00:00Z", "February is too short: its last day"},
		{calendar.Month, "", 31, "2024-02-28T23:59:59Z", "2024-01-31T00:00:00Z", "2024-02-29T00:00:00Z", "a leap year"},
		{calendar.Month, "", 31, "2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "2024-03-31T00:00:00Z", "the next one is on the 31st again"},
		{calendar.Month, "", 31, "2100-02-28T12:00:00Z", "2100-02-28T00:00:00Z", "2100-03-31T00:00:00Z", "2100 is no leap year"},
		{calendar.Month, "Europe/Berlin", 15, "2026-01-01T00:00:00Z", "2025-12-15T00:00:00+01:00", "2026-01-15T00:00:00+01:00", "over the turn of the year"},
		{calendar.Month, "Europe/Berlin", 0, "2026-03-31T22:30:00Z", "2026-04-01T00:00:00+02:00", "2026-05-01T00:00:00+02:00", "it is April in Berlin"},
		{calendar.Week, "", 0, "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z", "Sunday is the last day"},
		{calendar.Week, "", 7, "2026-11-22T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z", "or the first one"},
		{calendar.Year, "Asia/Tokyo", 0, "2025-12-31T15:00:00Z", "2026-01-01T00:00:00+09:00", "2027-01-01T00:00:00+09:00", "a year in Tokyo"},
		{calendar.Day, "America/New_York", 0, "2026-03-08T12:00:00Z", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", "23 hours"},
		{calendar.Day, "America/New_York", 0, "2026-11-01T12:00:00Z", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", "25 hours"},
		{calendar.Day, "America/Sao_Paulo", 0, "2018-11-04T03:00:00Z", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00", "no midnight"},
		{calendar.Day, "America/Havana", 0, "2026-11-01T04:30:00Z", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", "two midnights: the first"},
		{calendar.Day, "America/Havana", 0, "2026-11-01T05:30:00Z", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", "after the second one"},
		{calendar.Day, "Pacific/Apia", 0, "2011-12-30T09:00:00Z", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "the 30th was skipped"},
		{calendar.Month, "Pacific/Apia", 30, "2011-12-31T00:00:00Z", "2011-12-31T00:00:00+14:00", "2012-01-30T00:00:00+14:00", "a month from the 30th, which was skipped"},
		{calendar.Day, "America/Toronto", 0, "2005-10-30T04:30:00Z", "2005-10-30T00:00:00-04:00", "2005-10-31T00:00:00-05:00", "back at two o'clock"},
		{calendar.Day, "America/St_Johns", 0, "2010-11-07T02:45:00Z", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30", "back at 00:01 to the day before, which is over"},
	} {
		c := must.Get(calendar.New(tt.unit, tt.zone, tt.from))(t)
		at, _ := time.Parse(time.RFC3339, tt.at)
		start, end := c.Window(at)
		expect.Equal(t, start.Format(time.RFC3339), tt.start, "%s: %s of %s starts at", tt.why, tt.at, tt.zone)
		expect.Equal(t, end.Format(time.RFC3339), tt.end, "%s: %s of %s ends at", tt.why, tt.at, tt.zone)
	}
}

func TestInvalidZones(t *testing.T) {
	for _, name := range []string{"Local", "Europe/Berlni", "../etc/passwd", "+01:00"} {
		expect.Fails(t, expect.ErrorOf(calendar.New(calendar.Day, name, 0)), "%q is taken for a zone", name)
	}
}
