package client

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestMalformedFieldsAreIgnored checks that a RateLimit field that cannot be parsed is ignored as a whole, as RFC 9651
// requires.
func TestMalformedFieldsAreIgnored(t *testing.T) {
	for _, line := range []string{`"a";r=0;t=5, "b`, `"a";r=0;t=5, "b";r=1;pk=:YQ`, `"a";r=0;t=5 "b";r=0`, `"a";r=0;t=5, ;`} {
		var rep report
		rep.read(&http.Response{StatusCode: 200, Header: http.Header{"Ratelimit": {line}}}, at(0))
		if rep.n != 0 {
			t.Errorf("%s: %+v", line, rep.states[:rep.n])
		}
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
	if rep.n != maxStates || rep.states[maxStates-1].limit != 5 {
		t.Errorf("%d limits, %+v", rep.n, rep.states)
	}
}

// TestInstants checks which values are read as a wait, from a server whose clock says 1,000,000,000 seconds.
func TestInstants(t *testing.T) {
	for _, row := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"0.5", time.Second, true}, {".5", time.Second, true}, {"1e3", 1000 * time.Second, true}, {"+7", 7 * time.Second, true}, {"-7", -7 * time.Second, true},
		{"1000000060", time.Minute, true}, {"1000000060000", time.Minute, true}, {"1000000059.1", time.Minute, true},
		{"-1e300", -maxSeconds * time.Second, true}, {"5e300", maxSeconds * time.Second, true}, {"499999999", 499_999_999 * time.Second, true},
		{"Mon, 01 Jan 0001 00:00:00 GMT", -maxSeconds * time.Second, true}, {"Fri, 31 Dec 9999 23:59:59 GMT", maxSeconds * time.Second, true},
		{"", 0, false}, {" ", 0, false}, {"NaN", 0, false}, {"Inf", 0, false}, {"-Inf", 0, false}, {"1e309", 0, false}, {"soon", 0, false}, {"-", 0, false},
	} {
		c := serverClock{header: http.Header{"Date": {"Sun, 09 Sep 2001 01:46:40 GMT"}}, now: at(5)}
		if got, _, ok := c.until(row.text); got != row.want || ok != row.ok {
			t.Errorf("%q: %v, %v, want %v, %v", row.text, got, ok, row.want, row.ok)
		}
	}
}

// TestInvalidDate checks that the local time is used if the Date cannot be parsed.
func TestInvalidDate(t *testing.T) {
	for range 2 {
		c := serverClock{header: http.Header{"Date": {"yesterday"}}, now: at(1_000_000_000)}
		if !c.server().Equal(c.now) {
			t.Errorf("%v, want the local time", c.server())
		}
	}
}
