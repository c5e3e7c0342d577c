package client

import (
	"net/http"
	"testing"
	"time"
)

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
			if b.promise.After(now.Add(longestPromise)) || b.until.After(now.Add(longestPromise+5*time.Second)) {
				t.Errorf("closed until %v", b.until)
			}
		}
	})
}
