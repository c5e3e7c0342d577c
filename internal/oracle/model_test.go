package oracle_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/oracle"
)

// start is the beginning of a minute.
const start = 1439 * 60_000_000

const (
	ms     = 1000
	second = 1000 * ms
)

// A step is one Take of a claim with one limit, at microseconds after start, with the result computed by hand.
type step struct {
	at                   int64
	limit                string
	cost, remaining      int
	retry, refill, reset time.Duration
}

func limit(s string) core.Limit { return core.MustParseLimits(s)[0] }

func claim(s string, cost int) core.Claim {
	return core.Claim{Rule: "r", Key: "k", Limits: []core.Limit{limit(s)}, Cost: cost}
}

func (s step) check(t *testing.T, m *oracle.Model) {
	t.Helper()
	got := m.Take(start+s.at, []core.Claim{claim(s.limit, s.cost)})[0]
	want := core.Result{
		Rule: "r", Limit: limit(s.limit), Allowed: s.retry == 0, Remaining: s.remaining,
		RetryAfter: s.retry, RefillAfter: s.refill, ResetAfter: s.reset, At: time.UnixMicro(start + s.at),
	}
	expect.Equal(t, got, want, "at %d, cost %d of %s", s.at, s.cost, s.limit)
}

const sec, msec, µs = time.Second, time.Millisecond, time.Microsecond

// timelines maps what a timeline shows to its steps.
var timelines = map[string][]step{
	"a token bucket refills one request every sixth of a minute": {
		{at: 0, limit: "6/m", cost: 4, remaining: 2, refill: 10 * sec, reset: 40 * sec},
		{at: 5 * second, limit: "6/m", cost: 3, remaining: 2, retry: 5 * sec, refill: 5 * sec, reset: 35 * sec},
		{at: 10 * second, limit: "6/m", cost: 3, remaining: 0, refill: 10 * sec, reset: 60 * sec},
		{at: 20*second - 1, limit: "6/m", cost: 1, remaining: 0, retry: µs, refill: µs, reset: 50*sec + µs},
	},
	"a wait of a third of a second is rounded up to the next microsecond": {
		{at: 0, limit: "3/s", cost: 3, remaining: 0, refill: 333334 * µs, reset: sec},
		{at: 333333, limit: "3/s", cost: 1, remaining: 0, retry: µs, refill: µs, reset: 666667 * µs},
		{at: 333334, limit: "3/s", cost: 1, remaining: 0, refill: 333333 * µs, reset: sec},
	},
	"lax requests leave a strict limit no debt": {
		{at: 0, limit: "1/h;burst=10", cost: 10, remaining: 0, refill: time.Hour, reset: 10 * time.Hour},
		{at: 0, limit: "3600/h;burst=20", cost: 1, remaining: 9, refill: sec, reset: 10 * time.Hour},
		{at: 0, limit: "3600/h;burst=20", cost: 1, remaining: 8, refill: sec, reset: 10 * time.Hour},
		{at: 3600 * second, limit: "1/h;burst=10", cost: 1, remaining: 0, refill: time.Hour, reset: 10 * time.Hour},
	},
	"an empty bucket of another rate counts nothing": {
		{at: 0, limit: "3600/h;burst=10", cost: 10, remaining: 0, refill: sec, reset: 10 * sec},
		{at: 10 * second, limit: "1/h;burst=10", cost: 10, remaining: 0, refill: time.Hour, reset: 10 * time.Hour},
	},
	"bursts of one rate share a bucket": {
		{at: 0, limit: "60/m;burst=5", cost: 5, remaining: 0, refill: sec, reset: 5 * sec},
		{at: 2 * second, limit: "60/m;burst=9", cost: 1, remaining: 5, refill: sec, reset: 4 * sec},
	},
	"a ninth bucket replaces the one that is empty first": { // after 24 hours, but for the eighth: after 8
		{at: 0, limit: "1/d;burst=100", cost: 1, remaining: 99, refill: 24 * time.Hour, reset: 24 * time.Hour},
		{at: 0, limit: "2/d;burst=100", cost: 1, remaining: 98, refill: 12 * time.Hour, reset: 24 * time.Hour},
		{at: 0, limit: "3/d;burst=100", cost: 1, remaining: 97, refill: 8 * time.Hour, reset: 24 * time.Hour},
		{at: 0, limit: "4/d;burst=100", cost: 1, remaining: 96, refill: 6 * time.Hour, reset: 24 * time.Hour},
		{at: 0, limit: "5/d;burst=100", cost: 1, remaining: 95, refill: 17280 * sec, reset: 24 * time.Hour},
		{at: 0, limit: "6/d;burst=100", cost: 1, remaining: 94, refill: 4 * time.Hour, reset: 24 * time.Hour},
		{at: 0, limit: "8/d;burst=100", cost: 1, remaining: 93, refill: 3 * time.Hour, reset: 24 * time.Hour},
		{at: 0, limit: "24/d;burst=100", cost: 1, remaining: 92, refill: time.Hour, reset: 24 * time.Hour},
		{at: 0, limit: "1440/d;burst=100", cost: 1, remaining: 91, refill: time.Minute, reset: 24 * time.Hour},
		{at: 9 * 60 * second, limit: "1440/d;burst=100", cost: 1, remaining: 92, refill: 57 * sec, reset: 24*time.Hour - 9*time.Minute}, // on top of 6.95
	},
	"a sub-bucket counts until one period after its end": {
		{at: 2 * second, limit: "3/m;sliding-window;buckets=6", cost: 2, remaining: 1, refill: 68 * sec, reset: 68 * sec},
		{at: 12 * second, limit: "3/m;sliding-window;buckets=6", cost: 1, remaining: 0, refill: 58 * sec, reset: 68 * sec},
		{at: 69 * second, limit: "3/m;sliding-window;buckets=6", cost: 3, remaining: 0, retry: 11 * sec, refill: sec, reset: 11 * sec},
		{at: 70 * second, limit: "3/m;sliding-window;buckets=6", cost: 2, remaining: 0, refill: 10 * sec, reset: 70 * sec},
	},
	"windows of two widths both count each charge, and the longer wait counts": {
		{at: 1 * second, limit: "3/m;sliding-window;buckets=2", cost: 1, remaining: 2, refill: 89 * sec, reset: 89 * sec},
		{at: 1 * second, limit: "3/m;sliding-window;buckets=60", cost: 1, remaining: 1, refill: 89 * sec, reset: 89 * sec},
		{at: 31 * second, limit: "3/m;sliding-window;buckets=60", cost: 1, remaining: 0, refill: 59 * sec, reset: 89 * sec},
		{at: 62 * second, limit: "3/m;sliding-window;buckets=60", cost: 1, remaining: 0, retry: 28 * sec, refill: 28 * sec, reset: 58 * sec},
		{at: 90 * second, limit: "3/m;sliding-window;buckets=60", cost: 2, remaining: 0, refill: 30 * sec, reset: 90 * sec},
	},
	"a new width dates a count to the sub-bucket that contains its end": {
		{at: 1 * second, limit: "3/m;sliding-window;buckets=60", cost: 2, remaining: 1, refill: 61 * sec, reset: 61 * sec},
		{at: 3 * second, limit: "3/m;sliding-window;buckets=3", cost: 1, remaining: 0, refill: 77 * sec, reset: 77 * sec},
		{at: 63 * second, limit: "3/m;sliding-window;buckets=60", cost: 1, remaining: 0, retry: 17 * sec, refill: 17 * sec, reset: 17 * sec},
	},
	"a width starts from the fullest of two": {
		{at: 0, limit: "9/m;sliding-window;buckets=60", cost: 2, remaining: 7, refill: 61 * sec, reset: 61 * sec},
		{at: 50 * second, limit: "9/m;sliding-window;buckets=3", cost: 1, remaining: 6, refill: 30 * sec, reset: 70 * sec}, // 2 until 80 s, 1 until 120 s
		{at: 70 * second, limit: "9/m;sliding-window;buckets=6", cost: 1, remaining: 5, refill: 20 * sec, reset: 70 * sec}, // 2 of 20 s, dated to 30 s
		{at: 85 * second, limit: "9/m;sliding-window;buckets=6", cost: 5, remaining: 0, refill: 5 * sec, reset: 75 * sec},
	},
	"a log counts a request for exactly one period": {
		{at: 0, limit: "2/s;sliding-log", cost: 1, remaining: 1, refill: sec, reset: sec},
		{at: 1, limit: "2/s;sliding-log", cost: 1, remaining: 0, refill: sec - µs, reset: sec},
		{at: second - 1, limit: "2/s;sliding-log", cost: 2, remaining: 0, retry: 2 * µs, refill: µs, reset: 2 * µs},
		{at: second, limit: "2/s;sliding-log", cost: 1, remaining: 0, refill: µs, reset: sec},
	},
}

func TestTimelines(t *testing.T) {
	for name, steps := range timelines {
		t.Run(name, func(t *testing.T) {
			var m oracle.Model
			for _, s := range steps {
				s.check(t, &m)
			}
		})
	}
}
