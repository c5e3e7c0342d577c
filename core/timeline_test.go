package core_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
	"pgregory.net/rapid"
)

// A timeline is a random sequence of calls to a store. It prints as one call per line.
type timeline []call

// A call is made after a wait. What it settles, refunds or renews is the take of an earlier line.
type call struct {
	wait   wait
	verb   string // take, settle, refund, renew, ban, reset or grant
	claims []core.Claim
	pair   core.Pair     // of a ban or a reset
	ban    time.Duration // of the pair
	line   int
	finals []int // the final costs of that line's claims; the last one also counts for all further claims
	grant  int   // requests for the claim
}

// A wait is some time, or what a result of the last take said.
type wait struct {
	plain  time.Duration
	said   string // retry, refill or reset; empty: plain
	result int
	off    time.Duration // added to what was said
}

func (w wait) length(last []core.Result) time.Duration {
	if w.said == "" || len(last) == 0 {
		return w.plain
	}
	r := last[w.result%len(last)]
	said := map[string]time.Duration{"retry": r.RetryAfter, "refill": r.RefillAfter, "reset": r.ResetAfter}[w.said]
	return max(0, said+w.off)
}

func (w wait) String() string {
	if w.said == "" {
		return w.plain.String()
	}
	return fmt.Sprintf("%s of result %d %+d or %v", w.said, w.result, w.off, w.plain)
}

func (tl timeline) String() string {
	var b strings.Builder
	for i, c := range tl {
		fmt.Fprintf(&b, "%3d: +%v %s", i, c.wait, c.verb)
		switch {
		case c.pair.Key != "":
			fmt.Fprintf(&b, " %v for %v", c.pair, c.ban)
		case len(c.claims) == 0:
			fmt.Fprintf(&b, " of line %d at %v", c.line, c.finals)
		}
		for _, claim := range c.claims {
			fmt.Fprintf(&b, " %s", describe(claim))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func describe(c core.Claim) string {
	flags := ""
	if c.Peek {
		flags += " peek"
	}
	if c.DryRun {
		flags += " dry"
	}
	if c.Hold {
		flags += " hold"
	}
	if c.MaxWait > 0 {
		flags += " wait " + c.MaxWait.String()
	}
	return fmt.Sprintf("{%s/%s %v cost %d%s}", c.Rule, c.Key, c.Limits, c.Cost, flags)
}

// A cast is what the claims of a timeline choose from.
type cast struct {
	rules, keys []string
	families    [][]core.Limit
}

// timelines draws a timeline of takes, refunds and resets.
var timelines = rapid.Custom(func(t *rapid.T) timeline {
	c := cast{rules: []string{"a", "", "b"}, keys: []string{"x", "y"}}
	if rapid.Bool().Draw(t, "one key") {
		c = cast{rules: []string{"a"}, keys: []string{"x"}}
	}
	c.families = rapid.SliceOfN(family(3), 1, 3).Draw(t, "limits")
	calls := make(timeline, rapid.IntRange(1, 25).Draw(t, "calls"))
	for i := range calls {
		calls[i] = c.call(t, i)
	}
	return calls
})

func (c cast) call(t *rapid.T, line int) call {
	call := call{verb: pick(t, []string{"take", "take", "take", "take", "take", "take", "take", "refund", "settle", "settle", "renew", "reset", "ban", "grant"})}
	call.wait = waits(max(c.families[0][0].Period, time.Minute, lengths[c.families[0][0].Calendar.Unit])).Draw(t, "wait")
	switch {
	case call.verb == "ban":
		call.pair, call.ban = c.pair(t), waits(time.Minute).Draw(t, "ban").plain+time.Microsecond
	case call.verb == "grant":
		call.claims = []core.Claim{c.claim(t)}
		call.grant = rapid.SampledFrom([]int{1, 1, 3, 50, -1, -2, 1_000_000_000, -1_000_000_000}).Draw(t, "grant")
	case call.verb == "reset":
		call.pair = c.pair(t)
	case call.verb != "take" && line > 0:
		call.line, call.finals = rapid.IntRange(max(0, line-5), line-1).Draw(t, "line"), []int{0}
		if call.verb == "settle" {
			call.finals = rapid.SliceOfN(costs(c.families[0][0].Capacity()), 1, 2).Draw(t, "finals")
		}
	default:
		call.verb = "take"
		call.claims = rapid.SliceOfN(rapid.Custom(c.claim), 1, 3).Draw(t, "claims")
	}
	return call
}

func (c cast) pair(t *rapid.T) core.Pair {
	return core.Pair{Rule: pick(t, c.rules), Key: pick(t, c.keys)}
}

func (c cast) claim(t *rapid.T) core.Claim {
	claim := core.Claim{
		Rule:   pick(t, c.rules),
		Key:    pick(t, c.keys),
		Peek:   rapid.IntRange(0, 7).Draw(t, "peek") == 7,
		DryRun: rapid.IntRange(0, 5).Draw(t, "dry") == 5,
		Hold:   rapid.IntRange(0, 2).Draw(t, "hold") == 2,
	}
	for i, f := range c.families {
		if i == 0 || rapid.Bool().Draw(t, "also") {
			if l := pick(t, f); !contains(claim.Limits, l) {
				claim.Limits = append(claim.Limits, l)
			}
		}
	}
	claim.Cost = costs(claim.Limits[0].Capacity()).Draw(t, "cost")
	if !claim.Hold && !slices.ContainsFunc(claim.Limits, func(l core.Limit) bool { return l.Algorithm != core.TokenBucket || l.Calendar.Unit != 0 || l.Ban > 0 }) &&
		rapid.IntRange(0, 2).Draw(t, "wait") > 0 {
		claim.MaxWait = min(waits(2*claim.Limits[0].Period).Draw(t, "most").plain, time.Hour)
	}
	return claim
}

func pick[T any](t *rapid.T, from []T) T { return rapid.SampledFrom(from).Draw(t, "pick") }

// contains reports whether a limit of the same algorithm and period is among limits.
func contains(limits []core.Limit, l core.Limit) bool {
	for _, other := range limits {
		if other.Algorithm == l.Algorithm && other.Period == l.Period && other.Calendar == l.Calendar {
			return true
		}
	}
	return false
}

// family draws limits that share algorithm and period: the tiers of a rule.
func family(tiers int) *rapid.Generator[[]core.Limit] {
	return rapid.Custom(func(t *rapid.T) []core.Limit {
		l := core.Limit{
			Algorithm: core.Algorithm(max(0, rapid.IntRange(-1, int(core.InFlight)).Draw(t, "algorithm"))),
			Period:    periods.Draw(t, "period"),
		}
		if l.Algorithm == core.InFlight {
			l.Period = 0
		}
		if l.Algorithm == core.FixedWindow && rapid.Bool().Draw(t, "on calendar") {
			l = calendars.Draw(t, "calendar")
		}
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) core.Limit { return tier(t, l) }), 1, tiers).Draw(t, "tiers")
	})
}

var periods = rapid.OneOf(
	rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}),
	rapid.SampledFrom([]time.Duration{100 * 24 * time.Hour, 87600 * time.Hour, 87600*time.Hour - time.Microsecond}),
	rapid.Custom(func(t *rapid.T) time.Duration {
		longest := rapid.SampledFrom([]int64{5e3, 3e6, 1e8, 1e11, 87600 * 3600 * 1e6}).Draw(t, "up to")
		return time.Duration(rapid.Int64Range(1000, longest).Draw(t, "µs")) * time.Microsecond
	}),
)

// calendars draws limits with windows of calendars.
var calendars = rapid.Custom(func(t *rapid.T) core.Limit {
	zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu"}).Draw(t, "zone")
	switch rapid.SampledFrom([]string{"day", "day", "week", "month", "year"}).Draw(t, "unit") {
	case "day":
		return core.PerDay(1).In(zone)
	case "week":
		return core.PerWeek(1).In(zone).From(rapid.IntRange(1, 7).Draw(t, "from"))
	case "month":
		return core.PerMonth(1).In(zone).From(rapid.SampledFrom([]int{1, 15, 29, 30, 31}).Draw(t, "from"))
	}
	return core.PerYear(1).In(zone)
})

func tier(t *rapid.T, l core.Limit) core.Limit {
	largest := rapid.SampledFrom([]int{5, 100, 10_000, 1_000_000}).Draw(t, "up to")
	l.Rate = rapid.OneOf(rapid.IntRange(0, largest), rapid.IntRange(largest/2, largest)).Draw(t, "rate")
	if l.Calendar.Unit != 0 {
		return l
	}
	switch l.Algorithm {
	case core.TokenBucket:
		l.Burst = rapid.SampledFrom([]int{0, rapid.IntRange(0, largest).Draw(t, "burst")}).Draw(t, "or none")
		if rapid.IntRange(0, 3).Draw(t, "ban") == 3 {
			l.Ban = waits(l.Period).Draw(t, "ban for").plain
			if l.Validate() != nil {
				l.Ban = 0
			}
		}
	case core.SlidingWindow:
		l.Buckets = rapid.SampledFrom([]int{0, 2, 3, 7, 60, 3600}).Draw(t, "buckets")
	case core.SlidingLog:
		l.Rate = min(l.Rate, 10_000)
	case core.InFlight:
		l.Rate = min(l.Rate, 10)
	}
	return l
}

func costs(capacity int) *rapid.Generator[int] {
	return rapid.OneOf(
		rapid.IntRange(0, 3),
		rapid.IntRange(0, capacity+1),
		rapid.SampledFrom([]int{max(1, capacity/2), capacity, capacity + 1, 1 << 62}),
	)
}

func waits(period time.Duration) *rapid.Generator[wait] {
	return rapid.Custom(func(t *rapid.T) wait {
		micros := rapid.OneOf(
			rapid.Just(int64(0)),
			rapid.Int64Range(0, 3000),
			rapid.Int64Range(0, period.Microseconds()*5/4),
		).Draw(t, "µs")
		w := wait{plain: time.Duration(micros) * time.Microsecond}
		w.said = rapid.SampledFrom([]string{"", "", "retry", "refill", "reset"}).Draw(t, "said")
		if w.said != "" {
			w.result = rapid.IntRange(0, 3).Draw(t, "result")
			w.off = rapid.SampledFrom([]time.Duration{0, 0, -time.Microsecond}).Draw(t, "off")
		}
		return w
	})
}

// lengths are about how long windows of calendars are.
var lengths = map[core.CalendarUnit]time.Duration{
	core.CalendarDay: 24 * time.Hour, core.CalendarWeek: 7 * 24 * time.Hour, core.CalendarMonth: 30 * 24 * time.Hour, core.CalendarYear: 365 * 24 * time.Hour,
}
