package client

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// second rounds up to seconds, as the fields do.
func second(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// drawResult draws a result that a store may report.
func drawResult(t *rapid.T, name string) core.Result {
	l := core.Every(rapid.IntRange(1, 1_000_000).Draw(t, "rate"), time.Duration(rapid.Int64Range(1, 365*86400_000).Draw(t, "period"))*time.Millisecond)
	wait := func(label string) time.Duration {
		return time.Duration(rapid.Int64Range(0, 400*86400_000_000).Draw(t, label)) * time.Microsecond
	}
	r := core.Result{Rule: name, Limit: l, Allowed: rapid.Bool().Draw(t, "allowed"), Remaining: rapid.IntRange(0, l.Rate).Draw(t, "remaining")}
	r.RefillAfter = wait("refill")
	r.ResetAfter = r.RefillAfter + wait("reset")
	if !r.Allowed {
		r.RetryAfter = max(time.Microsecond, wait("retry"))
	}
	return r
}

// drawName draws the name of a rule: printable ASCII.
func drawName(t *rapid.T) string { return rapid.StringMatching(`[ -~]{1,12}`).Draw(t, "name") }

// TestReportReadsTheFieldsOfEveryWriter checks for every writer that a client with another clock reads the numbers that the
// writer wrote.
func TestReportReadsTheFieldsOfEveryWriter(t *testing.T) {
	for _, w := range []struct {
		name  string
		write headers.Writer
	}{
		{"GitHub", headers.GitHub},
		{"Custom, seconds", headers.Custom{Reset: headers.DeltaSeconds}.Write},
		{"Custom, RFC 3339", headers.Custom{Reset: headers.RFC3339}.Write},
		{"IETF", headers.IETF},
		{"both", headers.Join(headers.GitHub, headers.IETF)},
	} {
		t.Run(w.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				at := time.UnixMicro(rapid.Int64Range(946_684_800_000_000, 4_000_000_000_000_000).Draw(t, "at"))
				d := core.Decision{At: at, Results: []core.Result{drawResult(t, drawName(t))}}
				d.Allowed = d.Results[0].Allowed
				h := http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}
				w.write(h, d)
				resp := &http.Response{StatusCode: map[bool]int{true: 200, false: 429}[d.Allowed], Header: h}
				var rep report
				rep.read(resp, time.Unix(rapid.Int64Range(0, 5_000_000_000).Draw(t, "local"), 0))
				if want := map[bool]int{true: 2, false: 1}[w.name == "both"]; rep.n != want {
					t.Fatalf("%d limits in %v, want %d", rep.n, h, want)
				}
				for _, s := range rep.states[:rep.n] {
					if problem := differs(&s, &d.Results[0], at); problem != "" {
						t.Errorf("%s: %+v of %v", problem, s, h)
					}
				}
				if r := d.Results[0]; rep.denied != !r.Allowed || rep.hasRetry != !r.Allowed || rep.retry != time.Duration(second(r.RetryAfter))*time.Second {
					t.Errorf("denied %v, Retry-After %v of %v", rep.denied, rep.retry, h)
				}
			})
		})
	}
}

// differs describes how s differs from the fields that the server wrote for r.
func differs(s *state, r *core.Result, at time.Time) string {
	if !strings.HasPrefix(s.name.name, r.Rule) || s.limit != int64(r.Limit.Rate) {
		return "name or limit"
	}
	if s.name.family == rateLimit {
		left, each := int64(r.Remaining), (second(r.Limit.Period)+s.limit-1)/s.limit
		wait, announced := second(r.RefillAfter), r.RefillAfter > 0 && (r.Allowed || second(r.RefillAfter) <= second(r.RetryAfter))
		if s.left != left || s.each != time.Duration(each)*time.Second || s.hasReset != announced || announced && s.wait != time.Duration(wait)*time.Second {
			return "IETF"
		}
		return ""
	}
	left, wait := r.Remaining, r.ResetAfter
	switch {
	case !r.Allowed:
		left, wait = 0, r.RetryAfter
	case left == 0:
		wait = r.RefillAfter
	}
	if late := s.wait - wait; s.left != int64(left) || !s.hasReset || late < 0 || late >= 2*time.Second {
		return fmt.Sprintf("Remaining, or Reset %v late", late)
	}
	return ""
}
