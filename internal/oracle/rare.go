package oracle

import (
	"time"

	"github.com/spillgate/spillgate/core"
)

// A Turn is a step of a timeline: it takes, or gives back what the turn at Line, counted from 0, took.
type Turn struct {
	After  time.Duration // since the turn before
	Claims []core.Claim
	Refund bool
	Line   int
}

// Rare holds timelines of one key that random timelines seldom contain. The tests of each store run them against a Model.
var Rare = map[string][]Turn{
	"a refund gives back one request if the bucket never held less since": {
		take("10/m", 2), after(6*time.Second, take("10/m", 1)), after(6*time.Second, refund(0)), take("10/m", 8),
	},
	"a bucket remembers for 71 minutes since when it has held one request": {
		take("24/d", 10), after(20*time.Minute, take("24/d", 1)), after(time.Hour, take("24/d", 1)), refund(1), take("24/d", 1),
	},
	"after 71 minutes a bucket forgets since when it has held one request": {
		take("24/d", 9), take("24/d", 1), after(2*time.Hour, take("24/d", 1)), refund(1), take("24/d", 1),
	},
	"a bucket is empty within a tick": {
		take("1000000/d", 10), after(863*time.Microsecond, take("1000000/d", 1)), after(10*time.Millisecond, take("1000000/d", 1)),
		after(864*time.Microsecond, take("1000000/d", 1)), take("1000000/d", 1_000_000),
	},
	"a faster rate drains the rest of a slower rate within the current tick": {
		take("641548/3650d", 2), take("4/3650d;burst=677734", 1),
		after(236_520_000*time.Second-time.Microsecond, together(take("641548/3650d", 3), take("4/3650d;burst=677734", 677_734))),
	},
	"a bucket may be empty after part of a tick, not only at its end": {
		take("1000000/d", 1), after(86_400*time.Microsecond, peek("1000000/d", 1_000_000)),
	},
	"a bucket has drained within a tick to what a cost needs": {
		take("1000000/d", 10), after(432_500*time.Microsecond, peek("1000000/d", 999_995)),
	},
	"ticks need not divide a period": {
		take("1000000/86400000001us", 5), peek("7/86400000001us", 1), take("7/86400000001us", 1), peek("1000000/86400000001us", 1),
	},
	"a wait beyond the largest whole number is cut to it": {
		take("1/3650d;burst=30000", 29), after(138_240_745*time.Second, peek("1/3650d;burst=30000", 30_000)),
		after(time.Second, peek("1/3650d;burst=30000", 30_000)),
	},
	"a full bucket may hold the largest whole number": {
		take("1/8589934592us;burst=1048576", 1_048_576), take("1/8589934592us;burst=1048576", 1),
		after(2*time.Microsecond, take("1/8589934592us;burst=1048576", 1)), after(time.Second, take("1/8589934592us;burst=1048576", 1)),
		peek("1/8589934592us;burst=1048576", 1),
	},
	"one of two full buckets may hold the largest whole number": {
		take("1/8589934592us;burst=1048576, 2000000/h", 1_048_576), take("1/8589934592us;burst=1048576, 2000000/h", 1),
	},
	"usage carried over from another tier is cut at the largest whole number": {
		take("10/d;burst=1000000", 1_000_000), take("1/d", 1), peek("1/d", 1),
	},
	"a peek changes nothing, even beside a take": {
		take("5/m", 3), together(peek("5/m", 1), take("5/h", 1)), peek("5/m", 1),
	},
	"a limit that ends soon stays until then, even if other limits are charged": {
		take("1/1500us", 1), after(1200*time.Microsecond, take("5/h", 1)), after(100*time.Microsecond, peek("1/1500us", 1)),
	},
	"a tier may have the same number of limits, but different ones": {
		take("10/s, 100/m", 3), take("10/s, 100/h", 5), take("20/s, 90/m", 1), peek("10/s, 100/m, 100/h", 1),
	},
	"a refund rounds up the ticks that may have drained": {
		take("1000000/d", 1000), after(100*time.Microsecond, take("1000000/d", 1000)), refund(0), take("1000000/d", 1),
	},
	"a refund gives back the last unit that cannot have drained": {
		take("3/1ms;burst=4", 1), after(time.Microsecond, take("3/1ms;burst=4", 3)), after(332*time.Microsecond, refund(0)),
		peek("3/1ms;burst=4", 1),
	},
	"a refund that gives back nothing does not spoil others": {
		take("10/m", 1), after(7*time.Second, take("10/m", 2)), after(time.Second, take("10/m", 1)), refund(0),
		after(6*time.Second, refund(1)), peek("10/m", 1),
	},
	"a refund gives back all of one stamp, whatever divisions it was charged in": {
		take("9/s;sliding-window;buckets=3", 1), take("9/s;sliding-window;buckets=2", 1), take("9/s;sliding-window", 3), refund(2),
		take("9/s;sliding-window", 1),
	},
	"a refund gives back all of one stamp, whatever was charged between": {
		take("9/s;sliding-window", 3), take("9/s;sliding-window;buckets=2", 1), take("9/s;sliding-window", 1), refund(0),
		peek("9/s;sliding-window", 1),
	},
	"a dry run counts two charges of a pair at one instant together": {
		together(take("9/s;sliding-log", 1), take("9/s;sliding-log", 8), dry("9/s;sliding-log", 9)),
	},
}

func take(limit string, cost int) Turn {
	return Turn{Claims: []core.Claim{{Rule: "a", Key: "x", Limits: core.MustParseLimits(limit), Cost: cost}}}
}

func peek(limit string, cost int) Turn {
	t := take(limit, cost)
	t.Claims[0].Peek = true
	return t
}

func dry(limit string, cost int) Turn {
	t := take(limit, cost)
	t.Claims[0].DryRun = true
	return t
}

// together returns the claims of all turns as one turn.
func together(turns ...Turn) (one Turn) {
	for _, t := range turns {
		one.Claims = append(one.Claims, t.Claims...)
	}
	return one
}

func refund(line int) Turn { return Turn{Refund: true, Line: line} }

func after(d time.Duration, t Turn) Turn {
	t.After = d
	return t
}
