package core

import (
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// units are the suffixes of a period, largest first.
var units = []struct {
	name string
	size time.Duration
}{
	{"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond},
}

// String returns l in the notation that ParseLimits reads back: "100/1m", "100/1m;burst=20", "240/1h;fixed-window",
// "60/1m;sliding-window;buckets=6".
func (l Limit) String() string {
	b := strconv.AppendInt(nil, int64(l.Rate), 10)
	b = append(b, '/')
	b = append(b, periodString(l.Period)...)
	if l.Algorithm != TokenBucket {
		b = append(b, ';')
		b = append(b, l.Algorithm.String()...)
	}
	if l.Burst != 0 {
		b = append(b, ";burst="...)
		b = strconv.AppendInt(b, int64(l.Burst), 10)
	}
	if l.Buckets != 0 {
		b = append(b, ";buckets="...)
		b = strconv.AppendInt(b, int64(l.Buckets), 10)
	}
	return string(b)
}

func periodString(p time.Duration) string {
	for _, u := range units {
		if p >= u.size && p%u.size == 0 {
			return strconv.FormatInt(int64(p/u.size), 10) + u.name
		}
	}
	return p.String()
}

// ParseLimits reads limits separated by commas. Each is RATE/PERIOD, where PERIOD is a unit (us, ms, s, m, h, d), a
// number of them or any duration that time.ParseDuration reads, followed by options that start with a semicolon: the
// name of an algorithm, burst=N or buckets=N.
//
//	10/s, 120/m, 240/h, 5000/d
//	5/15m;sliding-log
//	100/m;burst=20
//	60/m;sliding-window;buckets=6
//	9/500ms
//
// An error wraps ErrInvalid and quotes the word at fault.
func ParseLimits(s string) ([]Limit, error) {
	var limits []Limit
	for _, word := range strings.Split(s, ",") {
		l, err := parseLimit(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	if err := validateLimits(limits); err != nil {
		return nil, invalid("limits %q: %s", s, reason(err))
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

func parseLimit(word string) (Limit, error) {
	head, options, _ := strings.Cut(word, ";")
	rate, period, ok := strings.Cut(head, "/")
	if !ok {
		return Limit{}, invalid("limit %q: want RATE/PERIOD, such as 100/m", word)
	}
	var l Limit
	var err error
	if l.Rate, err = parseCount(rate); err != nil {
		return Limit{}, invalid("limit %q: rate %q is not a whole number", word, strings.TrimSpace(rate))
	}
	if l.Period, ok = parsePeriod(strings.TrimSpace(period)); !ok {
		return Limit{}, invalid("limit %q: period %q is not a duration, such as s, 15m or 500ms", word, strings.TrimSpace(period))
	}
	if options != "" || strings.HasSuffix(word, ";") {
		for _, option := range strings.Split(options, ";") {
			if !l.parseOption(strings.TrimSpace(option)) {
				return Limit{}, invalid("limit %q: option %q is not an algorithm, burst=N or buckets=N", word, strings.TrimSpace(option))
			}
		}
	}
	if err := l.Validate(); err != nil {
		return Limit{}, invalid("limit %q: %s", word, reason(err))
	}
	return l, nil
}

// parseOption sets what option says and reports whether it is one.
func (l *Limit) parseOption(option string) bool {
	name, value, hasValue := strings.Cut(option, "=")
	if hasValue {
		n, err := parseCount(value)
		if err != nil || n == 0 {
			return false
		}
		switch name {
		case "burst":
			l.Burst = n
			return true
		case "buckets":
			l.Buckets = n
			return true
		}
		return false
	}
	for a, known := range algorithmNames {
		if name == known {
			l.Algorithm = Algorithm(a)
			return true
		}
	}
	return false
}

// parseCount reads digits only: no sign, no separators.
func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, strconv.IntSize-1)
	return int(n), err
}

// parsePeriod reads "m", "15m", "1h30m" or "30d".
func parsePeriod(s string) (time.Duration, bool) {
	if s != "" && (s[0] < '0' || s[0] > '9') {
		s = "1" + s
	}
	if number, ok := strings.CutSuffix(s, "d"); ok {
		n, err := parseCount(number)
		return time.Duration(n) * day, err == nil && n <= int(maxPeriod/day)
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

// reason is the text of err without the prefix that its new home repeats.
func reason(err error) string {
	return strings.ReplaceAll(err.Error(), ErrInvalid.Error()+": ", "")
}
