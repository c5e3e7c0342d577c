package mistakes

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/core"
)

const second = `rule "login": limit 2: `

var ofLimits = []mistake{
	{"no such algorithm", newLimit(core.PerMinute(5).Using(9)), second, "no algorithm 9",
		"want TokenBucket, FixedWindow, SlidingWindow, SlidingLog"},
	{"a negative rate", newLimit(core.PerMinute(-1)), second, "got -1", "rate must be between 0 and 1000000000"},
	{"too high a rate for a sliding log", newLimit(core.PerMinute(20_000).Using(core.SlidingLog)), second, "got 20000", "rate of a sliding-log must be at most 1000"},
	{"no period", newLimit(core.Limit{Rate: 5}), second, "got 0s", "period must be at least 1ms"},
	{"a period without a unit", newLimit(core.Every(5, 60)), second, "got 60ns", "period must be at least 1ms"},
	{"a period without end", newLimit(core.Every(5, math.MaxInt64)), second, "got 2562047h47m16.854775807s", "period must be at most 10 years"},
	{"nanoseconds", newLimit(core.Every(5, time.Minute+1)), second, "got 1m0.000000001s", "period must be whole microseconds"},
	{"a negative burst", newLimit(core.PerMinute(5).WithBurst(-5)), second, "got -5", "burst must be between 0 and 1000000000"},
	{"a burst of a fixed window", newLimit(core.PerMinute(5).WithBurst(5).Using(core.FixedWindow)), second, "fixed-window, which has none, got 5", "burst must be 0"},
	{"buckets of a token bucket", newLimit(core.Limit{Rate: 5, Period: time.Minute, Buckets: 6}), second, "token-bucket, which has none, got 6", "buckets must be 0"},
	{"too few buckets", newLimit(core.Limit{Rate: 5, Period: time.Minute, Buckets: 1, Algorithm: core.SlidingWindow}), second, "got 1", "buckets must be between 2 and 60"},
	{"a ban that is too short", newLimit(core.Limit{Rate: 5, Period: time.Minute, Ban: time.Second}), second, "got 1s", "ban must be longer than the 12s"},
	{"a ban of a sliding log", newLimit(core.Limit{Rate: 5, Period: time.Minute, Ban: time.Hour, Algorithm: core.SlidingLog}), second, "sliding-log, which has none", "ban must be 0"},
	{"a ban of a limit that admits nothing", newLimit(core.Limit{Period: time.Minute, Ban: time.Hour}), second, "a rate of 0, which admits nothing", "ban must be 0"},
	{"a ban of a century", newLimit(core.Limit{Rate: 5, Period: time.Minute, Ban: 876_000 * time.Hour}), second, "got 876000h0m0s", "up to 10 years"},
	{"two limits with one state", newLimit(core.PerSecond(5)), `rule "login": limits 1 and 2`, "both a token-bucket of 1s", "want another period or algorithm"},
	{"a period of requests in flight", newLimit(core.Limit{Rate: 5, Period: time.Minute, Algorithm: core.InFlight}), second, "has no period", "want AtOnce(5)"},
	{"a product that is too large", newLimit(core.Every(1_000_000_000, 87_600*time.Hour)), second, "capacity 1000000000 over period 87600h0m0s would overflow", "want one of them smaller"},
}
