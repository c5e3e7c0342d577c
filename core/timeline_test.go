package core_test

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/core"
	"pgregory.net/rapid"
)

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

func pick[T any](t *rapid.T, from []T) T { return rapid.SampledFrom(from).Draw(t, "pick") }

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
		l.Buckets = rapid.SampledFrom([]int{0, 2, 3, 7, 60}).Draw(t, "buckets")
	case core.SlidingLog:
		l.Rate = min(l.Rate, 1000)
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
