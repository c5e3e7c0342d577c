package core

import (
	"strconv"
	"time"
)

// String returns l in the notation that ParseLimits reads back: "100/1m", "100/1m;burst=20", "240/1h;fixed-window",
// "60/1m;sliding-window;buckets=6", "5/10m;ban=1h", "20 at once", "10000/month;tz=Europe/Berlin;from=15", "500/week;calendar".
func (l Limit) String() string {
	b := strconv.AppendInt(nil, int64(l.Rate), 10)
	if l.Algorithm == InFlight {
		return string(append(b, atOnce...))
	}
	b = append(b, '/')
	if l.Calendar.Unit != 0 && l.Period == 0 {
		return string(l.Calendar.appendTo(b))
	}
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
	if l.Ban != 0 {
		b = append(b, ";ban="...)
		b = append(b, periodString(l.Ban)...)
	}
	return string(b)
}

// atOnce follows the rate of an InFlight limit in the notation.
const atOnce = " at once"

func periodString(p time.Duration) string {
	for _, u := range units {
		if p >= u.size && p%u.size == 0 {
			return strconv.FormatInt(int64(p/u.size), 10) + u.name
		}
	}
	return p.String()
}
