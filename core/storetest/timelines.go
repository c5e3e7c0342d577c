package storetest

import (
	"math"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

const (
	never   = core.Never
	anyWait = core.Never - 1 // a denial whose wait depends on the moment
	ms      = time.Millisecond
	second  = time.Second
	minute  = time.Minute
)

// A timeline is what happens to one key of one limit.
type timeline struct {
	name  string
	limit string        // of steps that name no other
	align time.Duration // begin at a multiple of this
	steps []step
}

// A step lets time pass, takes, and says what must result.
type step struct {
	advance   time.Duration
	limit     string
	cost      int
	ok        bool
	remaining int
	retry     time.Duration
}

func timelineRows() (rows []row) {
	for _, group := range [][]timeline{algorithmTimelines, costTimelines, tierTimelines, rateTimelines} {
		for _, tl := range group {
			rows = append(rows, row{tl.name, tl.run})
		}
	}
	return rows
}

func (tl timeline) run(s *suite) {
	if tl.align > 0 {
		s.align(tl.align)
	}
	for i, step := range tl.steps {
		s.advance(step.advance)
		limit := tl.limit
		if step.limit != "" {
			limit = step.limit
		}
		r := s.take(claim("key", limit, step.cost))[0]
		if !s.sure(r.Limit) {
			continue
		}
		if r.Allowed != step.ok || r.Remaining != step.remaining {
			s.Errorf("step %d: cost %d of %s is allowed: %t, and %d remain; want %t, %d",
				i, step.cost, limit, r.Allowed, r.Remaining, step.ok, step.remaining)
		}
		if step.retry != anyWait {
			s.near(r.RetryAfter, step.retry)
		}
	}
}

var algorithmTimelines = []timeline{
	{name: "a token bucket admits its burst at once and then as many as drain", limit: "1/s;burst=3", steps: []step{
		{cost: 3, ok: true, remaining: 0},
		{cost: 1, retry: second},
		{advance: 400 * ms, cost: 1, retry: 600 * ms},
		{advance: 600 * ms, cost: 1, ok: true, remaining: 0},
		{cost: 2, retry: 2 * second},
		{advance: 2 * second, cost: 1, ok: true, remaining: 1},
		{cost: 2, remaining: 1, retry: second},
	}},
	{name: "a fixed window admits its rate and starts over at multiples of its period", limit: "3/2s;fixed-window", align: 2 * second, steps: []step{
		{cost: 2, ok: true, remaining: 1},
		{cost: 2, remaining: 1, retry: 2 * second},
		{advance: 1200 * ms, cost: 1, ok: true, remaining: 0},
		{cost: 1, retry: 800 * ms},
		{advance: 800 * ms, cost: 3, ok: true, remaining: 0},
		{cost: 1, retry: 2 * second},
	}},
	{name: "a sub-bucket of a sliding window counts until one period after its end", limit: "3/2s;sliding-window;buckets=4", align: 2 * second, steps: []step{
		{cost: 2, ok: true, remaining: 1},
		{advance: 550 * ms, cost: 1, ok: true, remaining: 0},
		{cost: 1, retry: 1950 * ms},
		{advance: 1500 * ms, cost: 1, retry: 450 * ms},
		{advance: 450 * ms, cost: 2, ok: true, remaining: 0},
		{cost: 1, retry: 500 * ms},
	}},
	{name: "a sliding log counts each request for exactly one period", limit: "3/2s;sliding-log", steps: []step{
		{cost: 2, ok: true, remaining: 1},
		{advance: second, cost: 1, ok: true, remaining: 0},
		{cost: 1, retry: second},
		{cost: 3, retry: 2 * second},
		{advance: second, cost: 2, ok: true, remaining: 0},
		{cost: 1, retry: second},
	}},
}

var costTimelines = []timeline{
	{name: "a burst above the rate is the capacity", limit: "10/d;burst=20", steps: []step{
		{cost: 20, ok: true, remaining: 0},
		{cost: 10, retry: 24 * time.Hour},
	}},
	{name: "a burst below the rate is the capacity", limit: "10/d;burst=2", steps: []step{
		{cost: 3, remaining: 2, retry: never},
		{cost: 2, ok: true, remaining: 0},
	}},
	{name: "a token bucket never admits a cost above its capacity, and charges nothing", limit: "5/d", steps: aboveCapacity},
	{name: "a fixed window never admits a cost above its rate, and charges nothing", limit: "5/1000d;fixed-window", steps: aboveCapacity},
	{name: "a sliding window never admits a cost above its rate, and charges nothing", limit: "5/d;sliding-window", steps: aboveCapacity},
	{name: "a sliding log never admits a cost above its rate, and charges nothing", limit: "5/d;sliding-log", steps: aboveCapacity},
	{name: "a cost of 0 means 1", limit: "5/d", steps: []step{{cost: 0, ok: true, remaining: 4}}},
	{name: "a rate of 0 denies everything, and a burst does not help", limit: "0/d;burst=5", steps: []step{{cost: 1, retry: never}}},
	{name: "a fixed window of rate 0 denies everything", limit: "0/1000d;fixed-window", steps: []step{{cost: 1, retry: never}}},
	{name: "a sliding window of rate 0 denies everything", limit: "0/d;sliding-window", steps: []step{{cost: 1, retry: never}}},
	{name: "a sliding log of rate 0 denies everything", limit: "0/d;sliding-log", steps: []step{{cost: 1, retry: never}}},
}

var aboveCapacity = []step{
	{cost: 6, remaining: 5, retry: never},
	{cost: math.MaxInt, remaining: 5, retry: never},
	{cost: 5, ok: true, remaining: 0},
	{cost: math.MaxInt, remaining: 0, retry: never},
}

var tierTimelines = []timeline{
	{name: "10 of 10 used, upgraded to 100, leaves 90 in a token bucket", limit: "10/d", steps: upgrade("100/d")},
	{name: "10 of 10 used, upgraded to 100, leaves 90 in a fixed window", limit: "10/1000d;fixed-window", steps: upgrade("100/1000d;fixed-window")},
	{name: "10 of 10 used, upgraded to 100, leaves 90 in a sliding window", limit: "10/d;sliding-window", steps: upgrade("100/d;sliding-window")},
	{name: "10 of 10 used, upgraded to 100, leaves 90 in a sliding log", limit: "10/d;sliding-log", steps: upgrade("100/d;sliding-log")},
	{name: "usage stays when the time of a token bucket counts in coarser ticks", limit: "10/100d", steps: []step{
		{cost: 10, ok: true, remaining: 0},
		{limit: "1000000/100d", cost: 1, ok: true, remaining: 999_989},
		{limit: "10/100d", cost: 1, remaining: 0, retry: anyWait},
		{limit: "12/100d", cost: 1, ok: true, remaining: 0},
	}},
	{name: "a downgrade keeps the usage, which drains at the rate at which it was charged", limit: "100/d", steps: []step{
		{cost: 50, ok: true, remaining: 50},
		{limit: "10/d", cost: 1, remaining: 0, retry: 41 * 864 * second},
	}},
	{name: "a tier of rate 0 denies, and leaves the usage as it is", limit: "10/d", steps: []step{
		{cost: 4, ok: true, remaining: 6},
		{limit: "0/d", cost: 1, remaining: 0, retry: never},
		{cost: 1, ok: true, remaining: 5},
	}},
	{name: "a limit of another period or algorithm has a state of its own", limit: "5/d", steps: []step{
		{cost: 5, ok: true, remaining: 0},
		{limit: "5/2d", cost: 1, ok: true, remaining: 4},
		{limit: "5/d;sliding-log", cost: 1, ok: true, remaining: 4},
		{limit: "5/d", cost: 1, remaining: 0, retry: 288 * minute},
	}},
}

// rateTimelines ask one key at several rates, or in sub-buckets of several widths.
var rateTimelines = []timeline{
	{name: "usage at a strict and at a lax rate drains at these rates", limit: "1/h;burst=10", steps: []step{
		{cost: 10, ok: true, remaining: 0},
		{limit: "36000000/h", cost: 1, ok: true, remaining: 35_999_989},
		{advance: 500 * ms, limit: "1/h;burst=10", cost: 1, retry: time.Hour - 500*ms},
		{advance: 500 * ms, limit: "36000000/h", cost: 1, ok: true, remaining: 35_999_989},
	}},
	{name: "usage at a strict rate still counts when usage at a lax rate has drained", limit: "1/h;burst=2", steps: []step{
		{cost: 2, ok: true, remaining: 0},
		{limit: "7200/h", cost: 1, ok: true, remaining: 7197},
		{limit: "7200/h", cost: 1, ok: true, remaining: 7196},
		{advance: 2500 * ms, cost: 1, retry: time.Hour - 2500*ms},
	}},
	{name: "a charge at a strict rate comes on top of the usage at a lax rate", limit: "36/h;burst=10", steps: []step{
		{limit: "360/h;burst=10", cost: 10, ok: true, remaining: 0},
		{cost: 1, remaining: 0, retry: 10 * second},
		{advance: 25 * second, cost: 2, ok: true, remaining: 0},
		{advance: 5 * second, cost: 1, remaining: 0, retry: anyWait},
	}},
	{name: "a denied request changes no other rate", limit: "7200/h", steps: []step{
		{cost: 7200, ok: true, remaining: 0},
		{limit: "1/h", cost: 1, retry: anyWait},
		{advance: second, cost: 2, ok: true, remaining: 0},
	}},
	{name: "sub-buckets of every width count each request", limit: "3/20s;sliding-window;buckets=20", align: 20 * second, steps: []step{
		{limit: "3/20s;sliding-window;buckets=2", cost: 2, ok: true, remaining: 1},
		{cost: 1, ok: true, remaining: 0},
		{advance: 22500 * ms, cost: 1, remaining: 0, retry: 7500 * ms},
		{advance: 9 * second, cost: 3, ok: true, remaining: 0},
		{limit: "3/20s;sliding-window;buckets=2", cost: 1, remaining: 0, retry: 20500 * ms},
	}},
}

func upgrade(tier string) []step {
	return []step{
		{cost: 10, ok: true, remaining: 0},
		{limit: tier, cost: 91, remaining: 90, retry: anyWait},
		{limit: tier, cost: 90, ok: true, remaining: 0},
	}
}

var calendarRows = []row{
	{"a calendar window ends when the next one starts in its time zone", func(s *suite) {
		for _, limit := range []string{
			"3/day;calendar", "3/day;tz=Asia/Kathmandu", "3/week;from=7;tz=America/New_York", "3/month;tz=Europe/Berlin;from=31", "3/year;tz=Asia/Tokyo",
		} {
			s.take(claim(limit, limit, 3))
			r := s.take(claim(limit, limit, 1))[0]
			_, end := r.Limit.Calendar.Window(r.At)
			for _, wait := range []time.Duration{r.RetryAfter, r.RefillAfter, r.ResetAfter} {
				off := r.At.Add(wait).Sub(end).Abs()
				expect.True(s, !r.Allowed && off <= time.Second, "used up: %+v, want a wait until %v", r, end)
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
	now := s.now()
	for _, limit := range []string{"4/day;calendar", "4/day;tz=Etc/GMT+12"} {
		c = claim("key", limit, 2)
		_, end := c.Limits[0].Calendar.Window(now)
		if until = end.Sub(now); until <= 12*time.Hour {
			break
		}
	}
	return c, until
}

// untilEnded is after how long a hold has ended for certain.
const untilEnded = 66*time.Second + time.Millisecond

// endRows check holds that nobody settles.
var endRows = []row{
	{"a hold that nobody settles is charged when it ends", func(s *suite) {
		limits := append([]string{"5/d, 2 at once"}, allAlgorithms...)
		for _, limit := range limits {
			s.take(hold(claim(limit, limit, 3)))
		}
		if s.wait(minute - second); s.take(peek(claim(limits[0], limits[0], 1)))[1].Remaining != 1 && s.late() < second {
			s.Errorf("a hold has ended within a minute")
		}
		s.wait(untilEnded - minute + second)
		s.expect(words("yes 2", "yes 2"), peek(claim(limits[0], limits[0], 1)))
		for _, limit := range limits[1:] {
			s.expect(words("yes 2"), peek(claim(limit, limit, 1)))
			s.expect(words("yes 0"), claim(limit, limit, 2))
		}
	}},
	{"a hold that ends is charged at its end, even if it does not fit", func(s *suite) {
		s.take(hold(claim("drains", "6/m", 6)))
		s.take(hold(claim("full", "5/1000d;fixed-window", 2)))
		s.end(s.charge(hold(claim("full", "5/1000d;fixed-window", 3)))[0], 4)
		s.wait(untilEnded)
		// The hold has ended 60 to 66 seconds after it was made, so that at most one request has drained.
		expect.AtMost(s, s.take(peek(claim("drains", "6/m", 1)))[0].Remaining, 1+int(s.late()/(10*second)), "remaining (at most 1)")
		s.expect(words("no 0"), peek(claim("full", "5/1000d;fixed-window", 1)))
	}},
	{"a hold that ends begins the ban of its limit", func(s *suite) {
		s.take(hold(claim("key", "2/h;ban=10h", 2)))
		s.wait(untilEnded)
		if r := s.take(claim("key", "2/h;ban=10h", 1))[0]; r.Allowed || r.RetryAfter > 10*time.Hour || r.RetryAfter < 10*time.Hour-7*second-s.late() {
			s.Errorf("%+v, want a ban of 10h", r)
		}
	}},
	{"a hold that ends is charged to the limits of its claim only, whatever the next request asks for", func(s *suite) {
		used := claim("key", "9/2d, 9/2000d;fixed-window, 9/2d;sliding-window, 9/2d;sliding-log", 1)
		s.take(hold(claim("key", together, 3)))
		s.take(used)
		s.wait(untilEnded)
		s.expect(words("yes 6"), claim("key", "7/3d", 1))
		s.expect(words("yes 2", "yes 2", "yes 2", "yes 2"), peek(claim("key", together, 1)))
		s.expect(words("yes 8", "yes 8", "yes 8", "yes 8"), peek(used))
	}},
	{"the charge of an ended hold drains at the rate of its claim", func(s *suite) {
		s.take(hold(claim("lax", "3600/h;burst=20", 20)))
		s.take(hold(claim("strict", "36/h;burst=20", 20)))
		s.wait(untilEnded + 20*second)
		s.expect(words("yes 19"), claim("lax", "36/h;burst=20", 1))
		s.expect(words("no 0"), claim("strict", "36/h;burst=20", 1))
		s.expect(words("no 0"), claim("strict", "3600/h;burst=20", 1))
	}},
	{"a settlement after the end of a hold adjusts what was charged", forEach(allAlgorithms, func(s *suite, limit string) {
		key := func(i int) string { return limit + " " + strconv.Itoa(i) }
		finals, left := []int{0, 1, 4, 0}, []string{"yes 5", "yes 4", "yes 1", "yes 5"}
		var held []core.Settlement
		for i := range finals {
			held = append(held, s.charge(hold(claim(key(i), limit, 3)))...)
		}
		dry := s.charge(dryRun(hold(claim(limit, limit, 3))))[0]
		s.wait(untilEnded)
		s.expect(words("yes 2"), peek(claim(key(3), limit, 1)))
		for i, final := range finals {
			s.end(held[i], final)
			s.expect(words(left[i]), peek(claim(key(i), limit, 1)))
		}
		s.end(dry, 6)
		s.expect(words("yes 2"), peek(claim(limit, limit, 1)))
	})},
	{"a renewal after the end of a hold reports that the hold is gone", func(s *suite) {
		held := s.charge(hold(claim("key", "5/d, 2 at once", 1)))
		s.wait(untilEnded)
		at := held[0].At
		held[0].Renew = true
		s.settle(held...)
		expect.True(s, held[0].At.Equal(at), "renewed at %v what was held at %v", held[0].At, at)
		s.expect(words("yes 4", "yes 2"), peek(claim("key", "5/d, 2 at once", 1)))
	}},
	{"a hold that was renewed ends a minute later", func(s *suite) {
		held := s.charge(hold(claim("key", "5/d, 2 at once", 1)))
		s.wait(50 * time.Second)
		held[0].Renew = true
		s.settle(held...)
		s.wait(20 * time.Second)
		s.expect(words("yes 4", "yes 1"), peek(claim("key", "5/d, 2 at once", 1)))
		held[0].Renew = false
		s.end(held[0], 0)
		s.expect(words("yes 5", "yes 2"), peek(claim("key", "5/d, 2 at once", 1)))
	}},
	{"a reset forgets ended holds, and keeps others with the limits that they will be charged to", func(s *suite) {
		ended := s.charge(hold(claim("ended", together, 2)))
		s.wait(untilEnded)
		s.take(hold(claim("key", together, 2)))
		s.take(claim("key", together, 3))
		s.reset("rule", "key")
		s.reset("rule", "ended")
		s.expect(words("yes 3", "yes 3", "yes 3", "yes 3"), peek(claim("key", together, 1)))
		s.expect(words("yes 5", "yes 5", "yes 5", "yes 5"), peek(claim("ended", together, 1)))
		s.wait(ms)
		s.take(claim("ended", together, 4))
		s.end(ended[0], 0)
		s.expect(words("yes 1", "yes 1", "yes 1", "yes 1"), peek(claim("ended", together, 1)))
		s.wait(untilEnded)
		s.expect(words("yes 3", "yes 3", "yes 3", "yes 3"), peek(claim("key", together, 1)))
	}},
}
