package client

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"pgregory.net/rapid"
)

// TestMalformedFieldsAreIgnored checks that a RateLimit field that cannot be parsed is ignored as a whole, as RFC 9651 requires.
func TestMalformedFieldsAreIgnored(t *testing.T) {
	for _, line := range []string{`"a";r=0;t=5, "b`, `"a";r=0;t=5, "b";r=1;pk=:YQ`, `"a";r=0;t=5 "b";r=0`, `"a";r=0;t=5, ;`} {
		var rep report
		rep.read(&http.Response{StatusCode: 200, Header: http.Header{"Ratelimit": {line}}}, at(0))
		expect.Equal(t, rep.n, 0, "%s: %+v", line, rep.states[:rep.n])
	}
}

// TestLimitsWithoutRemainingAreIgnored checks that a limit is ignored if its r is not a number, or negative, and that
// the other limits of the field are read.
func TestLimitsWithoutRemainingAreIgnored(t *testing.T) {
	for _, r := range []string{"x", "-5", "99999999999999999999", `"5"x`} {
		var rep report
		rep.read(&http.Response{StatusCode: 200, Header: http.Header{"Ratelimit": {`"a";r=` + r + `;t=5, "b";r=3`}}}, at(0))
		if rep.n > 1 || rep.n == 1 && rep.states[0].left != 3 {
			t.Errorf("r=%s: %+v", r, rep.states[:rep.n])
		}
	}
}

// TestManyLimits checks that only the first limits are read if there are too many.
func TestManyLimits(t *testing.T) {
	var rep report
	h := http.Header{"Ratelimit": {strings.Repeat(`"a";r=1,`, maxStates+1) + `"a";r=1`}, "Ratelimit-Policy": {`"a";q=5`}}
	rep.read(&http.Response{StatusCode: 200, Header: h}, at(0))
	expect.True(t, rep.n == maxStates && rep.states[maxStates-1].limit == 5, "%d limits, %+v", rep.n, rep.states)
}

// TestInstants checks which values are read as a wait, from a server whose clock says 1,000,000,000 seconds.
func TestInstants(t *testing.T) {
	for _, row := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"0.5", time.Second, true}, {".5", time.Second, true}, {"1e3", 1000 * time.Second, true}, {"+7", 7 * time.Second, true}, {"-7", -7 * time.Second, true},
		{"60, 90", time.Minute, true}, {"1000000060,1000000090", time.Minute, true}, {"Sun, 60", 0, false},
		{"1000000060", time.Minute, true}, {"1000000060000", time.Minute, true}, {"1000000059.1", time.Minute, true},
		{"-1e300", -maxSeconds * time.Second, true}, {"5e300", maxSeconds * time.Second, true}, {"499999999", 499_999_999 * time.Second, true},
		{"Mon, 01 Jan 0001 00:00:00 GMT", -maxSeconds * time.Second, true}, {"Fri, 31 Dec 9999 23:59:59 GMT", maxSeconds * time.Second, true},
		{"", 0, false}, {" ", 0, false}, {"NaN", 0, false}, {"Inf", 0, false}, {"-Inf", 0, false}, {"1e309", 0, false}, {"soon", 0, false}, {"-", 0, false},
	} {
		c := serverClock{header: http.Header{"Date": {"Sun, 09 Sep 2001 01:46:40 GMT"}}, now: at(5)}
		got, _, ok := c.until(row.text)
		expect.True(t, got == row.want && ok == row.ok, "%q: %v, %v, want %v, %v", row.text, got, ok, row.want, row.ok)
	}
}

// TestInvalidDate checks that the local time is used if the Date cannot be parsed.
func TestInvalidDate(t *testing.T) {
	for range 2 {
		c := serverClock{header: http.Header{"Date": {"yesterday"}}, now: at(1_000_000_000)}
		expect.True(t, c.server().Equal(c.now), "%v, want the local time", c.server())
	}
}

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

// TestReportReadsTheFieldsOfEveryWriter checks for every writer that a client with another clock reads the numbers that the writer wrote.
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
				d := core.Decision{At: at, Results: []core.Result{drawResult(t, rapid.StringMatching(`[ -~]{1,12}`).Draw(t, "name"))}}
				d.Allowed = d.Results[0].Allowed
				h := http.Header{"Date": {at.UTC().Format(http.TimeFormat)}}
				w.write(h, d)
				resp := &http.Response{StatusCode: map[bool]int{true: 200, false: 429}[d.Allowed], Header: h}
				var rep report
				rep.read(resp, time.Unix(rapid.Int64Range(0, 5_000_000_000).Draw(t, "local"), 0))
				must.Equal(t, rep.n, map[bool]int{true: 2, false: 1}[w.name == "both"], "limits in %v", h)
				for _, s := range rep.states[:rep.n] {
					expect.Equal(t, differs(&s, &d.Results[0], at), "", "%+v of %v", s, h)
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

// FuzzReport checks that reading a response never panics, and yields numbers that are safe to compute with.
func FuzzReport(f *testing.F) {
	f.Add(200, "Sat, 01 Jan 2000 00:00:00 GMT", "", "100", "0", "946684860", `"a";r=0;t=5`, `"a";q=100;w=60`)
	f.Add(429, "", "120", "-1", "1e300", "2000-01-01T00:00:00Z", "limit=100, remaining=50, reset=5", "100;w=60")
	f.Add(503, "x", "Sat, 01 Jan 2000 00:00:00 GMT", "", "99999999999999", "-5", `"a\"\\";r=1;pk=:YQ==:;x;y="z", b;r=2`, `b;q=1;w=1;qu="content-bytes"`)
	f.Add(403, "", "99999999999", "5, 5;w=1", "0", "999999999999999999999", `("a");r=0`, `"`)
	f.Fuzz(func(t *testing.T, status int, date, retry, limit, remaining, reset, rateLimit, policy string) {
		now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		h := http.Header{
			"Date": {date}, "Retry-After": {retry, "1"}, "Ratelimit": {rateLimit, rateLimit}, "Ratelimit-Policy": {policy},
			"X-Ratelimit-Limit": {limit}, "X-Ratelimit-Remaining": {remaining, "5"}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Resource": {policy},
			"Ratelimit-Limit": {limit}, "Ratelimit-Remaining": {remaining}, "Ratelimit-Reset": {reset},
		}
		var rep report
		rep.read(&http.Response{StatusCode: status, Header: h}, now)
		const most = maxSeconds * time.Second
		if rep.n > maxStates || rep.retry > most || rep.retry < -most || rep.hasRetry && rep.retry < time.Second && status == 429 {
			t.Errorf("%+v", rep)
		}
		for _, s := range rep.states[:rep.n] {
			if s.left < 0 || s.limit < 0 || s.each < 0 || s.wait > most || s.wait < -most || !s.hasReset && s.wait != 0 {
				t.Errorf("%+v", s)
			}
		}
		a, c := &account{clock: 1}, call{sent: 1, route: &route{}}
		a.settle(&c, &rep, now)
		for _, b := range a.budgets {
			expect.True(t, !b.promise.After(now.Add(longestPromise)) && !b.until.After(now.Add(longestPromise+5*time.Second)),
				"closed until %v", b.until)
		}
	})
}
