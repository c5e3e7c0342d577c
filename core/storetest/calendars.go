package storetest

import (
	"time"

	"github.com/spillgate/spillgate/core"
)

var calendarRows = []row{
	{"a calendar window ends when the next one starts in its time zone", func(s *suite) {
		for _, limit := range []string{
			"3/day;calendar", "3/day;tz=Asia/Kathmandu", "3/week;from=7;tz=America/New_York", "3/month;tz=Europe/Berlin;from=31", "3/year;tz=Asia/Tokyo",
		} {
			s.take(claim(limit, limit, 3))
			r := s.take(claim(limit, limit, 1))[0]
			_, end := r.Limit.Calendar.Window(r.At)
			for _, wait := range []time.Duration{r.RetryAfter, r.RefillAfter, r.ResetAfter} {
				if off := r.At.Add(wait).Sub(end).Abs(); r.Allowed || off > time.Second {
					s.Errorf("used up: %+v, want a wait until %v", r, end)
				}
			}
		}
	}},
	{"a calendar window admits its rate, and the next one does again", func(s *suite) {
		c, until := s.nextDay()
		s.expect(words("yes 2"), c)
		again := s.charge(c)[0]
		if !s.quick {
			return
		}
		s.wait(until - time.Second)
		c.Cost = 1
		s.expect(words("no 0"), c)
		s.wait(2 * time.Second)
		s.expect(words("yes 3"), c)
		s.settle(again) // of the window before
		s.expect(words("yes 3"), peek(c))
		c.Cost = 3
		s.expect(words("yes 0"), c)
		s.expect(words("no 0"), c)
	}},
}

// nextDay returns a claim of 2 of 4 per day, in a time zone whose next day starts within 12 hours, and how long that takes.
func (s *suite) nextDay() (c core.Claim, until time.Duration) {
	now := s.take(peek(claim("clock", "1/s", 1)))[0].At
	for _, limit := range []string{"4/day;calendar", "4/day;tz=Etc/GMT+12"} {
		c = claim("key", limit, 2)
		_, end := c.Limits[0].Calendar.Window(now)
		if until = end.Sub(now); until <= 12*time.Hour {
			break
		}
	}
	return c, until
}
