package oracle_test

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
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
	at        int64
	limit     string
	cost      int
	remaining int
	retry     time.Duration
	refill    time.Duration
	reset     time.Duration
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
	if got != want {
		t.Errorf("at %d, cost %d of %s:\n got %+v\nwant %+v", s.at, s.cost, s.limit, got, want)
	}
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
	"the burst is the capacity: a cost above it never fits": {
		{at: 0, limit: "1/s;burst=3", cost: 4, remaining: 3, retry: core.Never},
		{at: 0, limit: "1/s;burst=3", cost: 3, remaining: 0, refill: sec, reset: 3 * sec},
	},
	"10 of 10 used, upgraded to 100, leaves 90": {
		{at: 0, limit: "10/m", cost: 10, remaining: 0, refill: 6 * sec, reset: 60 * sec},
		{at: 0, limit: "100/m", cost: 1, remaining: 89, refill: 600 * msec, reset: 6600 * msec},
		{at: 0, limit: "10/m", cost: 1, remaining: 0, retry: 12 * sec, refill: 12 * sec, reset: 66 * sec},
	},
	"between two requests a bucket drains at the slower of their rates": {
		{at: 0, limit: "1/h;burst=10", cost: 10, remaining: 0, refill: time.Hour, reset: 10 * time.Hour},
		{at: 0, limit: "3600/h;burst=20", cost: 1, remaining: 9, refill: sec, reset: 11 * sec},
		{at: 5 * second, limit: "3600/h;burst=20", cost: 1, remaining: 13, refill: sec, reset: 7 * sec},
		{at: 5 * second, limit: "1/h;burst=10", cost: 5, remaining: 3, retry: 2 * time.Hour, refill: time.Hour, reset: 7 * time.Hour},
		{at: 6 * second, limit: "3600/h;burst=20", cost: 13, remaining: 0, refill: 999723 * µs, reset: 19999723 * µs},
	},
	"a bucket is not forgotten before it is empty at the slowest rate": {
		{at: 0, limit: "1/h;burst=10", cost: 10, remaining: 0, refill: time.Hour, reset: 10 * time.Hour},
		{at: 0, limit: "3600/h;burst=20", cost: 1, remaining: 9, refill: sec, reset: 11 * sec},
		{at: 0, limit: "3600/h;burst=20", cost: 1, remaining: 8, refill: sec, reset: 12 * sec},
		{at: 3600 * second, limit: "1/h;burst=10", cost: 1, remaining: 0, retry: 2 * time.Hour, refill: 2 * time.Hour, reset: 11 * time.Hour},
	},
	"a bucket is forgotten once it is empty at the slowest rate that it was asked at": {
		{at: 0, limit: "3600/h;burst=10", cost: 10, remaining: 0, refill: sec, reset: 10 * sec},
		{at: 10*second - 1, limit: "1/h;burst=10", cost: 1, remaining: 0, retry: 3590*sec + µs, refill: 3590*sec + µs, reset: 35990*sec + µs},
	},
	"a bucket that was empty at the slowest rate counts nothing for a still slower one": {
		{at: 0, limit: "3600/h;burst=10", cost: 10, remaining: 0, refill: sec, reset: 10 * sec},
		{at: 10 * second, limit: "1/h;burst=10", cost: 10, remaining: 0, refill: time.Hour, reset: 10 * time.Hour},
	},
	"a rate of 0 denies everything, and nothing is missing": {
		{at: 0, limit: "0/m", cost: 1, remaining: 0, retry: core.Never},
		{at: 0, limit: "0/m;burst=5", cost: 1, remaining: 0, retry: core.Never},
	},
	"a fixed window starts over with the minute": {
		{at: 50 * second, limit: "2/m;fixed-window", cost: 2, remaining: 0, refill: 10 * sec, reset: 10 * sec},
		{at: 59 * second, limit: "2/m;fixed-window", cost: 1, remaining: 0, retry: sec, refill: sec, reset: sec},
		{at: 60 * second, limit: "2/m;fixed-window", cost: 1, remaining: 1, refill: 60 * sec, reset: 60 * sec},
	},
	"a sub-bucket counts until one period after its end": {
		{at: 2 * second, limit: "3/m;sliding-window;buckets=6", cost: 2, remaining: 1, refill: 68 * sec, reset: 68 * sec},
		{at: 12 * second, limit: "3/m;sliding-window;buckets=6", cost: 1, remaining: 0, refill: 58 * sec, reset: 68 * sec},
		{at: 69 * second, limit: "3/m;sliding-window;buckets=6", cost: 3, remaining: 0, retry: 11 * sec, refill: sec, reset: 11 * sec},
		{at: 70 * second, limit: "3/m;sliding-window;buckets=6", cost: 2, remaining: 0, refill: 10 * sec, reset: 70 * sec},
	},
	"the charges of a wider sub-bucket count as if made now": {
		{at: 1 * second, limit: "3/m;sliding-window;buckets=2", cost: 1, remaining: 2, refill: 89 * sec, reset: 89 * sec},
		{at: 1 * second, limit: "3/m;sliding-window;buckets=60", cost: 1, remaining: 1, refill: 61 * sec, reset: 61 * sec},
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
