package client

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// A number between these two is an epoch in seconds, 1985 to 3554. A smaller number is a number of seconds.
	leastEpoch = 500_000_000
	mostEpoch  = 100 * leastEpoch

	// maxSeconds bounds the waits that are computed: 30 years.
	maxSeconds = 1_000_000_000

	// maxDate bounds the bytes of a Date that is cached: it may have any number of fractional digits.
	maxDate = 64
)

// A serverClock converts the instants in a response into waits. It corrects them by Date, so that wrong clocks do not
// matter. Date has no fractions of a second, so a wait may be up to a second too long, but never too short.
type serverClock struct {
	header http.Header
	now    time.Time // by the local clock
	date   time.Time // by the server's clock; zero before it is needed
}

// server returns the time of the server when it sent the response, or the local time if the response has no Date.
func (c *serverClock) server() time.Time {
	if c.date.IsZero() {
		c.date = c.now
		if lines := c.header["Date"]; len(lines) > 0 {
			if date, ok := parseDate(lines[0]); ok {
				c.date = date
			}
		}
	}
	return c.date
}

// lastDate caches the last Date parsed, because many responses have the same Date.
var lastDate atomic.Pointer[parsedDate]

type parsedDate struct {
	text string
	date time.Time
}

func parseDate(text string) (time.Time, bool) {
	if last := lastDate.Load(); last != nil && last.text == text {
		return last.date, true
	}
	date, err := http.ParseTime(text)
	if err == nil && len(text) <= maxDate {
		lastDate.Store(&parsedDate{text, date})
	}
	return date, err == nil
}

// in returns the wait for an instant some seconds from now, and that instant by the server's clock.
func (c *serverClock) in(seconds int64) (wait time.Duration, reset int64, ok bool) {
	seconds = min(seconds, maxSeconds)
	return time.Duration(seconds) * time.Second, c.server().Unix() + seconds, true
}

// until is like in, for an instant that is written as a number of seconds, an epoch (in seconds or a smaller unit) or a
// date.
func (c *serverClock) until(text string) (wait time.Duration, reset int64, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, 0, false
	}
	first, _, _ := strings.Cut(text, ",") // of several lines that a proxy has joined
	if f, ok := parseSeconds(first); ok {
		return c.number(f)
	}
	if t, err := http.ParseTime(strings.Replace(text, " UTC", " GMT", 1)); err == nil { // go-limiter writes UTC
		return c.at(t)
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, 0, false
	}
	return c.at(t)
}

// number is like in, for a number of seconds or an epoch. It cuts a number that is too large for an epoch to
// maxSeconds.
func (c *serverClock) number(f float64) (wait time.Duration, reset int64, ok bool) {
	if f < leastEpoch {
		return c.in(int64(math.Ceil(max(f, -maxSeconds))))
	}
	epoch := f
	for epoch >= mostEpoch {
		epoch /= 1000
	}
	if f >= mostEpoch && math.Abs(epoch-float64(c.server().Unix())) > maxSeconds/3 {
		return c.in(maxSeconds)
	}
	return c.at(time.Unix(int64(math.Ceil(epoch)), 0))
}

// at is like in, for an instant by the server's clock.
func (c *serverClock) at(t time.Time) (wait time.Duration, reset int64, ok bool) {
	const most = maxSeconds * time.Second
	return min(max(t.Sub(c.server()), -most), most), t.Unix(), true
}

// parseSeconds reads a finite number.
func parseSeconds(s string) (float64, bool) {
	if n, ok := plainDigits(s); ok {
		return float64(n), true
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// plainDigits reads up to 15 digits without an allocation.
func plainDigits(s string) (n int64, ok bool) {
	n, rest := digits(s)
	return n, rest == "" && s != "" && len(s) <= 15
}

// digits reads the digits that s begins with, and returns the rest.
func digits(s string) (n int64, rest string) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		n = 10*n + int64(s[i]-'0')
		i++
	}
	return n, s[i:]
}

// leadingInteger reads the number that s begins with, as in "100, 100;w=60". Its fraction is dropped.
func leadingInteger(s string) (n int64, ok bool) {
	s = strings.TrimSpace(s)
	text, negative := strings.CutPrefix(s, "-")
	n, rest := digits(text)
	if length := len(text) - len(rest); length == 0 || length > 15 {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}
