package core_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"pgregory.net/rapid"
)

const year = 365 * 24 * time.Hour

func TestLimitMistakes(t *testing.T) {
	for _, tt := range []struct {
		why   string
		limit core.Limit
		want  string // part of the message: the field and its value
	}{
		{"a negative rate", core.PerMinute(-1), "rate must be between 0 and 1000000000, got -1"},
		{"a rate that arithmetic cannot hold", core.PerMinute(1_000_000_001), "rate must be between 0 and 1000000000, got 1000000001"},
		{"no period", core.Limit{Rate: 1}, "period must be at least 1ms, got 0s"},
		{"a period just too short", core.Every(1, time.Millisecond-time.Microsecond), "period must be at least 1ms, got 999µs"},
		{"a negative period", core.Every(1, -time.Minute), "period must be at least 1ms, got -1m0s"},
		{"a period just too long", core.Every(1, 10*year+time.Microsecond), "period must be at most 10 years of 365 days, got 87600h0m0.000001s"},
		{"the longest Duration", core.Every(1, math.MaxInt64), "period must be at most 10 years"},
		{"a fraction of a microsecond", core.Every(1, time.Second+1), "period must be whole microseconds, got 1.000000001s"},
		{"an unknown algorithm", core.PerMinute(1).Using(core.InFlight + 1), "no algorithm"},
		{"a negative burst", core.PerMinute(1).WithBurst(-2), "burst must be between 0 and 1000000000, got -2"},
		{"a burst that arithmetic cannot hold", core.PerMinute(1).WithBurst(1_000_000_001), "burst must be between 0 and 1000000000, got 1000000001"},
		{"a window has no burst", core.PerMinute(1).Using(core.FixedWindow).WithBurst(7), "burst must be 0 for a fixed-window, which has none, got 7"},
		{"nor has a sliding one", core.PerMinute(1).Using(core.SlidingWindow).WithBurst(7), "burst must be 0 for a sliding-window, which has none, got 7"},
		{"nor has a log", core.PerMinute(1).Using(core.SlidingLog).WithBurst(7), "burst must be 0 for a sliding-log, which has none, got 7"},
		{"buckets of a token bucket", core.Limit{Rate: 1, Period: time.Second, Buckets: 5}, "buckets must be 0 for a token-bucket, which has none, got 5"},
		{"one sub-bucket is a fixed window", sliding(1), "buckets must be between 2 and 60, got 1"},
		{"negative sub-buckets", sliding(-1), "buckets must be between 2 and 60, got -1"},
		{"too many sub-buckets", sliding(61), "buckets must be between 2 and 60, got 61"},
		{"a log of 1,001 instants", core.PerDay(1001).Using(core.SlidingLog), "rate of a sliding-log must be at most 1000, got 1001"},
		{"capacity × period overflows", core.Every(1_000_000_000, 10*year), "capacity 1000000000 over period 87600h0m0s would overflow"},
		{"and so it does by the burst", core.Every(1, 10*year).WithBurst(1_000_000_000), "capacity 1000000000 over period 87600h0m0s would overflow"},
		{"a window has no ban", banned(core.PerMinute(1).Using(core.FixedWindow), time.Hour), "ban must be 0 for a fixed-window, which has none, got 1h0m0s"},
		{"a ban of nothing", banned(core.PerMinute(0), time.Hour), "ban must be 0 for a rate of 0, which admits nothing, got 1h0m0s"},
		{"a negative ban", banned(core.PerMinute(1), -time.Hour), "ban must be whole microseconds up to 10 years of 365 days, got -1h0m0s"},
		{"a ban just too long", banned(core.PerMinute(1), 10*year+time.Microsecond), "ban must be whole microseconds up to 10 years"},
		{"a ban with a fraction", banned(core.PerMinute(1), time.Hour+1), "ban must be whole microseconds"},
		{"a ban as long as a refill", banned(core.Every(3, time.Second), 333_333_334), "ban must be whole microseconds"},
		{"a ban no longer than a refill", banned(core.PerMinute(10), 6*time.Second), "ban must be longer than the 6s that one request takes to refill, got 6s"},
		{"a ban that arithmetic cannot hold", banned(core.Every(1_000_000_000, 24*time.Hour), 10*year), "and a ban of 87600h0m0s would overflow"},
		{"requests in flight have no period", core.PerMinute(1).Using(core.InFlight), "a limit of requests in flight has no period"},
		{"nor a ban", banned(core.AtOnce(1), time.Hour), "a limit of requests in flight has no period, burst, buckets or ban, got 0s, 0, 0 and 1h0m0s"},
		{"a negative number in flight", core.AtOnce(-1), "rate must be between 0 and 1000000000, got -1"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			for _, err := range []error{tt.limit.Validate(), newErr(tt.limit.By(constKey))} {
				wantError(t, err, core.ErrInvalid, tt.want)
			}
		})
	}
}

func sliding(buckets int) core.Limit {
	return core.Limit{Rate: 10, Period: time.Minute, Algorithm: core.SlidingWindow, Buckets: buckets}
}

func TestLimitsAtTheEdgeAreValid(t *testing.T) {
	limits := []core.Limit{
		core.PerSecond(0), core.PerSecond(0).WithBurst(5), core.PerSecond(1_000_000_000), core.PerSecond(1).WithBurst(1_000_000_000), core.PerMinute(100).WithBurst(1),
		sliding(2), sliding(60), sliding(0), core.PerDay(1000).Using(core.SlidingLog),
		{Rate: 9, Period: time.Millisecond, Algorithm: core.SlidingWindow, Buckets: 60},
	}
	for _, period := range []time.Duration{time.Millisecond, time.Second + time.Microsecond, 10 * year} {
		for _, n := range []int{1, 1_000_000} {
			limits = append(limits, core.Every(n, period), core.Every(n, period).Using(core.FixedWindow),
				core.Every(n, period).Using(core.SlidingWindow), core.Every(1, period).WithBurst(n))
		}
	}
	for _, l := range limits {
		expect.NoError(t, l.Validate(), "%v", l)
		expect.NoError(t, expect.ErrorOf(core.New([]core.Rule{l.By(constKey)})), "New with %v", l)
	}
}

func TestRuleHasAtMost16Limits(t *testing.T) {
	limits := make([]core.Limit, 17)
	for i := range limits {
		limits[i] = core.Every(1, time.Duration(i+1)*time.Hour)
	}
	expect.NoError(t, newErr(core.Rule{Key: constKey, Limits: limits[:16]}), "newErr")
	wantError(t, newErr(core.Rule{Key: constKey, Limits: limits}), core.ErrInvalid, "there must be at most 16 limits, got 17")
	_, err := core.Must(core.New([]core.Rule{named("a")})).Take(t.Context(), core.Claim{Rule: "a", Key: "k", Limits: limits})
	wantError(t, err, core.ErrInvalid, "there must be at most 16 limits, got 17")
}

func TestCapacity(t *testing.T) {
	for _, tt := range []struct {
		limit core.Limit
		want  int
		why   string
	}{
		{core.PerMinute(100), 100, "without a burst it is the rate"},
		{core.PerMinute(100).WithBurst(20), 20, "the burst may be less than the rate"},
		{core.PerMinute(100).WithBurst(500), 500, "or more"},
		{core.PerMinute(0), 0, "a rate of 0 denies everything"},
		{core.PerMinute(0).WithBurst(9), 0, "even with a burst, which would never come back"},
		{core.PerHour(7).Using(core.SlidingLog), 7, "other algorithms have no burst"},
	} {
		expect.Equal(t, tt.limit.Capacity(), tt.want, "%v (%s)", tt.limit, tt.why)
	}
}

func TestConstructors(t *testing.T) {
	for _, tt := range []struct{ got, want core.Limit }{
		{core.Every(3, 250*time.Millisecond), core.Limit{Rate: 3, Period: 250 * time.Millisecond}},
		{core.PerSecond(3), core.Every(3, time.Second)}, {core.PerMinute(3), core.Every(3, time.Minute)},
		{core.PerHour(3), core.Every(3, time.Hour)}, {core.PerDay(3), core.Every(3, 24*time.Hour)},
		{core.PerWeek(3), core.Limit{Rate: 3, Calendar: core.Calendar{Unit: core.CalendarWeek}}},
		{core.PerMonth(3), core.Limit{Rate: 3, Calendar: core.Calendar{Unit: core.CalendarMonth}}},
		{core.PerYear(3), core.Limit{Rate: 3, Calendar: core.Calendar{Unit: core.CalendarYear}}},
		{core.AtOnce(3), core.Limit{Rate: 3, Algorithm: core.InFlight}},
	} {
		expect.Equal(t, tt.got, tt.want, "limit")
	}
}

func TestWidth(t *testing.T) {
	for _, tt := range []struct {
		limit core.Limit
		want  time.Duration
		why   string
	}{
		{sliding(6), 10 * time.Second, "a sixth of a minute"},
		{sliding(0), 6 * time.Second, "0 means 10"},
		{core.Limit{Period: time.Second, Buckets: 7}, 142858 * time.Microsecond, "rounded up to a whole microsecond"},
		{core.Limit{Period: time.Millisecond, Buckets: 60}, 17 * time.Microsecond, "rounded up as well"},
	} {
		expect.Equal(t, tt.limit.Width(), tt.want, "%+v (%s)", tt.limit, tt.why)
	}
}

func TestAlgorithmString(t *testing.T) {
	for a := core.TokenBucket; a < core.InFlight; a++ {
		expect.Equal(t, core.MustParseLimits("1/m;" + a.String())[0].Algorithm, a, "algorithm")
	}
	expect.Equal(t, core.Algorithm(200).String(), "algorithm(200)", "core.Algorithm(200).String()")
}

// wantError checks that err is of a kind, says what is wrong and has the prefix of the module on each line.
func wantError(t *testing.T, err, kind error, part string) {
	t.Helper()
	must.True(t, errors.Is(err, kind), "got error %v, want one that wraps %v", err, kind)
	expect.True(t, strings.Contains(err.Error(), part), "got error %q, want it to say %q", err, part)
	for line := range strings.SplitSeq(err.Error(), "\n") {
		expect.True(t, strings.HasPrefix(line, "spillgate: ") && strings.Count(line, "spillgate: ") == 1,
			"got line %q, want exactly one prefix %q", line, "spillgate: ")
	}
}

func banned(l core.Limit, d time.Duration) core.Limit {
	l.Ban = d
	return l
}

func TestParseLimits(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []core.Limit
	}{
		{"10/s, 120/m, 240/h, 5000/d", []core.Limit{core.PerSecond(10), core.PerMinute(120), core.PerHour(240), core.PerDay(5000)}},
		{"5/15m;sliding-log", []core.Limit{core.Every(5, 15*time.Minute).Using(core.SlidingLog)}},
		{"100/m;burst=20", []core.Limit{core.PerMinute(100).WithBurst(20)}},
		{"9/500ms", []core.Limit{core.Every(9, 500*time.Millisecond)}},
		{"9/1500us", []core.Limit{core.Every(9, 1500*time.Microsecond)}},
		{"9/1500µs", []core.Limit{core.Every(9, 1500*time.Microsecond)}},
		{"1/ms", []core.Limit{core.Every(1, time.Millisecond)}},
		{"240/1h;fixed-window", []core.Limit{core.PerHour(240).Using(core.FixedWindow)}},
		{"5/10m;ban=1h", []core.Limit{{Rate: 5, Period: 10 * time.Minute, Ban: time.Hour}}},
		{"20 at once, 5/h", []core.Limit{core.AtOnce(20), core.PerHour(5)}},
		{"60/m;sliding-window;buckets=6", []core.Limit{{Rate: 60, Period: time.Minute, Algorithm: core.SlidingWindow, Buckets: 6}}},
		{"60/m;buckets=6;sliding-window", []core.Limit{{Rate: 60, Period: time.Minute, Algorithm: core.SlidingWindow, Buckets: 6}}},
		{"3/m;token-bucket", []core.Limit{core.PerMinute(3)}},
		{"1/1h30m", []core.Limit{core.Every(1, 90*time.Minute)}},
		{"1/0.5s", []core.Limit{core.Every(1, 500*time.Millisecond)}},
		{"1/.5s", []core.Limit{core.Every(1, 500*time.Millisecond)}},
		{"1/3650d", []core.Limit{core.Every(1, 10*year)}},
		{"0/s", []core.Limit{core.PerSecond(0)}},
		{"10/minute, 3/hour, 2/day, 1/w", []core.Limit{core.PerMinute(10), core.PerHour(3), core.PerDay(2), core.Every(1, 7*24*time.Hour)}},
		{"10/min, 3/sec, 2/hr", []core.Limit{core.PerMinute(10), core.PerSecond(3), core.PerHour(2)}},
		{"1/15min, 2/2 weeks, 3/1 day, 4/30 seconds", []core.Limit{
			core.Every(1, 15*time.Minute), core.Every(2, 14*24*time.Hour), core.PerDay(3), core.Every(4, 30*time.Second),
		}},
		{"\t 1 / m ; burst = 7 ,\n2/h ", []core.Limit{core.PerMinute(1).WithBurst(7), core.PerHour(2)}},
	} {
		expect.Elements(t, must.Get(core.ParseLimits(tt.in))(t), tt.want, "%q", tt.in)
		expect.Elements(t, core.MustParseLimits(tt.in), tt.want, "MustParseLimits(%q)", tt.in)
	}
}

func TestParseLimitsQuotesTheWordAtFault(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `limit ""`},
		{" ", `limit ""`},
		{"10/s,", `limit ""`},
		{"10/s,,5/m", `limit ""`},
		{"10/s, lots", `limit "lots": want RATE/PERIOD`},
		{"10", `limit "10": want RATE/PERIOD`},
		{"10 per minute", `did you mean 10/minute?`},
		{"10 per fortnight", `limit "10 per fortnight": want RATE/PERIOD`},
		{"ten/m", `rate "ten" is not a whole number`},
		{"/m", `rate "" is not a whole number`},
		{"-1/m", `rate "-1" is not a whole number`},
		{"+1/m", `rate "+1" is not a whole number`},
		{"1.5/m", `rate "1.5" is not a whole number`},
		{"1_000/m", `rate "1_000" is not a whole number`},
		{"99999999999999999999/m", `limit "99999999999999999999/m": rate must be between 0 and 1000000000`},
		{"99999999999999999999 at once", `limit "99999999999999999999 at once": rate must be between`},
		{"10/m;burst=99999999999999999999", `burst must be between 0 and 1000000000`},
		{"10/", `period "" is not a duration`},
		{"10/fortnight", `period "fortnight" is not a duration, such as s, 15m, 500ms or day`},
		{"10/minuts", `did you mean minute?`},
		{"10/2 dayz", `did you mean day?`},
		{"10/Minute", `did you mean minute?`},
		{"10/-1 day", `period "-1 day" is not a duration`},
		{"10/1.5 days", `period "1.5 days" is not a duration`},
		{"10/99999999999w", `period "99999999999w" is not a duration`},
		{"10/15", `period "15" is not a duration`},
		{"10/-1s", `period "-1s" is not a duration`},
		{"10/+1s", `period "+1s" is not a duration`},
		{"10/1d12h", `period "1d12h" is not a duration`},
		{"10/1/m", `period "1/m" is not a duration`},
		{"10/d2d", `period "d2d" is not a duration`},
		{"10/99999999999d", `period "99999999999d" is not a duration`},
		{"10/m;burst", `limit "10/m;burst": option "burst"`},
		{"10/m;burst=", `option "burst="`},
		{"10/m;burst=x", `option "burst=x"`},
		{"10/m;burst=-1", `option "burst=-1"`},
		{"10/m;burst=0", `option "burst=0"`},
		{"10/m;size=3", `option "size=3"`},
		{"10/m;leaky", `option "leaky": want an algorithm (` + strings.Join(algorithm.Names(algorithm.InFlight), ", ") + `), burst=N, buckets=N, ban=PERIOD, tz=ZONE, from=DAY or calendar, each once at most`},
		{"10/m;sliding-lgo", `did you mean sliding-log?`},
		{"10/m;fixed", `did you mean fixed-window?`},
		{"10/m;brust=3", `did you mean burst=3?`},
		{"10/m;", `option ""`},
		{"10/m;;burst=3", `option ""`},
		{"10/m;burst=3;burst=4", `option "burst=4"`},
		{"10/m;sliding-log;fixed-window", `option "fixed-window"`},
		{"10/m;sliding-window;buckets=3;buckets=3", `option "buckets=3"`},
		{"10/0s", `limit "10/0s": period must be at least 1ms, got 0s`},
		{"10/10us", `limit "10/10us": period must be at least 1ms, got 10µs`},
		{"10/1000001ns", `limit "10/1000001ns": period must be whole microseconds`},
		{"10/3651d", `limit "10/3651d": period must be at most 10 years`},
		{"10/m;fixed-window;burst=5", `limit "10/m;fixed-window;burst=5": burst must be 0 for a fixed-window`},
		{"1001/m;sliding-log", `limit "1001/m;sliding-log": rate of a sliding-log must be at most 1000, got 1001`},
		{"10/m, 5/60s", `limits "10/m, 5/60s": limits 1 and 2 are both a token-bucket of 1m0s`},
	} {
		got, err := core.ParseLimits(tt.in)
		expect.True(t, got == nil, "%q: got limits %v beside an error", tt.in, got)
		wantError(t, err, core.ErrInvalid, tt.want)
		if _, meant, _ := strings.Cut(err.Error(), "did you mean "); strings.Contains(meant, "/") {
			expect.NoError(t, expect.ErrorOf(core.ParseLimits(strings.TrimSuffix(meant, "?"))), "%q", tt.in)
		}
	}
}

func TestParseLimitsReportsAllMistakesAtOnce(t *testing.T) {
	_, err := core.ParseLimits("ten/fortnight;leaky;burst=0, 5/m, often, 5/1ns")
	for _, want := range []string{`rate "ten"`, `period "fortnight"`, `option "leaky"`, `option "burst=0"`, `limit "often"`, `limit "5/1ns"`} {
		wantError(t, err, core.ErrInvalid, want)
	}
}

func TestMustParseLimitsPanics(t *testing.T) {
	wantError(t, expect.PanicOf(func() { core.MustParseLimits("often") }), core.ErrInvalid, `limit "often"`)
}

func TestLimitString(t *testing.T) {
	for _, tt := range []struct {
		limit core.Limit
		want  string
	}{
		{core.PerMinute(100), "100/1m"},
		{core.PerMinute(100).WithBurst(20), "100/1m;burst=20"},
		{core.PerHour(240).Using(core.FixedWindow), "240/1h;fixed-window"},
		{sliding(6), "10/1m;sliding-window;buckets=6"},
		{core.Every(5, 15*time.Minute).Using(core.SlidingLog), "5/15m;sliding-log"},
		{core.PerDay(7), "7/1d"},
		{core.Every(7, 36*time.Hour), "7/36h"},
		{core.Every(9, 1500*time.Millisecond), "9/1500ms"},
		{core.Every(9, 1500*time.Microsecond), "9/1500us"},
		{core.Limit{Rate: -1, Algorithm: 9}, "-1/0s;algorithm(9)"},
	} {
		expect.Equal(t, tt.limit.String(), tt.want, "tt.limit.String()")
	}
}

// anyLimit generates limits of all kinds; most are valid.
func anyLimit(t *rapid.T) core.Limit {
	l := core.Limit{
		Rate:      rapid.IntRange(0, 1_000_000).Draw(t, "rate"),
		Period:    time.Duration(rapid.Int64Range(1000, int64(10*year/time.Microsecond)).Draw(t, "period")) * time.Microsecond,
		Algorithm: core.Algorithm(rapid.IntRange(0, 3).Draw(t, "algorithm")),
	}
	if unit := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Hour, 24 * time.Hour}).Draw(t, "unit"); l.Period > unit {
		l.Period -= l.Period % unit
	}
	switch l.Algorithm {
	case core.TokenBucket:
		l.Burst = rapid.IntRange(0, 1_000_000).Draw(t, "burst")
	case core.SlidingWindow:
		l.Buckets = rapid.IntRange(1, 3600).Draw(t, "buckets")
	case core.SlidingLog:
		l.Rate %= 10_001
	}
	return l
}

func TestLimitStringReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit(t)
		if l.Validate() != nil {
			t.Skip("not valid")
		}
		got, err := core.ParseLimits(l.String())
		must.True(t, err == nil && len(got) == 1 && got[0] == l, "%+v as %q reads back as %v, %v", l, l, got, err)
	})
}

func FuzzParseLimits(f *testing.F) {
	for _, s := range []string{"10/s, 120/m", "5/15m;sliding-log", "100/m;burst=20", "6/m;sliding-window;buckets=6", "1/.5s", "10/m;", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		limits, err := core.ParseLimits(s)
		if err != nil {
			must.True(t, limits == nil && errors.Is(err, core.ErrInvalid), "%q: got %v beside error %v", s, limits, err)
			return
		}
		for _, l := range limits {
			if err := l.Validate(); err != nil {
				t.Fatalf("%q: accepted %v: %v", s, l, err)
			}
			again, err := core.ParseLimits(l.String())
			must.True(t, err == nil && len(again) == 1 && again[0] == l, "%q: %q reads back as %v, %v", s, l, again, err)
		}
	})
}
