package core

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// written are the units in which String writes a period, largest first.
var written = []string{"d", "h", "m", "s", "ms", "us"}

var unitNames = map[string]time.Duration{
	"us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day, "w": 7 * day, "week": 7 * day, "weeks": 7 * day,
}

var calendarNames = map[string]CalendarUnit{"month": CalendarMonth, "months": CalendarMonth, "year": CalendarYear, "years": CalendarYear}

// ParseLimits reads limits separated by commas. Each is RATE/PERIOD, where PERIOD is a unit (us, ms, s, m, h, d, w or a word
// such as sec, minute or days), a number of them or any duration that time.ParseDuration reads, followed by options that
// start with a semicolon: the name of an algorithm, burst=N, buckets=N or ban=PERIOD. A limit of requests in flight is
// RATE at once.
//
// A month and a year are calendar windows. A day and a week are 24 hours and seven days, or calendar windows with one
// of the options tz=ZONE, from=DAY and calendar: see Limit.In and Limit.From.
//
//	10/s, 120/m, 240/h, 5000/d
//	5/15m;sliding-log
//	100/m;burst=20
//	60/m;sliding-window;buckets=6
//	9/500ms
//	3/hour, 10/day, 20/2 weeks
//	5/10m;ban=1h
//	20 at once
//	10000/month;tz=Europe/Berlin;from=15
//	500/week;calendar, 1000/day;tz=America/New_York, 100000/year
//
// The error joins all mistakes; each of them wraps ErrInvalid and quotes the word that is wrong.
func ParseLimits(s string) ([]Limit, error) {
	var limits []Limit
	var errs []error
	for _, word := range strings.Split(s, ",") {
		l, err := parseLimit(strings.TrimSpace(word))
		limits, errs = append(limits, l), append(errs, err)
	}
	err := allOf(errs...)
	if err == nil {
		err = within(fmt.Sprintf("limits %q", s), newLimitSet(limits).err)
	}
	if err != nil {
		return nil, prefix(err)
	}
	return limits, nil
}

// MustParseLimits is ParseLimits for limits that are constants of the program: it panics on an error.
func MustParseLimits(s string) []Limit {
	limits, err := ParseLimits(s)
	if err != nil {
		panic(err)
	}
	return limits
}

func parseLimit(word string) (l Limit, err error) {
	if rate, ok := strings.CutSuffix(word, atOnce); ok {
		if l.Rate, ok = parseCount(rate); ok {
			l.Algorithm = InFlight
			_, err = l.compile()
			return l, within(fmt.Sprintf("limit %q", word), err)
		}
	}
	head, options, hasOptions := strings.Cut(word, ";")
	rate, period, ok := strings.Cut(head, "/")
	if !ok {
		return l, limitMistake(word)
	}
	var errs []error
	if l.Rate, ok = parseCount(rate); !ok {
		errs = append(errs, invalid("rate %q is not a whole number", strings.TrimSpace(rate)))
	}
	period = strings.TrimSpace(period)
	l.Calendar.Unit = calendarNames[strings.TrimSpace(strings.TrimPrefix(period, "1"))]
	if l.Calendar.Unit == 0 {
		if l.Period, ok = parsePeriod(period); !ok {
			errs = append(errs, periodMistake(period))
		}
	}
	if hasOptions {
		errs = append(errs, l.parseOptions(options)...)
	}
	if err = allOf(errs...); err == nil {
		l = l.normalized()
		_, err = l.compile()
	}
	return l, within(fmt.Sprintf("limit %q", word), err)
}

// parseOptions applies options to l. It returns an error for each option that is unknown or repeated.
func (l *Limit) parseOptions(options string) (errs []error) {
	seen := make(map[string]bool)
	for _, option := range strings.Split(options, ";") {
		option = strings.TrimSpace(option)
		what, ok := l.parseOption(option)
		if !ok || seen[what] {
			errs = append(errs, optionMistake(option, ok))
		}
		seen[what] = true
	}
	onCalendar := seen["calendar"] || seen["tz"] || seen["from"]
	if onCalendar {
		*l = l.onCalendar()
	}
	switch {
	case onCalendar && l.Calendar.Unit == 0 && l.Period != 0: // otherwise the period is the mistake
		errs = append(errs, invalid("only a day, a week, a month or a year is a window of a calendar, got %s", periodString(l.Period)))
	case l.Calendar.Unit != 0 && seen["algorithm"] && l.Algorithm == TokenBucket:
		errs = append(errs, invalid("a calendar %v is a fixed-window, got token-bucket", l.Calendar.Unit))
	}
	return errs
}

// parseOption applies option to l and returns its kind.
func (l *Limit) parseOption(option string) (what string, ok bool) {
	if a := slices.Index(algorithms[:InFlight], option); a >= 0 {
		l.Algorithm = Algorithm(a)
		return "algorithm", true
	}
	name, value, _ := strings.Cut(option, "=")
	n, isCount := parseCount(value)
	switch name = strings.TrimSpace(name); {
	case option == "calendar":
		return option, true
	case name == "tz":
		l.Calendar.Zone = strings.TrimSpace(value)
		return name, l.Calendar.Zone != ""
	case name == "ban":
		l.Ban, ok = parsePeriod(strings.TrimSpace(value))
		return name, ok && l.Ban > 0
	case !isCount || n == 0:
		return "", false
	case name == "burst":
		l.Burst = n
	case name == "buckets":
		l.Buckets = n
	case name == "from":
		l.Calendar.From = n
	default:
		return "", false
	}
	return name, true
}

// parseCount reads digits only: no sign, no separators. A number too large for an int becomes the largest int.
func parseCount(s string) (int, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, strconv.IntSize-1)
	return int(n), err == nil || n == math.MaxInt
}

// parsePeriod reads "m", "15m", "15 minutes", "1h30m" or "30d".
func parsePeriod(s string) (time.Duration, bool) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	if size, ok := unitNames[strings.TrimSpace(s[digits:])]; ok {
		if digits == 0 {
			return size, true
		}
		n, err := strconv.ParseInt(s[:digits], 10, 64)
		return time.Duration(n) * size, err == nil && n <= int64(math.MaxInt64/size)
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && !strings.ContainsAny(s, "+-")
}

// perUnit are abbreviations that ParseLimits does not accept, for the suggestion in its error.
var perUnit = map[string]string{"rps": "s", "qps": "s", "rpm": "m", "rph": "h"}

// limitMistake returns the error for a limit that has no slash.
func limitMistake(word string) error {
	head, options, hasOptions := strings.Cut(word, ";")
	rate := head[:len(head)-len(strings.TrimLeft(head, "0123456789"))]
	rest := strings.TrimSpace(head[len(rate):])
	hint := ""
	switch unit, per := strings.CutPrefix(rest, "per "); {
	case rest == strings.TrimSpace(atOnce) && hasOptions:
		hint = "; a limit of requests in flight has no options, got " + options
	case per && rate != "":
		meant := rate + "/" + strings.TrimSpace(unit)
		if _, err := parseLimit(meant); err == nil {
			hint = "; did you mean " + meant + "?"
		}
	case rate != "" && perUnit[rest] != "":
		hint = "; did you mean " + rate + "/" + perUnit[rest] + "?"
	case rate != "":
		hint = didYouMean(rate+" ", rest, []string{strings.TrimSpace(atOnce)}, "")
	}
	return invalid("limit %q: want RATE/PERIOD, such as 100/m, or RATE at once%s", word, hint)
}

// otherAlgorithmNames are the names of the algorithms in other libraries.
var otherAlgorithmNames = map[string]Algorithm{
	"gcra": TokenBucket, "leaky": TokenBucket, "leaky-bucket": TokenBucket, "window": FixedWindow, "log": SlidingLog, "counter": FixedWindow,
}

// optionMistake returns the error for an option that is unknown or, if twice is true, repeated.
func optionMistake(option string, twice bool) error {
	const want = "option %q: want an algorithm (%s), burst=N, buckets=N, ban=PERIOD, tz=ZONE, from=DAY or calendar, each once at most%s"
	name, _, _ := strings.Cut(option, "=")
	after := option[len(name):]
	name = strings.TrimSpace(name)
	hint := didYouMean("", name, append([]string{"burst", "buckets", "ban", "tz", "from", "calendar"}, algorithms[:InFlight]...), after)
	a, other := otherAlgorithmNames[strings.ToLower(name)]
	switch {
	case twice:
		hint = "; this is the second of its kind"
	case other:
		hint = "; did you mean " + a.String() + "?"
	case name == "tz":
		hint = "; tz wants the IANA name of a time zone, such as Europe/Berlin"
	case name == "burst" || name == "buckets" || name == "from":
		hint = "; " + name + " wants a whole number of at least 1"
	case name == "ban":
		hint = "; ban wants a period, such as 1h"
	case strings.Contains(option, "/"):
		hint = "; limits are separated by commas"
	}
	return invalid(want, option, strings.Join(algorithms[:InFlight], ", "), hint)
}

func periodMistake(period string) error {
	unit := strings.TrimLeft(period, "0123456789 ")
	hint := didYouMean("", unit, append(slices.Sorted(maps.Keys(unitNames)), "month", "year"), "")
	switch name := strings.ToLower(unit); {
	case strings.Contains(unit, "/"):
		hint = "; limits are separated by commas"
	case name == "mo" || name == "mon":
		hint = "; did you mean month?"
	case name == "y" || name == "yr":
		hint = "; did you mean year?"
	case calendarNames[name] == CalendarMonth:
		hint = "; months differ in length: want month, or days, such as 90d"
	case calendarNames[name] == CalendarYear:
		hint = "; years differ in length: want year, or days, such as 730d"
	}
	return invalid("period %q is not a duration, such as s, 15m, 500ms or day%s", period, hint)
}

// String returns l in the notation that ParseLimits reads back: "100/1m", "100/1m;burst=20", "240/1h;fixed-window",
// "60/1m;sliding-window;buckets=6", "5/10m;ban=1h", "20 at once", "10000/month;tz=Europe/Berlin;from=15", "500/week;calendar".
func (l Limit) String() string {
	if l.Algorithm == InFlight {
		return strconv.Itoa(l.Rate) + atOnce
	}
	if l.Calendar.Unit != 0 && l.Period == 0 {
		return fmt.Sprintf("%d/%s", l.Rate, l.Calendar.notation())
	}
	s := fmt.Sprintf("%d/%s", l.Rate, periodString(l.Period))
	if l.Algorithm != TokenBucket {
		s += ";" + l.Algorithm.String()
	}
	if l.Burst != 0 {
		s += fmt.Sprintf(";burst=%d", l.Burst)
	}
	if l.Buckets != 0 {
		s += fmt.Sprintf(";buckets=%d", l.Buckets)
	}
	if l.Ban != 0 {
		s += ";ban=" + periodString(l.Ban)
	}
	return s
}

// atOnce follows the rate of an InFlight limit in the notation.
const atOnce = " at once"

func periodString(p time.Duration) string {
	for _, name := range written {
		if size := unitNames[name]; p >= size && p%size == 0 {
			return strconv.FormatInt(int64(p/size), 10) + name
		}
	}
	return p.String()
}
