package accesslog

import (
	"fmt"
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

// anyTime reads a time in one of the notations that logs use, including seconds and milliseconds since the epoch.
func anyTime(s string) (at time.Time, wholeSeconds bool, err error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999", "2006/01/02 15:04:05.999999999", "02/Jan/2006:15:04:05 -0700"} {
		if at, err := time.Parse(layout, s); err == nil {
			return inRange(at.UTC(), !strings.ContainsAny(s, ".,"))
		}
	}
	if d, ok := seconds(s); ok && d > 0 {
		return inRange(time.Unix(0, int64(d)).UTC(), !strings.Contains(s, "."))
	}
	if n, ok := number(s); ok {
		for ; n > 1e11; n /= 1000 { // ms, µs or ns
			if n < 1e14 {
				return inRange(time.UnixMilli(int64(n)).UTC(), false)
			}
		}
	}
	return time.Time{}, false, fmt.Errorf("%.40q is not a time", s)
}

// inRange rejects times outside the years 1990 to 2200, so that arithmetic with them does not overflow.
func inRange(at time.Time, wholeSeconds bool) (time.Time, bool, error) {
	if y := at.Year(); y < 1990 || y > 2200 {
		return time.Time{}, false, fmt.Errorf("the year %d cannot be right", y)
	}
	return at, wholeSeconds, nil
}
