package core_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"pgregory.net/rapid"
)

func TestCalendarMistakes(t *testing.T) {
	month := core.PerMonth(5)
	for _, tt := range []struct {
		why   string
		limit core.Limit
		want  string
	}{
		{"a zone that is none", month.In("Europe/Berlni"), `time zone: this machine does not know "Europe/Berlni"`},
		{"a zone that is none names what helps", month.In("Europe/Berlni"), "install tzdata or import time/tzdata"},
		{"the zone of the machine", month.In("Local"), `"Local" differs between machines`},
		{"day 32", month.From(32), "from must be between 1 and 31 for a calendar month, got 32"},
		{"day -1", month.From(-1), "from must be between 1 and 31 for a calendar month, got -1"},
		{"an eighth day of the week", core.PerWeek(5).From(8), "from must be between 1 and 7 for a calendar week, got 8"},
		{"the first day of a day", core.PerDay(5).From(1), "from must be 0 for a calendar day, which always starts on the same day, got 1"},
		{"the first day of a year", core.PerYear(5).From(2), "from must be 0 for a calendar year"},
		{"the zone of an hour", core.PerHour(5).In("UTC"), "only a day, a week, a month or a year has a time zone"},
		{"the first day of an hour", core.PerHour(5).From(1), "only a day, a week, a month or a year has a time zone or a first day"},
		{"the zone of an hour with a burst", core.PerHour(5).WithBurst(2).In("Asia/Tokyo"), `PerYear, got zone "Asia/Tokyo" and from 0`},
		{"the zone of requests in flight", core.AtOnce(5).In("Europe/Berlin"), "only a day, a week, a month or a year has a time zone"},
		{"a period", core.Limit{Rate: 1, Period: time.Hour, Calendar: core.Calendar{Unit: core.CalendarDay}}, "period must be 0 for a calendar day, got 1h0m0s"},
		{"a burst", month.WithBurst(5), "a calendar month has no burst, buckets or ban, got 5, 0 and 0s"},
		{"a ban", banned(month, time.Hour), "a calendar month has no burst, buckets or ban"},
		{"buckets", core.Limit{Rate: 1, Buckets: 5, Calendar: core.Calendar{Unit: core.CalendarDay}}, "a calendar day has no burst, buckets or ban"},
		{"another algorithm", month.Using(core.SlidingLog), "the algorithm of calendar windows must be FixedWindow or zero, got sliding-log"},
		{"another algorithm of a day", core.PerDay(5).Using(core.SlidingWindow).In("Europe/Berlin"), "must be FixedWindow or zero, got sliding-window"},
		{"a unit that is none", core.Limit{Rate: 1, Calendar: core.Calendar{Unit: 9}}, "there is no calendar unit 9"},
		{"a rate", core.PerMonth(-1), "rate must be between 0 and 1000000000, got -1"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			for _, err := range []error{tt.limit.Validate(), newErr(tt.limit.By(constKey))} {
				wantError(t, err, core.ErrInvalid, tt.want)
				expect.True(t, !strings.Contains(err.Error(), "unit(0)"), "got error %q, which names a unit that nobody gave", err)
			}
		})
	}
}

func TestEqualCalendarLimitsHaveOneForm(t *testing.T) {
	month := core.Limit{Rate: 5, Calendar: core.Calendar{Unit: core.CalendarMonth}}
	week := core.Limit{Rate: 5, Calendar: core.Calendar{Unit: core.CalendarWeek}}
	for _, tt := range []struct{ got, want core.Limit }{
		{core.PerMonth(5), month},
		{core.PerMonth(5).In("UTC"), month},
		{core.PerMonth(5).In(""), month},
		{core.PerMonth(5).From(1), month},
		{core.PerMonth(5).From(15).From(1).In("Europe/Berlin").In("UTC"), month},
		{core.PerMonth(5).Using(core.FixedWindow), month},
		{core.PerWeek(5), week},
		{core.PerWeek(5).From(1), week},
		{core.Every(5, 7*24*time.Hour).In("UTC"), week},
		{core.PerDay(5).Using(core.FixedWindow).In("UTC"), core.Limit{Rate: 5, Calendar: core.Calendar{Unit: core.CalendarDay}}},
		{core.PerDay(5).In("Asia/Tokyo"), core.Limit{Rate: 5, Calendar: core.Calendar{Unit: core.CalendarDay, Zone: "Asia/Tokyo"}}},
		{core.PerYear(5), core.Limit{Rate: 5, Calendar: core.Calendar{Unit: core.CalendarYear}}},
		{core.PerMonth(5).From(15).In("Asia/Tokyo"), core.PerMonth(5).In("Asia/Tokyo").From(15)},
	} {
		expect.Equal(t, tt.got, tt.want, "tt.got")
	}
}

func TestCalendarLimitsOfOneRule(t *testing.T) {
	same := []core.Limit{core.PerMonth(5), {Rate: 9, Algorithm: core.FixedWindow, Calendar: core.Calendar{Unit: core.CalendarMonth, Zone: "UTC", From: 1}}}
	wantError(t, newErr(core.Rule{Key: constKey, Limits: same}), core.ErrInvalid, "limits 1 and 2 are both of the same calendar month")
}

func TestParseCalendarLimits(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want core.Limit
		text string // as String writes it
	}{
		{"10000/month;tz=Europe/Berlin;from=15", core.PerMonth(10000).In("Europe/Berlin").From(15), "10000/month;tz=Europe/Berlin;from=15"},
		{"10000/month", core.PerMonth(10000), "10000/month"},
		{"5/1 month", core.PerMonth(5), "5/month"},
		{"5/months;calendar;fixed-window", core.PerMonth(5), "5/month"},
		{"5/month;from=1;tz=UTC", core.PerMonth(5), "5/month"},
		{"500/week;calendar", core.PerWeek(500), "500/week;calendar"},
		{"500/w;from=7", core.PerWeek(500).From(7), "500/week;from=7"},
		{"500/week;from=1", core.PerWeek(500), "500/week;calendar"},
		{"1000/day;tz=America/New_York", core.PerDay(1000).In("America/New_York"), "1000/day;tz=America/New_York"},
		{"1000/d; tz = UTC", core.PerDay(1000).In("UTC"), "1000/day;calendar"},
		{"100000/year", core.PerYear(100000), "100000/year"},
		{"1/w", core.Every(1, 7*24*time.Hour), "1/7d"},
		{"1/d;fixed-window", core.PerDay(1).Using(core.FixedWindow), "1/1d;fixed-window"},
	} {
		got, err := core.ParseLimits(strings.ReplaceAll(tt.in, " = ", "="))
		expect.True(t, err == nil && len(got) == 1 && got[0] == tt.want, "%q: got %+v, %v; want %+v", tt.in, got, err, tt.want)
		expect.Equal(t, tt.want.String(), tt.text, "%q: String returns", tt.in)
	}
}

func TestParseCalendarLimitsQuotesTheWordAtFault(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"10/2 months", `period "2 months" is not a duration, such as s, 15m, 500ms or day; months differ in length`},
		{"10/2 years;from=3", `period "2 years" is not a duration, such as s, 15m, 500ms or day; years differ in length`},
		{"10/mo", "did you mean month?"},
		{"10/yr", "did you mean year?"},
		{"10/mnoth", "did you mean month?"},
		{"10/h;tz=Europe/Berlin", "only a day, a week, a month or a year is a window of a calendar, got 1h"},
		{"10/2d;calendar", "only a day, a week, a month or a year is a window of a calendar, got 2d"},
		{"10/h;from=1", "only a day, a week, a month or a year is a window of a calendar, got 1h"},
		{"10/day;from=1", "from must be 0 for a calendar day"},
		{"10/month;from=32", `limit "10/month;from=32": from must be between 1 and 31`},
		{"10/month;from=0", `option "from=0"`},
		{"10/month;tz=", "tz wants the IANA name of a time zone, such as Europe/Berlin"},
		{"10/month;tz=Local", `"Local" differs between machines`},
		{"10/month;tz=Mars/Base", "this machine does not know"},
		{"10/month;burst=5", "a calendar month has no burst, buckets or ban"},
		{"10/month;sliding-log", "must be FixedWindow or zero, got sliding-log"},
		{"10/month;token-bucket", "a calendar month is a fixed-window, got token-bucket"},
		{"10/month;calender", "did you mean calendar?"},
		{"10/month;from=2;from=3", "this is the second of its kind"},
	} {
		got, err := core.ParseLimits(tt.in)
		expect.True(t, got == nil && err != nil && !strings.Contains(err.Error(), "\n"), "%q: got limits %v and %v, want one mistake", tt.in, got, err)
		wantError(t, err, core.ErrInvalid, tt.want)
	}
}

func TestCalendarLimitStringReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := core.Limit{
			Rate: rapid.IntRange(0, 1_000_000).Draw(t, "rate"),
			Calendar: core.Calendar{
				Unit: core.CalendarUnit(rapid.IntRange(1, 4).Draw(t, "unit")),
				Zone: rapid.SampledFrom([]string{"", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5"}).Draw(t, "zone"),
				From: rapid.IntRange(0, 32).Draw(t, "from"),
			},
		}
		if l.Calendar.From == 1 || l.Validate() != nil {
			t.Skip("not valid, or not in the form that From returns")
		}
		got, err := core.ParseLimits(l.String())
		must.True(t, err == nil && len(got) == 1 && got[0] == l, "%+v as %q reads back as %v, %v", l, l, got, err)
	})
}

func TestCalendarWindow(t *testing.T) {
	at := time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)
	start, end := core.Calendar{Unit: core.CalendarMonth, Zone: "Europe/Berlin", From: 15}.Window(at)
	got := start.Format(time.RFC3339) + " " + end.Format(time.RFC3339)
	expect.Equal(t, got, "2026-11-15T00:00:00+01:00 2026-12-15T00:00:00+01:00", "got")
	for _, c := range []core.Calendar{{}, {Unit: core.CalendarMonth, Zone: "Local"}, {Unit: core.CalendarDay, From: 3}} {
		start, end := c.Window(at)
		expect.True(t, start.IsZero() && end.IsZero(), "%+v: got a window from %v to %v", c, start, end)
	}
}

// A billing month may begin on a day that February lacks, and the day of a change of the clocks has 25 hours.
func TestCalendarWindowLastsUntilTheNext(t *testing.T) {
	month, day := core.PerMonth(100).From(31), core.PerDay(100).In("America/New_York")
	for _, tt := range []struct {
		limit       core.Limit
		begin, next string
	}{
		{month, "2023-01-31T00:00:00Z", "2023-02-28T00:00:00Z"},
		{month, "2024-01-31T00:00:00Z", "2024-02-29T00:00:00Z"},
		{month, "2024-02-29T12:00:00Z", "2024-03-31T00:00:00Z"},
		{month, "2023-02-28T23:59:59Z", "2023-03-31T00:00:00Z"},
		{day, "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
	} {
		now, _ := time.Parse(time.RFC3339, tt.begin)
		next, _ := time.Parse(time.RFC3339, tt.next)
		l := core.Must(core.New([]core.Rule{plan(tt.limit)}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
		allow(t, l, "k", 101, 100)
		wait := left(t, l, "k").RetryAfter
		expect.True(t, wait == next.Sub(now), "from %s: wait %v, want until %s", tt.begin, wait, tt.next)
		now = next.Add(-time.Microsecond)
		allow(t, l, "k", 1, 0)
		now = next
		allow(t, l, "k", 101, 100)
	}
}

func TestClockSteppingBackAcrossAMonthAdmitsNothingTwice(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 1, 0, time.UTC)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(3))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	allow(t, l, "k", 4, 3)
	now = now.Add(-2 * time.Second)
	allow(t, l, "k", 4, 0)
	now = now.Add(2 * time.Second)
	allow(t, l, "k", 4, 0)
}

// After the clock went back, the next window stays unchanged and a later window becomes the current one: nobody is denied beyond
// the end of the next window.
func TestClockSteppingBackByMonths(t *testing.T) {
	for back, want := range map[string]string{"2026-05-10": "2026-07-01", "2026-04-10": "2026-05-01", "2025-06-10": "2025-07-01"} {
		now := time.Date(2026, 6, 10, 0, 0, 0, 0, time.UTC)
		l := core.Must(core.New([]core.Rule{plan(core.PerMonth(3))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
		allow(t, l, "k", 4, 3)
		now, _ = time.Parse(time.DateOnly, back)
		allow(t, l, "k", 1, 0)
		expect.Equal(t, now.Add(left(t, l, "k").RetryAfter).Format(time.DateOnly), want, "on %s, a request is denied until", back)
	}
}

// Requests of many goroutines over a midnight that does not exist: each day admits exactly the rate, and no request is undecided.
func TestNewDayUnderLoad(t *testing.T) {
	limit := core.PerDay(1000).In("America/Sao_Paulo")
	_, turn := limit.Calendar.Window(time.Date(2018, 11, 3, 12, 0, 0, 0, time.UTC))
	must.Equal(t, turn.Hour(), 1, "the day starts at %v (01:00)", turn)
	var asked atomic.Int64 // each look at the clock is 10 µs later
	now := func() time.Time {
		return turn.Add(time.Duration(asked.Add(1))*10*time.Microsecond - 20*time.Millisecond)
	}
	l := core.Must(core.New([]core.Rule{plan(limit)}, core.WithStore(&core.MemoryStore{Now: now})))
	var admitted [2]atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k"})
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed && d.At.Before(turn) {
					admitted[0].Add(1)
				} else if d.Allowed {
					admitted[1].Add(1)
				}
			}
		})
	}
	all.Wait()
	if before, after := admitted[0].Load(), admitted[1].Load(); before != 1000 || after != 1000 {
		t.Errorf("%d were admitted before the turn and %d after it, want 1000 each", before, after)
	}
}

func TestUpgradeInMidMonthKeepsTheUsage(t *testing.T) {
	month := core.PerMonth(100).In("Europe/Berlin").From(15)
	l := core.Must(core.New([]core.Rule{plan(month)}))
	allow(t, l, "k", 60, 60)
	month.Rate = 1000
	expect.Equal(t, left(t, l, "k", month).Remaining, 940, "remaining of 1000 after 60 were used")
	for why, other := range map[string]core.Limit{"another day": month.From(16), "another zone": month.In("Europe/Paris"), "another unit": core.PerYear(1000).In("Europe/Berlin")} {
		expect.Equal(t, left(t, l, "k", other).Remaining, 1000, "%s: remaining (a new count of 1000)", why)
	}
}
