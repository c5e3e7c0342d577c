package mistakes

import (
	"math"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
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

func words(text string) func() error {
	return func() error {
		_, err := core.ParseLimits(text)
		return err
	}
}

var algorithms = strings.Join(algorithm.Names(algorithm.InFlight), ", ")

var ofWords = []mistake{
	{"no limit", words(""), `limit ""`, "want RATE/PERIOD", "100/m"},
	{"a rate alone", words("10/s, 100"), `limit "100"`, "want RATE/PERIOD", "100/m"},
	{"per", words("100 per minute"), `limit "100 per minute"`, "want RATE/PERIOD", "did you mean 100/minute?"},
	{"rps", words("100rps"), `limit "100rps"`, "want RATE/PERIOD", "did you mean 100/s?"},
	{"at once with a typing error", words("20 at onec"), `limit "20 at onec"`, "RATE at once", "did you mean 20 at once?"},
	{"at once with an option", words("20 at once;burst=3"), `limit "20 at once;burst=3"`, "burst=3", "has no options"},
	{"a rate in words", words("ten/m"), `limit "ten/m"`, `rate "ten"`, "whole number"},
	{"half a request", words("1.5/s"), `limit "1.5/s"`, `rate "1.5"`, "whole number"},
	{"a period with a typing error", words("100/minut"), `limit "100/minut"`, `period "minut"`, "did you mean minute?"},
	{"a period in upper case", words("100/M"), `limit "100/M"`, `period "M"`, "did you mean m?"},
	{"two months", words("100/2 months"), `limit "100/2 months"`, "months differ in length", "want month, or days, such as 90d"},
	{"a year", words("100/y"), `limit "100/y"`, `period "y"`, "did you mean year?"},
	{"a zone of an hour", words("100/h;tz=Europe/Berlin"), `limit "100/h;tz=Europe/Berlin"`, "got 1h", "only a day, a week, a month or a year"},
	{"no comma", words("10/s 20/m"), `limit "10/s 20/m"`, `period "s 20/m"`, "limits are separated by commas"},
	{"a semicolon between limits", words("10/s; 20/m"), `limit "10/s; 20/m"`, `option "20/m"`, "limits are separated by commas"},
	{"another name of an algorithm", words("10/s;leaky-bucket"), `option "leaky-bucket"`, algorithms, "did you mean token-bucket?"},
	{"an algorithm with an underscore", words("10/s;sliding_log"), `option "sliding_log"`, algorithms, "did you mean sliding-log?"},
	{"an algorithm with a typing error", words("10/s;fixed-windwo"), `option "fixed-windwo"`, algorithms, "did you mean fixed-window?"},
	{"an unknown option", words("10/s;colour=red"), `option "colour=red"`, algorithms, "burst=N, buckets=N, ban=PERIOD, tz=ZONE, from=DAY or calendar"},
	{"an option with a typing error", words("10/s;brust=5"), `limit "10/s;brust=5"`, `option "brust=5"`, "did you mean burst=5?"},
	{"a burst in words", words("10/s;burst=five"), `limit "10/s;burst=five"`, `option "burst=five"`, "burst wants a whole number of at least 1"},
	{"a ban without a unit", words("10/s;ban=5"), `limit "10/s;ban=5"`, `option "ban=5"`, "ban wants a period, such as 1h"},
	{"a burst twice", words("10/s;burst=5;burst=6"), `option "burst=6"`, "the second of its kind", "each once at most"},
}
