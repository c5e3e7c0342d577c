package oracle

import (
	"maps"
	"slices"
	"time"

	"github.com/spillgate/spillgate/core"
)

// rare holds timelines of one key that random timelines seldom contain.
var rare = map[string][]Step{
	"a refund gives back one request if the bucket never held less since": {
		take("10/m", 2), after(6*time.Second, take("10/m", 1)), after(6*time.Second, refund(0)), take("10/m", 8),
	},
	"a bucket remembers for 71 minutes since when it has held one request": {
		take("24/d", 10), after(20*time.Minute, take("24/d", 1)), after(time.Hour, take("24/d", 1)), refund(1), take("24/d", 1),
	},
	"after 71 minutes a bucket forgets since when it has held one request": {
		take("24/d", 9), take("24/d", 1), after(2*time.Hour, take("24/d", 1)), refund(1), take("24/d", 1),
	},
	"after 71 minutes a bucket forgets it, even if requests were only taken away since": {
		take("24/d", 9), take("24/d", 1), after(2*time.Hour, grants("24/d", -1)), refund(1), take("24/d", 1),
	},
	"after the clock went back a little, a refund knows what was charged since": {
		take("10/m", 1), after(100*time.Second, take("10/m", 1)), after(-5*time.Second, take("10/m", 1)), refund(0), peek("10/m", 1),
	},
	"after the clock went back by a day, a ban lasts no longer than it was for": {
		bans(2 * time.Minute), bans(time.Minute), after(-24*time.Hour, peek("5/m", 1)), after(2*time.Minute-time.Microsecond, peek("5/m", 1)),
		after(time.Microsecond, take("5/m", 5)), after(time.Hour, take("5/m", 1)),
	},
	"after the clock went back by a day, grants of a fixed window end with the current one": {
		grants("5/m;fixed-window", 7), after(time.Minute, grants("5/m;fixed-window", -2)), after(-24*time.Hour, peek("5/m;fixed-window", 3)),
		after(time.Minute, take("5/m;fixed-window", 5)), peek("5/m;fixed-window", 1),
	},
	"after the clock went back by a day, grants of a calendar's day end with the current one": {
		grants("5/d;calendar", -5), after(-72*time.Hour, peek("5/d;calendar", 1)), after(24*time.Hour, take("5/d;calendar", 5)),
	},
	"after the clock went back over the start of a window, its grants stay": {
		grants("5/m;fixed-window", 7), grants("5/d;calendar", 7), after(-time.Minute, peek("5/m;fixed-window", 12)), peek("5/d;calendar", 12),
		after(time.Minute, peek("5/m;fixed-window", 12)), peek("5/d;calendar", 12),
	},
	"after the clock went back, what a sliding log counts no more stays uncounted": {
		take("9/m;sliding-log", 1), after(time.Second, take("9/m;sliding-log", 1)), after(59*time.Second, take("9/m;sliding-log", 1)),
		after(time.Second, take("9/m;sliding-log", 1)), after(-10*time.Second, take("9/m;sliding-log", 1)),
	},
	"a hold ends during the ban of a sibling that has ended since": {
		hold("3/m;ban=2m", 2), after(62102*time.Millisecond, take("3/m;ban=2m", 1)), after(time.Minute, hold("1/m;ban=2m", 1)),
		after(122300*time.Millisecond, peek("3/m;ban=2m", 1)),
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
	"a peek changes nothing, even beside a take": {take("5/m", 3), together(peek("5/m", 1), take("5/h", 1)), peek("5/m", 1)},
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
	"the clock goes back, and a turn with it, but no turn is given twice": {
		mayWait("5/s;burst=1", 1), mayWait("5/s;burst=1", 1), mayWait("5/s;burst=1", 1), mayWait("5/s;burst=1", 1),
		after(-time.Second, refund(1)), mayWait("5/s;burst=1", 1), refund(5), mayWait("5/s;burst=1", 1),
	},
	"a grant ends before a ban does": {
		grants("5/m;sliding-log", 5), after(30*time.Second, take("5/m;sliding-log", 8)), bans(40 * time.Second), take("5/m;sliding-log", 1),
		take("5/m;sliding-log", 6), together(take("5/m;sliding-log", 1), take("5/m;fixed-window", 1), hold("1 at once", 1)),
	},
	"a settlement has no turn, though a request before it waited": {
		take("5/s", 1), bans(time.Millisecond), mayWait("5/s", 1), bans(time.Minute), settle(0, 11), peek("5/s", 1),
	},
	"the clock goes back, and a bucket is at most full": {
		take("3/1ms;burst=4", 2), after(-666*time.Microsecond, take("3/1ms;burst=4", 2)), after(-time.Millisecond, take("3/1ms;burst=4", 1)),
	},
	"the clock goes back, and an empty bucket stays empty": {
		take("5/m", 1), take("9/h;fixed-window", 1), after(time.Second, refund(0)), after(-2*time.Second, peek("5/m", 5)),
	},
	"the clock goes back, and so does a pair that nothing is left of": {take("5/m", 1), refund(0), after(-2*time.Second, peek("5/m", 5))},
	"sub-buckets of the future move to now": {
		take("9/m;sliding-window", 1), after(18*time.Second, take("9/m;sliding-window", 1)), after(39*time.Second, take("9/m;sliding-window", 1)),
		after(-37*time.Second, peek("9/m;sliding-window", 9)), after(11*time.Second, take("9/m;sliding-window", 2)), after(60*time.Second, take("9/m;sliding-window", 9)),
	},
	"requests that wait for a slower rate go one after the other": {
		take("1/s;burst=3", 3), mayWait("10/s;burst=3", 1), mayWait("10/s;burst=3", 1), mayWait("10/s;burst=3", 2), refund(3), mayWait("10/s;burst=3", 1),
	},
	"a hold is charged to what its claim names, in the order of the ends": {
		hold("9/10m;ban=1h", 4), take("9/10m;fixed-window", 1), after(7*time.Second, hold("20/10m", 5)), hold("9/10m;sliding-window", 2),
		after(66*time.Second, peek("9/10m;fixed-window", 1)), peek("20/10m", 1), peek("9/10m;ban=1h", 1), peek("9/10m;sliding-window", 1),
	},
	"a ban that another rate does not see": {
		take("5/10m;ban=1h", 5), take("100/10m", 1), after(9*time.Minute, peek("100/10m", 100)), take("5/10m;ban=1h", 1), grants("100/10m", 50),
		after(51*time.Minute, take("5/10m;ban=1h", 1)), peek("100/10m", 1), refund(6), peek("100/10m", 100),
	},
	"another rate does not see the ban of a bucket that was there before": {
		take("5/10m;ban=1h", 4), take("5/10m;ban=1h", 1), peek("100/10m", 100), after(9*time.Minute, peek("100/10m", 100)),
	},
	"a hold ends after a reset": {
		take("9/d, 9/d;fixed-window, 9/d;sliding-window, 9/d;sliding-log", 3), hold("9/d, 9/d;fixed-window, 9/d;sliding-window, 9/d;sliding-log", 2), reset(),
		after(70*time.Second, take("50/2h", 1)), peek("9/d, 9/d;fixed-window, 9/d;sliding-window, 9/d;sliding-log", 1),
	},
	"a hold of a calendar's day ends on the next": {
		hold("9/day;calendar, 9/month;tz=Europe/Berlin;from=31", 2), take("9/day;calendar", 3), after(86_340*time.Second, hold("9/day;calendar", 2)),
		after(time.Minute, take("50/2h", 1)), after(time.Minute, peek("9/day;calendar, 9/month;tz=Europe/Berlin;from=31", 1)),
	},
	"a period that ticks of a millisecond do not divide": ticks(core.Every(999_983, 24*time.Hour+time.Microsecond).WithBurst(1_000_000)),
	"a period that ticks of a second do not divide":      ticks(core.Every(999_983, 3650*24*time.Hour-999*time.Microsecond).WithBurst(1_000_000)),
	"a small burst of a period that ticks do not divide": ticks(core.Every(999_983, 3650*24*time.Hour-999*time.Microsecond).WithBurst(7)),
	"a refund of more than the rate, by grants": {
		grants("10/m;sliding-log", 8), take("10/m;sliding-log", 12), refund(1), take("10/m;sliding-log", 18), refund(3), peek("10/m;sliding-log", 18),
	},
	"a hold that ends finds a bucket drained until then, and for part of a tick": {
		after(500*time.Millisecond, take("999983/3650d", 1)), hold("999983/3650d", 1), take("999983/3650d", 2),
		after(66_500*time.Millisecond, peek("999983/3650d", 1)),
	},
	"a hold ends 66s after the start of its sub-bucket": {
		hold("1 at once", 1), after(66*time.Second-time.Microsecond, hold("1 at once", 1)), after(time.Microsecond, hold("1 at once", 1)),
	},
	"a hold ends a microsecond after a reset": {
		hold("5/h;fixed-window", 3), after(66*time.Second-2*time.Microsecond, reset()), after(time.Microsecond, peek("5/h;fixed-window", 1)),
	},
	"a second reset remembers the first": {
		take("9/h;fixed-window", 3), reset(), reset(), take("9/h;fixed-window", 2), refund(0), peek("9/h;fixed-window", 7),
	},
	"a dry run beside charges of siblings, of which the first replaces an idle one": {
		take("3/m;burst=9", 1), after(time.Hour, together(take("8/m", 3), dry("50/m;burst=1", 1), take("3/m;burst=9", 1))),
	},
	"holds that end together are charged in the order in which they began": {
		hold("20/m", 5), hold("10/m", 3), hold("20/m", 1), after(70*time.Second, peek("20/m", 1)),
	},
	"holds of two pairs with equal limits end in one call": {
		together(hold("9/h;fixed-window", 5), withKey("y", hold("9/h;fixed-window", 1))),
		after(72*time.Second, together(peek("9/h;fixed-window", 1), withKey("y", peek("9/h;fixed-window", 1)))), peek("9/h;fixed-window", 1),
	},
	"holds fill an empty bucket of coarse ticks": {
		hold("30/3650d", 30), hold("30/3650d", 30), hold("100000/30d", 100_000), hold("100000/30d", 1), hold("1000/365d", 1000), hold("1000/365d", 1),
	},
	"a settlement that changes nothing ends no hold": {
		take("9/m;fixed-window", 1), hold("7/m", 1), after(6*time.Second, hold("7/m", 1)), after(69*time.Second, settle(0, 1)),
		after(time.Second, take("5/m", 1)),
	},
	"a refund of the first request while one is left": {
		take("5/s", 1), take("5/s", 1), take("5/s", 1), after(400*time.Millisecond, take("5/s", 1)), refund(0), peek("5/s", 1),
	},
	"a refund gives back all if the requests since were denied": {
		take("1/d;burst=5", 1), after(time.Millisecond, take("1/d;burst=5", 1)),
		after(24*time.Hour, together(take("10007/d", 1), take("0/2d", 1))), refund(1), take("10007/d", 1),
	},
	"two refunds of one instant do not add up": {
		take("4/1ms", 1), take("4/1ms", 1), after(250*time.Microsecond, take("4/1ms", 1)), refund(0), take("4/1ms", 2), refund(1), take("4/1ms", 1),
	},
	"a large cost is not booked behind a ban": {
		bans(50 * time.Minute), mayWait("1000000/9000s", 700_000), mayWait("1000000/9000s", 600_000),
	},
	"a large cost is not booked behind another rate": {
		take("100/9000s", 100), mayWait("1000000/9000s", 999_901),
	},
	"a turn at the end of a ban counts for a request at another rate": {
		bans(2 * time.Second), mayWait("3/s;burst=6", 1), mayWait("20/s;burst=4", 2), mayWait("20/s;burst=4", 2),
	},
	"a turn at the end of a ban does not see the ban of another rate": {
		take("2/s;ban=1h", 2), bans(2 * time.Second), mayWait("20/s;burst=4", 2), mayWait("20/s;burst=4", 3),
	},
	"the clock goes back, and the turn of the first request is given back": {
		mayWait("5/s;burst=1", 1), mayWait("5/s;burst=1", 1), mayWait("5/s;burst=1", 1), after(-time.Second, refund(0)), mayWait("5/s;burst=1", 1),
	},
	"the clock goes back, and the turn of the last request is given back": {
		mayWait("5/s;burst=1", 1), mayWait("5/s;burst=1", 1), mayWait("5/s;burst=1", 1), after(-time.Second, refund(2)), mayWait("5/s;burst=1", 1),
	},
	"the clock goes back, and a refund follows the bucket": {take("5/m", 1), take("5/m", 1), after(-time.Hour, refund(1)), peek("5/m", 1)},
	"the clock goes back, and a turn is given back to the bucket": {
		mayWait("5/m", 1), mayWait("5/m", 1), after(-time.Hour, refund(1)), peek("5/m", 1),
	},
	"the clock goes back, and so does a bucket that a dry run is settled at": {
		dry("10/m", 5), after(-time.Minute, settle(0, 9)), after(30*time.Second, take("10/m", 5)),
	},
	"the clock goes back, and a rate of 0 leaves other rates' requests where they are": {
		take("9/m;sliding-log", 1), after(-time.Second, take("0/m;sliding-log", 1)), after(500*time.Millisecond, take("9/m;sliding-log", 1)),
	},
	"the clock goes back, and a rate of 0 still denies": {take("5/m", 5), after(-time.Second, take("0/m", 1))},
	"the clock goes back, and what a sliding window counts no more stays uncounted": {
		take("9/1001us;sliding-window;buckets=30", 1), {Until: "reset", After: -2 * time.Microsecond, Verb: "take", Claims: take("9/1001us;sliding-window;buckets=30", 1).Claims},
		after(2*time.Microsecond, take("9/1001us;sliding-window;buckets=5", 1)), after(-100*time.Microsecond, take("9/1001us;sliding-window;buckets=30", 1)),
	},
	"a calendar's day begins at its first microsecond": {
		take("5/d;calendar", 5), {Until: "reset", Verb: "take", Claims: take("5/d;calendar", 5).Claims},
	},
	"the clock goes back, and so do grants of limits that are not asked": {
		grants("9/m;sliding-window", -2), after(-time.Second, take("5/h", 1)), after(time.Second, take("9/m;sliding-window", 1)),
	},
	"the clock goes back by months, and a refund is of a later window": {
		take("5/month;calendar", 1), after(-180*24*time.Hour, take("5/month;calendar", 1)), refund(0), take("5/month;calendar", 1),
	},
	"a turn is given back when the last request behind it has its turn": {
		mayWait("10/s;burst=4", 4), mayWait("10/s;burst=4", 3), mayWait("10/s;burst=4", 1), after(400*time.Millisecond, refund(1)), peek("10/s;burst=4", 1),
	},
	"a bucket is given more when its ban has ended, and no sooner": {
		take("5/m;ban=2m", 5), grants("4/m", 1_000_000_000), peek("5/m;ban=2m", 1), after(2*time.Minute, grants("5/m;ban=2m", 2)), peek("5/m;ban=2m", 1),
	},
	"the clock goes back by a tick, and a turn with it": {
		mayWait("1000/ms;burst=4", 4), mayWait("1000/ms;burst=4", 1), mayWait("1000/ms;burst=4", 1), after(-time.Microsecond, refund(1)), peek("1000/ms;burst=4", 1),
	},
	"a turn is settled at less": {mayWait("10/s;burst=4", 4), mayWait("10/s;burst=4", 4), settle(1, 1), mayWait("10/s;burst=4", 1)},
	"a turn is settled at more": {mayWait("10/s;burst=4", 4), mayWait("10/s;burst=4", 4), settle(1, 5), mayWait("10/s;burst=4", 1)},
	"a turn is given back with a turn behind it, which takes no part of its place": {
		mayWait("10/s;burst=5", 5), mayWait("10/s;burst=5", 5), mayWait("10/s;burst=5", 1), refund(1), mayWait("10/s;burst=5", 1),
	},
	"a request that did not wait is refunded when those behind it have gone": {
		mayWait("10/s;burst=1", 1), mayWait("10/s;burst=1", 1), after(120*time.Millisecond, refund(0)), mayWait("10/s;burst=1", 1),
	},
	"a dry run that is held is settled above its cost only if that fits": {
		take("7/d;fixed-window", 4), dryHold("7/d;fixed-window", 2), settle(1, 9), peek("7/d;fixed-window", 1),
	},
	"of 61 grants, the first two are merged: both add requests":              grantOften(4, 3),
	"of 61 grants, the first two are merged: the first takes requests away":  grantOften(-4, 3),
	"of 61 grants, the first two are merged: the second takes requests away": grantOften(4, -3),
	"of 61 grants, the first two are merged: both take requests away":        grantOften(-4, -3),
	"a grant of a sliding limit lasts one period": {
		grants("5/m;sliding-log", 3), grants("5/m;sliding-window", 3), after(time.Minute-time.Microsecond, peek("5/m;sliding-log, 5/m;sliding-window", 1)),
		after(time.Microsecond, peek("5/m;sliding-log, 5/m;sliding-window", 1)),
	},
	"one request has more tiers of a pair than the pair keeps": {
		together(take("30/h", 1), take("31/h", 1), take("32/h", 1), take("33/h", 1), take("34/h", 1), take("35/h", 1), take("36/h", 1), take("37/h", 1), take("38/h", 1), take("39/h", 1)),
		together(take("30/h;sliding-window;buckets=2", 1), take("30/h;sliding-window;buckets=3", 1), take("30/h;sliding-window;buckets=4", 1),
			take("30/h;sliding-window;buckets=5", 1), take("30/h;sliding-window;buckets=6", 1), take("30/h;sliding-window;buckets=7", 1),
			take("30/h;sliding-window;buckets=8", 1), take("30/h;sliding-window;buckets=9", 1), take("30/h;sliding-window;buckets=11", 1)),
		peek("30/h, 30/h;sliding-window", 1),
	},
	"a state is kept in the microsecond in which it ends": {take("970679/3ms", 3), take("5/h", 1), take("5/d", 1), peek("970679/3ms", 1)},
	"a dry run counts two charges of a pair at one instant together": {
		together(take("9/s;sliding-log", 1), take("9/s;sliding-log", 8), dry("9/s;sliding-log", 9)),
	},
}

// CompareRare compares a store with the model on timelines that random ones seldom contain.
func CompareRare(t T, open func() Subject) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(rare)) {
		if _, failed := play(open(), numbered(rare[name])); failed {
			t.Fatalf("%s: %s", name, shrink(open, numbered(rare[name])))
		}
	}
}

func take(limit string, cost int) Step {
	return Step{Verb: "take", Claims: []core.Claim{{Rule: "a", Key: "x", Limits: core.MustParseLimits(limit), Cost: cost}}}
}

func peek(limit string, cost int) Step {
	s := take(limit, cost)
	s.Claims[0].Peek = true
	return s
}

func dry(limit string, cost int) Step {
	s := take(limit, cost)
	s.Claims[0].DryRun = true
	return s
}

func hold(limit string, cost int) Step {
	s := take(limit, cost)
	s.Claims[0].Hold = true
	return s
}

func dryHold(limit string, cost int) Step {
	s := hold(limit, cost)
	s.Claims[0].DryRun = true
	return s
}

func mayWait(limit string, cost int) Step {
	s := take(limit, cost)
	s.Claims[0].MaxWait = time.Hour
	return s
}

func withKey(key string, s Step) Step {
	s.Claims[0].Key = key
	return s
}

func grants(limit string, n int) Step {
	s := take(limit, 1)
	s.Verb, s.Grant = "grant", n
	return s
}

// grantOften returns 61 grants, a second apart, and peeks when the first two end.
func grantOften(first, second int) []Step {
	steps := []Step{grants("100/h;sliding-log", first), after(time.Second, grants("100/h;sliding-log", second))}
	for range 59 {
		steps = append(steps, after(time.Second, grants("100/h;sliding-log", 1)))
	}
	return append(steps, after(time.Hour-60*time.Second, peek("100/h;sliding-log", 1)), after(time.Second, peek("100/h;sliding-log", 1)))
}

func reset() Step { return Step{Verb: "reset", Pair: core.Pair{Rule: "a", Key: "x"}} }

// ticks returns steps that use up a limit again and again.
func ticks(l core.Limit) (steps []Step) {
	for _, wait := range []time.Duration{0, 0, time.Microsecond, l.Period / time.Duration(l.Rate), l.Period / 2, l.Period, l.Period/2 + time.Millisecond} {
		full, one := take(l.String(), l.Capacity()), take(l.String(), 1)
		steps = append(steps, after(wait.Truncate(time.Microsecond), full), one)
	}
	return steps
}

// together returns the claims of all steps as one step.
func together(steps ...Step) Step {
	one := Step{Verb: "take"}
	for _, s := range steps {
		one.Claims = append(one.Claims, s.Claims...)
	}
	return one
}

func refund(of int) Step { return Step{Verb: "settle", Of: of} }

func settle(of, final int) Step { return Step{Verb: "settle", Of: of, Finals: []int{final}} }

func bans(d time.Duration) Step {
	return Step{Verb: "ban", Pair: core.Pair{Rule: "a", Key: "x"}, Ban: d}
}

func after(d time.Duration, s Step) Step {
	s.After = d
	return s
}
