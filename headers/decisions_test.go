package headers_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// noon is the instant of most decisions here: 2026-01-01T12:00:00Z.
var noon = time.Unix(1767268800, 0)

// result returns the result of a limit with this many requests remaining. One more refills after refill, and all after reset.
func result(rule string, l core.Limit, remaining int, refill, reset time.Duration) core.Result {
	return core.Result{Rule: rule, Limit: l, Allowed: true, Remaining: remaining, RefillAfter: refill, ResetAfter: reset}
}

func denied(t core.Result, retry time.Duration) core.Result {
	t.Allowed, t.RetryAfter = false, retry
	return t
}

func dryRun(t core.Result) core.Result {
	t.DryRun = true
	return t
}

func decision(at time.Time, results ...core.Result) core.Decision {
	d := core.Decision{Allowed: true, At: at, Results: results}
	for _, t := range results {
		d.Allowed = d.Allowed && (t.Allowed || t.DryRun)
	}
	return d
}

// half is an instant between two seconds.
var half = noon.Add(500 * time.Millisecond)

var (
	perMinute = core.PerMinute(100)
	perHour   = core.PerHour(1000)
)

// scenarios are decisions of every kind. Each row says which rule of the contract it is about.
var scenarios = []struct {
	name, why string
	d         core.Decision
}{
	{"allowed", "while something remains, Reset is when the whole capacity is back",
		decision(noon, result("api", perMinute, 50, 600*time.Millisecond, 30*time.Second))},
	{"full", "nothing is missing: Reset is now, and there is no t", decision(noon, result("api", perMinute, 100, 0, 0))},
	{"last", "the last one was admitted: Reset is when one more fits, and there is no Retry-After",
		decision(noon, result("api", perMinute, 0, 600*time.Millisecond, time.Minute))},
	{"denied", "Reset is the instant of Retry-After, both rounded up",
		decision(noon, denied(result("api", perMinute, 0, 600*time.Millisecond, time.Minute), 600*time.Millisecond))},
	{"fraction", "Reset is the sum rounded up, not the sum of two roundings: 12:00:00.5 + 0.6s",
		decision(half, denied(result("api", perMinute, 0, 600*time.Millisecond, time.Minute), 600*time.Millisecond))},
	{"whole-sum", "a sum that is a whole second is not rounded up: 12:00:00.5 + 0.5s",
		decision(half, result("api", perMinute, 1, 0, 500*time.Millisecond))},
	{"costly", "what remains is not enough: clients read Remaining 0 as the order to wait",
		decision(noon, denied(result("api", perMinute, 3, 600*time.Millisecond, time.Minute), 1200*time.Millisecond))},
	{"never", "the cost is above the capacity: true Remaining and Reset, no Retry-After",
		decision(noon, denied(result("api", perMinute, 97, 600*time.Millisecond, 1800*time.Millisecond), core.Never))},
	{"never-empty", "the same with nothing left: Reset is when one more fits",
		decision(noon, denied(result("api", perMinute, 0, 600*time.Millisecond, time.Minute), core.Never))},
	{"rate-0", "nothing will ever be admitted", decision(noon, denied(result("closed", core.PerMinute(0), 0, 0, 0), core.Never))},
	{"two-limits", "the least share is shown; names tell the limits of a rule apart by period",
		decision(noon, result("api", perMinute, 50, time.Second, 30*time.Second), result("api", perHour, 400, 4*time.Second, 2160*time.Second))},
	{"used-up", "of two limits that are used up, the one in which a request fits later is shown",
		decision(noon, result("second", core.PerSecond(10), 0, 100*time.Millisecond, time.Hour), result("minute", perMinute, 0, 30*time.Second, time.Minute))},
	{"tie", "of equal shares the one that takes longer to recover is shown",
		decision(noon, result("a", perMinute, 50, time.Second, 30*time.Second), result("b", perHour, 500, 4*time.Second, 1800*time.Second))},
	{"late-refill", "a t after Retry-After is left out: the other limit is not what the client waits for",
		decision(noon, denied(result("burst", core.PerSecond(5), 0, 200*time.Millisecond, time.Second), 200*time.Millisecond),
			result("daily", core.PerDay(1000), 900, 44*time.Second, 8640*time.Second))},
	{"longest", "of two denials the longest wait is shown",
		decision(noon, denied(result("a", perMinute, 0, time.Second, time.Minute), time.Second),
			denied(result("b", perHour, 0, 4*time.Second, time.Hour), 4*time.Second))},
	{"same-period", "the algorithm tells limits of one period apart",
		decision(noon, result("api", perMinute, 50, time.Second, 30*time.Second),
			result("api", perMinute.Using(core.SlidingLog), 90, time.Second, 30*time.Second), result("api", perHour, 999, time.Second, time.Second))},
	{"burst", "q is the capacity, since r counts down from it",
		decision(noon, result("api", perMinute.WithBurst(20), 15, 600*time.Millisecond, 3*time.Second))},
	{"sub-second", "a period below a second is w=1, because w must be positive",
		decision(noon, result("api", core.Every(9, 500*time.Millisecond), 8, time.Millisecond, time.Millisecond))},
	{"dry-run", "a dry run never shows, not even in the names of the others",
		decision(noon, dryRun(denied(result("trial", perMinute, 0, time.Second, time.Minute), time.Second)), result("api", perHour, 999, 4*time.Second, 4*time.Second))},
	{"dry-run-only", "nothing was enforced: nothing is set",
		decision(noon, dryRun(result("trial", perMinute, 0, time.Second, time.Minute)))},
	{"none", "no rule applied: nothing is set", core.Decision{Allowed: true}},
	{"in-flight", "requests in flight have no period, and show in IETF alone as long as they are admitted",
		decision(noon, result("uploads", twoAtOnce, 0, time.Second, time.Second), result("uploads", core.PerHour(60), 50, 12*time.Second, 10*time.Minute))},
	{"in-flight-alone", "a rule with nothing else shows nothing outside IETF",
		decision(noon, result("uploads", twoAtOnce, 1, time.Second, time.Second))},
	{"in-flight-denied", "a denial shows, with the hint of a second",
		decision(noon, denied(result("uploads", twoAtOnce, 0, time.Second, time.Second), time.Second), result("uploads", core.PerHour(60), 50, 12*time.Second, 10*time.Minute))},
	{"escaped", "a name is a String of RFC 9651: quote and backslash are escaped",
		decision(noon, result(`a "b" \c`, perMinute, 99, time.Second, time.Second))},
	{"far", "285 years from an instant in 2286 is neither negative nor wrapped",
		decision(time.Unix(9999999999, 1), denied(result("api", core.Every(1000000000, 10*365*24*time.Hour), 0, longest, longest), longest))},
}

var twoAtOnce = core.Limit{Rate: 2, Algorithm: core.InFlight}

// longest is the longest wait that a store reports.
const longest = 1 << 53 * time.Microsecond

var update = flag.Bool("update", false, "rewrite testdata")

var writers = []struct {
	name  string
	write headers.Writer
}{
	{"GitHub", headers.GitHub},
	{"IETF", headers.IETF},
	{"Custom zero", headers.Custom{}.Write},
	{"Custom delta", headers.Custom{Prefix: "x-app-ratelimit", Reset: headers.DeltaSeconds}.Write},
	{"Custom RFC3339", headers.Custom{Prefix: "App", Reset: headers.RFC3339}.Write},
	{"RetryAfter", headers.RetryAfter},
	{"None", headers.None},
}

// TestGolden compares every byte that the writers set. Review the differences before you update them: clients parse these bytes.
func TestGolden(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			got := []byte(s.why + "\n")
			for _, w := range writers {
				h := http.Header{}
				w.write(h, s.d)
				got = fmt.Appendf(got, "\n%s\n%s", w.name, dump(h))
			}
			path := filepath.Join("testdata", s.name+".golden")
			if *update {
				must.Do(t, os.WriteFile(path, got, 0o644))
			}
			want := must.Get(os.ReadFile(path))(t)
			expect.True(t, string(got) == string(want), "got\n%s\nwant\n%s", got, want)
		})
	}
}

// dump returns the fields of h, sorted, one value per line.
func dump(h http.Header) string {
	var lines []string
	for name, values := range h {
		for _, v := range values {
			lines = append(lines, "  "+name+": "+v+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
