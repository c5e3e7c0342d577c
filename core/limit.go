package core

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/calendar"
)

// The bounds of a Limit. Within them no arithmetic in this module overflows.
const (
	minPeriod     = time.Millisecond
	maxPeriod     = 10 * 365 * 24 * time.Hour
	maxRate       = 1_000_000_000
	maxLogRate    = 1000
	minBuckets    = 2
	maxBuckets    = 60
	bucketsIfZero = 10
	maxLimits     = 16 // of a rule, a tier or a claim: each request is decided by all of them
)

const day = 24 * time.Hour

// A Limit is a rate, the burst it tolerates and the algorithm that measures it.
type Limit struct {
	Rate      int           // requests admitted per Period; 0 denies everything
	Period    time.Duration // 1ms to 10 years of 365 days, whole microseconds
	Burst     int           // TokenBucket only: requests admitted at once; 0 means Rate
	Algorithm Algorithm     // zero value: TokenBucket
	Buckets   int           // SlidingWindow only: sub-buckets per Period, 2 to 60; 0 means 10
	Ban       time.Duration // TokenBucket only: after a charge that uses up the limit, deny everything for this long; then one request fits
	Calendar  Calendar      // if not zero, a FixedWindow whose windows are the calendar's: Period is 0, and Algorithm 0 or FixedWindow
}

// An Algorithm measures a rate: it bounds how many requests are admitted in a span of time.
type Algorithm uint8

const (
	// TokenBucket admits at most Capacity + Rate·t/Period in any span t. It is also known as the leaky bucket as a
	// meter and, in ATM Forum TM 4.0, as the Generic Cell Rate Algorithm (GCRA). It stores five numbers.
	TokenBucket Algorithm = iota

	// FixedWindow admits at most Rate per window. Windows are multiples of Period since the Unix epoch, a Thursday: a
	// window of a week starts on Thursdays at 00:00 UTC, and a window of 30 days on no particular day. A client can
	// send Rate requests just before a window ends and Rate requests just after. FixedWindow stores three numbers.
	FixedWindow

	// SlidingWindow counts in Buckets sub-buckets of the period and admits at most Rate in any span of length Period. A
	// request counts up to one sub-bucket longer than Period. It stores a number per sub-bucket.
	SlidingWindow

	// SlidingLog stores when each request was admitted, and admits at most Rate in any span of length Period, exactly. Its
	// memory grows with Rate, which must not exceed 1,000.
	SlidingLog

	// InFlight admits at most Rate requests at the same time: see AtOnce. It has no period. It divides the last minute
	// into steps of six seconds and stores three numbers for each step whose requests are not all finished.
	InFlight
)

var algorithms = algorithm.Names(algorithm.Algorithm(len(algorithm.Table)))

// String returns the algorithm's name in the notation of ParseLimits, such as "sliding-log".
func (a Algorithm) String() string {
	if int(a) < len(algorithms) {
		return algorithms[a]
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

// Every returns a token bucket of n requests per period. It starts full and refills continuously: it admits a burst of n,
// and up to 2n-1 requests in the first period. WithBurst changes the burst, and Using chooses another algorithm.
func Every(n int, period time.Duration) Limit { return Limit{Rate: n, Period: period} }

// PerSecond returns a token bucket of n requests per second. See Every.
func PerSecond(n int) Limit { return Every(n, time.Second) }

// PerMinute returns a token bucket of n requests per minute. See Every.
func PerMinute(n int) Limit { return Every(n, time.Minute) }

// PerHour returns a token bucket of n requests per hour. See Every.
func PerHour(n int) Limit { return Every(n, time.Hour) }

// PerDay returns a token bucket of n requests per 24 hours. PerDay(1000) admits up to 1,999 on the first day of a key,
// because the bucket starts full and refills all day. PerDay(1000).In("UTC") admits 1,000 from midnight to midnight, as
// plans usually promise; In takes any time zone.
func PerDay(n int) Limit { return Every(n, 24*time.Hour) }

// PerWeek returns a limit of n requests per calendar week: from Monday 00:00 to Monday 00:00, UTC. In changes the time
// zone, From the weekday.
func PerWeek(n int) Limit { return Limit{Rate: n, Calendar: Calendar{Unit: CalendarWeek}} }

// PerMonth returns a limit of n requests per calendar month: from the 1st 00:00 to the 1st 00:00, UTC. From changes the
// day, such as to a customer's billing day. In changes the time zone.
func PerMonth(n int) Limit { return Limit{Rate: n, Calendar: Calendar{Unit: CalendarMonth}} }

// PerYear returns a limit of n requests per calendar year, UTC. In changes the time zone.
func PerYear(n int) Limit { return Limit{Rate: n, Calendar: Calendar{Unit: CalendarYear}} }

// AtOnce returns a limit of n requests in flight: at most n are held at the same time, whatever their cost. See Claim.Hold.
//
// A request is in flight until the handler that the limiter wraps returns. http.TimeoutHandler returns at its timeout,
// while the handler inside it continues. So mount the limiter inside, as in http.TimeoutHandler(limit(h), ..);
// otherwise more than n handlers can run at the same time.
func AtOnce(n int) Limit { return Limit{Rate: n, Algorithm: InFlight} }

// WithBurst returns l with another burst. Only a TokenBucket has one.
func (l Limit) WithBurst(n int) Limit {
	l.Burst = n
	return l
}

// Using returns l with another algorithm.
func (l Limit) Using(a Algorithm) Limit {
	l.Algorithm = a
	return l.normalized()
}

// In returns l with windows of a calendar in a time zone, an IANA name such as "America/New_York"; "UTC" is UTC. PerDay
// becomes a calendar day, which starts at midnight. A limit with any other period, such as PerHour, has no time zone: New
// and Validate return an error for it.
func (l Limit) In(zone string) Limit {
	l = l.onCalendar()
	l.Calendar.Zone = zone
	return l.normalized()
}

// From returns l with windows that start on another day: a day of the month from 1 to 31, or a weekday from 1 (Monday)
// to 7. In a month that has no such day, the window starts on the month's last day.
func (l Limit) From(day int) Limit {
	l = l.onCalendar()
	l.Calendar.From = day
	return l.normalized()
}

// onCalendar returns l with a Calendar instead of its Period, if the period is a day or a week.
func (l Limit) onCalendar() Limit {
	switch {
	case l.Calendar.Unit != 0:
	case l.Period == day:
		l.Calendar.Unit, l.Period = CalendarDay, 0
	case l.Period == 7*day:
		l.Calendar.Unit, l.Period = CalendarWeek, 0
	}
	return l
}

// normalized returns l in the form in which limits that mean the same are equal.
func (l Limit) normalized() Limit {
	c := &l.Calendar
	if c.Unit == 0 {
		return l
	}
	if c.Zone == "UTC" {
		c.Zone = ""
	}
	if c.From == 1 && c.hasFrom() {
		c.From = 0
	}
	if l.Algorithm == FixedWindow {
		l.Algorithm = TokenBucket // zero
	}
	return l
}

// Capacity returns the largest cost that can ever be admitted at once: Burst or, without one, Rate.
func (l Limit) Capacity() int {
	if l.Burst > 0 && l.Rate > 0 {
		return l.Burst
	}
	return l.Rate
}

// Width is for stores. It returns the length of a sub-bucket of a SlidingWindow: Period / Buckets, rounded up to whole
// microseconds.
func (l Limit) Width() time.Duration {
	n := cmp.Or(l.Buckets, bucketsIfZero)
	return time.Duration(algorithm.CeilDiv(l.Period.Microseconds(), int64(n))) * time.Microsecond
}

// canWait reports whether a request can wait for its turn under l.
func (l *Limit) canWait() bool {
	return l.Algorithm == TokenBucket && l.Ban == 0 && l.Calendar == (Calendar{})
}

// Validate is for stores and rule files. It returns an error that wraps ErrInvalid and names each wrong field and its
// value if l cannot be enforced. New validates the limits of rules. The limits that a Tier or an Override returns are
// validated when the limiter decides by them first.
func (l Limit) Validate() error {
	_, err := l.compile()
	return prefix(err)
}

// compile returns l in the units of its algorithm, or an error if l is invalid.
func (l Limit) compile() (algorithm.Limit, error) {
	if err := l.validate(); err != nil {
		return algorithm.Limit{}, err
	}
	c := algorithm.Limit{
		Algorithm: algorithm.Algorithm(l.Algorithm), Rate: int64(l.Rate), Capacity: int64(l.Capacity()),
		Micros: l.Period.Microseconds(), Ban: l.Ban.Microseconds(),
	}
	switch on := l.normalized().Calendar; {
	case on.Unit != 0:
		c.Algorithm, c.Windows = algorithm.FixedWindow, on.windows()
		c.Calendar = algorithm.CalendarID(uint64(on.Unit), uint64(on.From), on.Zone)
	case l.Algorithm == SlidingWindow:
		c.Width = l.Width().Microseconds()
	}
	c, fits := algorithm.Compile(c)
	if fits {
		return c, nil
	}
	ban := ""
	if l.Ban > 0 {
		ban = fmt.Sprintf(" and a ban of %v", l.Ban)
	}
	return c, invalid("capacity %d over period %v%s would overflow; want one of them smaller", l.Capacity(), l.Period, ban)
}

// validate checks the fields of l, but not whether they fit together into whole numbers.
func (l *Limit) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, invalid(format, args...)) }
	switch {
	case l.Rate < 0 || l.Rate > maxRate:
		wrong("rate must be between 0 and %d, got %d", maxRate, l.Rate)
	case l.Algorithm == SlidingLog && l.Rate > maxLogRate:
		wrong("rate of a sliding-log must be at most %d, got %d", maxLogRate, l.Rate)
	}
	unused := l.Burst == 0 && l.Buckets == 0 && l.Ban == 0
	switch {
	case l.Calendar != (Calendar{}):
		errs = append(errs, l.Calendar.validate())
		if _, err := calendar.Zone(l.Calendar.Zone); err != nil {
			wrong("time zone: %v", err)
		}
		if l.Algorithm != TokenBucket && l.Algorithm != FixedWindow {
			wrong("the algorithm of calendar windows must be FixedWindow or zero, got %v", l.Algorithm)
		}
		if l.Calendar.Unit != 0 && l.Period != 0 {
			wrong("period must be 0 for a calendar %v, got %v", l.Calendar.Unit, l.Period)
		}
		if l.Calendar.Unit != 0 && !unused {
			wrong("a calendar %v has no burst, buckets or ban, got %d, %d and %v", l.Calendar.Unit, l.Burst, l.Buckets, l.Ban)
		}
		return allOf(errs...)
	case l.Algorithm == InFlight:
		if l.Period != 0 || !unused {
			wrong("a limit of requests in flight has no period, burst, buckets or ban, got %v, %d, %d and %v; want AtOnce(%d)", l.Period, l.Burst, l.Buckets, l.Ban, l.Rate)
		}
		return allOf(errs...)
	case l.Period < minPeriod:
		wrong("period must be at least %v, got %v", minPeriod, l.Period)
	case l.Period > maxPeriod:
		wrong("period must be at most 10 years of 365 days, got %v", l.Period)
	case l.Period%time.Microsecond != 0:
		wrong("period must be whole microseconds, got %v", l.Period)
	}
	switch {
	case l.Burst != 0 && l.Algorithm != TokenBucket:
		wrong("burst must be 0 for a %v, which has none, got %d", l.Algorithm, l.Burst)
	case l.Burst < 0 || l.Burst > maxRate:
		wrong("burst must be between 0 and %d, got %d", maxRate, l.Burst)
	}
	switch {
	case l.Buckets != 0 && l.Algorithm != SlidingWindow:
		wrong("buckets must be 0 for a %v, which has none, got %d", l.Algorithm, l.Buckets)
	case l.Buckets != 0 && (l.Buckets < minBuckets || l.Buckets > maxBuckets):
		wrong("buckets must be between %d and %d, got %d", minBuckets, maxBuckets, l.Buckets)
	}
	switch {
	case int(l.Algorithm) >= len(algorithms):
		wrong("there is no algorithm %d; want TokenBucket, FixedWindow, SlidingWindow, SlidingLog or InFlight", uint8(l.Algorithm))
	case len(errs) > 0 || l.Ban == 0: // what a ban may be depends on the other fields
	case l.Algorithm != TokenBucket:
		wrong("ban must be 0 for a %v, which has none, got %v", l.Algorithm, l.Ban)
	case l.Rate == 0:
		wrong("ban must be 0 for a rate of 0, which admits nothing, got %v", l.Ban)
	case l.Ban < 0 || l.Ban > maxPeriod || l.Ban%time.Microsecond != 0:
		wrong("ban must be whole microseconds up to 10 years of 365 days, got %v", l.Ban)
	default:
		if refill := (l.Period-1)/time.Duration(l.Rate) + 1; l.Ban <= refill {
			wrong("ban must be longer than the %v that one request takes to refill, got %v", refill, l.Ban)
		}
	}
	return allOf(errs...)
}
