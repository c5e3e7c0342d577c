package core

import (
	"fmt"
	"math"
	"slices"
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
		return nil, within(fmt.Sprintf("limits %q", s), err)
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
	period = strings.TrimSpace(period)
	if l.Period, ok = parsePeriod(period); !ok {
		return Limit{}, invalid("limit %q: period %q is not a duration, such as s, 15m or 500ms", word, period)
	}
	if strings.Contains(word, ";") {
		if option, ok := l.parseOptions(options); !ok {
			return Limit{}, invalid("limit %q: option %q: want an algorithm, burst=N or buckets=N, each once at most", word, option)
		}
	}
	if err := l.Validate(); err != nil {
		return Limit{}, within(fmt.Sprintf("limit %q", word), err)
	}
	return l, nil
}

// parseOptions sets what options say. It returns the first that is none, or that says again what another said.
func (l *Limit) parseOptions(options string) (fault string, ok bool) {
	seen := make(map[string]bool)
	for _, option := range strings.Split(options, ";") {
		option = strings.TrimSpace(option)
		what, ok := l.parseOption(option)
		if !ok || seen[what] {
			return option, false
		}
		seen[what] = true
	}
	return "", true
}

// parseOption sets what option says and returns which of the three kinds it is.
func (l *Limit) parseOption(option string) (what string, ok bool) {
	if a := slices.Index(algorithmNames[:], option); a >= 0 {
		l.Algorithm = Algorithm(a)
		return "algorithm", true
	}
	name, value, _ := strings.Cut(option, "=")
	n, err := parseCount(value)
	switch {
	case err != nil || n == 0:
		return "", false
	case name == "burst":
		l.Burst = n
	case name == "buckets":
		l.Buckets = n
	default:
		return "", false
	}
	return name, true
}

// parseCount reads digits only: no sign, no separators.
func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, strconv.IntSize-1)
	return int(n), err
}

// parsePeriod reads "m", "15m", "1h30m" or "30d".
func parsePeriod(s string) (time.Duration, bool) {
	for _, u := range units {
		if s == u.name {
			return u.size, true
		}
	}
	if number, ok := strings.CutSuffix(s, "d"); ok {
		n, err := parseCount(number)
		return time.Duration(n) * day, err == nil && n <= int(math.MaxInt64/day)
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && !strings.ContainsAny(s, "+-")
}
