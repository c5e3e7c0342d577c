package accesslog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A clock parses times such as 10/Oct/2000:13:55:36 -0700. It caches the last one, which many lines of a log share.
type clock struct {
	text string
	at   time.Time
}

func (c *clock) read(text string) (time.Time, error) {
	if text == c.text && text != "" {
		return c.at, nil
	}
	at, err := time.Parse("02/Jan/2006:15:04:05 -0700", text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is not a time such as 10/Oct/2000:13:55:36 -0700", text)
	}
	if at, _, err = inRange(at.UTC(), true); err == nil {
		c.text, c.at = strings.Clone(text), at
	}
	return at, err
}

// anyTime reads a time in one of the notations that logs use, including the time since the epoch. Without a zone, it is in UTC.
func anyTime(s string) (at time.Time, wholeSeconds bool, err error) {
	if at, wholeSeconds, ok := epochTime(s); ok {
		return inRange(at, wholeSeconds)
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999", "2006/01/02 15:04:05.999999999",
		"02/Jan/2006:15:04:05 -0700", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00",
	} {
		if at, err := time.Parse(layout, s); err == nil {
			return inRange(at.UTC(), !strings.ContainsAny(s, ".,"))
		}
	}
	return time.Time{}, false, fmt.Errorf("%.40q is not a time such as 2000-10-10T13:55:36Z", s)
}

// epochTime reads seconds, milliseconds, microseconds or nanoseconds since the epoch, with or without a fraction. Their
// size tells the unit: in no unit is a time from 1990 to 2200 in the range of another.
func epochTime(s string) (at time.Time, wholeSeconds, ok bool) {
	if strings.Trim(s, "0123456789.eE+") != "" {
		return at, false, false
	}
	if strings.ContainsAny(s, "eE") { // 1.7935272e+09
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return at, false, false
		}
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	whole, fraction, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || strings.Trim(fraction, "0123456789") != "" {
		return at, false, false
	}
	unit := time.Second
	for limit := uint64(1e11); n >= limit && unit > 1; limit *= 1000 {
		unit /= 1000
	}
	perSecond := uint64(time.Second / unit)
	at = time.Unix(int64(n/perSecond), int64(n%perSecond)*int64(unit)).UTC()
	wholeSeconds = unit == time.Second && fraction == ""
	for i := range len(fraction) {
		unit /= 10
		at = at.Add(unit * time.Duration(fraction[i]-'0'))
	}
	return at, wholeSeconds, true
}

// inRange rejects times outside the years 1990 to 2200, so that arithmetic with them does not overflow.
func inRange(at time.Time, wholeSeconds bool) (time.Time, bool, error) {
	if y := at.Year(); y < 1990 || y > 2200 {
		return time.Time{}, false, fmt.Errorf("the year %d cannot be right", y)
	}
	return at, wholeSeconds, nil
}
