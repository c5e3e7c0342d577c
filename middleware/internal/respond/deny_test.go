package respond

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// denied returns a decision that is denied by limits of these rules, for some seconds or forever.
func denied(l core.Limit, retry time.Duration, rules ...string) core.Decision {
	d := core.Decision{At: time.Unix(1767268800, 0)}
	for _, rule := range rules {
		d.Results = append(d.Results, core.Result{Rule: rule, Limit: l, RetryAfter: retry})
	}
	return d
}

func problemOf(d *core.Decision) Problem {
	p := denialOf(d).problem
	p.Violated = headers.Violated(*d)
	return p
}

// word returns a name of n characters, half of which JSON escapes.
func word(n int) string {
	const escaped = `"\<>&/'`
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(' ' + rand.IntN('~'-' '+1)); rand.IntN(2) == 0 {
			b[i] = escaped[rand.IntN(len(escaped))]
		}
	}
	return string(b)
}

// TestDenyWritesTheJSONOfTheProblem compares each byte with encoding/json, which Problem.Write uses.
func TestDenyWritesTheJSONOfTheProblem(t *testing.T) {
	names := []string{"", "default", "a b", `"`, `\`, "<", ">", "&", "~", " ", "\x7f", "\x1f", "\n", "é", "\u2028", "\xff", "login-1m"}
	for range 300 {
		names = append(names, word(rand.IntN(12)))
	}
	perHour := core.PerHour(10)
	for _, name := range names {
		for why, d := range map[string]core.Decision{
			"denied":             denied(perHour, time.Second, name),
			"several":            denied(perHour, time.Second, "x"+name, name+"y", word(5)),
			"two limits":         denied(perHour, time.Second, name, name),
			"above the capacity": denied(perHour, core.Never, name),
			"rate 0":             denied(core.PerHour(0), core.Never, name),
			"of nobody":          {},
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
				r := httptest.NewRequest(method, "/", nil)
				got, want := httptest.NewRecorder(), httptest.NewRecorder()
				Deny(got, r, &d)
				problemOf(&d).Write(want, r)
				if got.Code != want.Code || got.Body.String() != want.Body.String() || !reflect.DeepEqual(got.Header(), want.Header()) {
					t.Errorf("%s, %s of %q:\ngot  %d %v %s\nwant %d %v %s", why, method, name,
						got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
				}
			}
		}
	}
}

// TestDenialFollowsTheTightestResult mixes results that can never fit with other results.
func TestDenialFollowsTheTightestResult(t *testing.T) {
	soon := core.Result{Limit: core.PerHour(1), RetryAfter: time.Second}
	never := core.Result{Limit: core.PerHour(1), RetryAfter: core.Never}
	nothing := core.Result{Limit: core.PerHour(0), RetryAfter: core.Never}
	month := core.Result{Limit: core.PerMonth(1), RetryAfter: time.Hour}
	later := core.Result{Limit: core.PerHour(1), RetryAfter: 2 * time.Hour}
	dry := never
	dry.DryRun = true
	for why, row := range map[string]struct {
		results []core.Result
		want    *denial
	}{
		"no result":        {nil, tooMany},
		"a wait":           {[]core.Result{soon}, tooMany},
		"never":            {[]core.Result{never}, tooLarge},
		"never, rate 0":    {[]core.Result{nothing}, closed},
		"never and a wait": {[]core.Result{soon, never}, tooLarge},
		"the first never":  {[]core.Result{soon, nothing, never}, closed},
		"a dry run":        {[]core.Result{dry, soon}, tooMany},
		"also a dry run":   {[]core.Result{dry, nothing}, closed},
		"a month":          {[]core.Result{soon, month}, usedUp},
		"a month, later":   {[]core.Result{month, later}, tooMany},
		"a month, never":   {[]core.Result{month, nothing}, closed},
	} {
		got := denialOf(&core.Decision{Results: row.results})
		expect.True(t, got == row.want, "%s: %+v, want %+v", why, got.problem, row.want.problem)
	}
}

// TestDetailDistinguishesLimitsAndQuotas checks the texts that clients see, by the limit that is used up.
func TestDetailDistinguishesLimitsAndQuotas(t *testing.T) {
	const soon = "Too many requests in too short a time; retry later."
	const quota = "The quota is used up; retry later."
	const never = "Such requests are not allowed; a retry does not help."
	day := 24 * time.Hour
	for _, row := range []struct {
		limit core.Limit
		want  string
	}{
		{core.PerMinute(1), soon},
		{core.PerDay(1), soon}, // a bucket
		{core.PerDay(1).WithBurst(5), soon},
		{core.Every(1, 30*day), soon},
		{core.Limit{Rate: 1, Period: time.Minute, Ban: day}, soon},
		{core.AtOnce(1), soon},
		{core.Every(1, day-time.Millisecond).Using(core.FixedWindow), soon},
		{core.PerHour(1).Using(core.SlidingLog), soon},
		{core.PerDay(1).Using(core.FixedWindow), quota},
		{core.PerDay(1).Using(core.SlidingWindow), quota},
		{core.Every(1, 7*day).Using(core.SlidingLog), quota},
		{core.PerDay(1).In("America/New_York"), quota},
		{core.PerWeek(1), quota},
		{core.PerMonth(1).From(15), quota},
		{core.PerYear(1), quota},
		{core.PerSecond(0), never},
		{core.PerDay(0).Using(core.FixedWindow), never},
		{core.PerMonth(0), never},
		{core.AtOnce(0), never},
	} {
		retry := time.Second
		if row.limit.Capacity() == 0 {
			retry = core.Never
		}
		d := denied(row.limit, retry, "a")
		if got := denialOf(&d).problem; got.Detail != row.want || got.Status != http.StatusTooManyRequests {
			t.Errorf("%v: got %d %q, want %q", row.limit, got.Status, got.Detail, row.want)
		}
	}
}

// TestDenialsShareNothing changes the fields of one response, as a middleware may, and checks the next response.
func TestDenialsShareNothing(t *testing.T) {
	d, r := denied(core.PerHour(1), time.Second, "a"), httptest.NewRequest(http.MethodGet, "/", nil)
	for range 2 {
		w := httptest.NewRecorder()
		Deny(w, r, &d)
		h := w.Header()
		must.True(t, h.Get("Cache-Control") == "no-store" && h.Get("Content-Type") == ContentType, "got %v", h)
		h.Add("Cache-Control", "private")
		expect.Equal(t, h.Get("Content-Type"), ContentType, "adding to a field has changed another")
		h["Cache-Control"][0], h["Content-Type"][0] = "public", "text/html"
	}
}

// nowhere is a ResponseWriter that keeps nothing but the header.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// TestDenialIsMarshalledOnce checks that a repeated denial allocates only its header values, and that its body has no spare
// capacity in which concurrent responses could write.
func TestDenialIsMarshalledOnce(t *testing.T) {
	d, r := denied(core.PerHour(1), time.Second, "once"), httptest.NewRequest(http.MethodGet, "/", nil)
	w := &nowhere{http.Header{}}
	expect.AtMost(t, testing.AllocsPerRun(100, func() { Deny(w, r, &d) }), 1, "allocations (only the one of the header values)")
	b := tooMany.body([]string{"once"})
	expect.True(t, cap(b) == len(b), "a body of %d bytes has room for %d", len(b), cap(b))
}

// TestConcurrentDenials checks that concurrent denials do not mix up their bodies.
func TestConcurrentDenials(t *testing.T) {
	var wg sync.WaitGroup
	for _, name := range []string{"a", "a rule with a longer name", `"`, "<&>"} {
		wg.Go(func() {
			d, r := denied(core.PerHour(1), time.Second, name), httptest.NewRequest(http.MethodGet, "/", nil)
			want := string(problemOf(&d).body())
			for range 500 {
				w := httptest.NewRecorder()
				Deny(w, r, &d)
				expect.Equal(t, w.Body.String(), want, "%s", w.Body)
			}
		})
	}
	wg.Wait()
}

// marshalling returns both ways to marshal a Page, by name.
func marshalling(p *Page) map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){"encoding/json": func() ([]byte, error) { return json.Marshal(p) }, "JSON": p.JSON}
}

// TestPageHasTheJSONOfTheProblem compares the JSON of a Page with the JSON of the Problem, and checks when header fields are set.
func TestPageHasTheJSONOfTheProblem(t *testing.T) {
	pages := map[string]func(*Page, http.Header) Problem{}
	for why, d := range map[string]core.Decision{
		"denied":             denied(core.PerHour(10), time.Second, "a"),
		"several":            denied(core.PerHour(10), time.Second, `"<x>"`, "b", "c"),
		"above the capacity": denied(core.PerHour(10), core.Never, "a"),
		"rate 0":             denied(core.PerHour(0), core.Never, "a"),
		"of nobody":          {},
	} {
		pages[why] = func(p *Page, h http.Header) Problem {
			p.Deny(h, &d)
			return problemOf(&d)
		}
	}
	for why, err := range map[string]error{"no key": core.ErrNoKey, "other": errors.New("x")} {
		pages[why] = func(p *Page, h http.Header) Problem {
			p.Fail(h, err)
			return Failure(err)
		}
	}
	for why, page := range pages {
		for how := range marshalling(nil) {
			var p Page
			h := make(http.Header)
			want, _ := json.Marshal(page(&p, h))
			expect.True(t, len(h) == 1 && h.Get("Cache-Control") == noStore, "%s: header %v before it is marshalled", why, h)
			got, err := marshalling(&p)[how]()
			expect.True(t, err == nil && string(bytes.TrimSpace(got)) == string(want) && h.Get("Content-Type") == ContentType,
				"%s by %s: %s of type %q, %v; want %s", why, how, got, h.Get("Content-Type"), err, want)
		}
	}
}

// TestPagesShareNothing changes the header fields of one Page, and checks the next Page.
func TestPagesShareNothing(t *testing.T) {
	d := denied(core.PerHour(1), time.Second, "a")
	for range 2 {
		var p Page
		h := make(http.Header)
		p.Deny(h, &d)
		must.Get(json.Marshal(&p))(t)
		h.Add("Cache-Control", "private")
		must.Equal(t, h.Get("Content-Type"), ContentType, "%v", h)
		must.Equal(t, p.Violated[0], "a", "violated %q", p.Violated)
		h["Cache-Control"][0], h["Content-Type"][0], p.Violated[0] = "public", "text/html", "b"
	}
}

// TestFailureSaysWhatTheClientCanDo checks the texts that clients see. None shows the text of the error.
func TestFailureSaysWhatTheClientCanDo(t *testing.T) {
	for _, row := range []struct {
		err    error
		status int
		detail string
	}{
		{core.ErrNoKey, 400, "The request has no key: credentials or an address are missing."},
		{core.ErrBadKey, 400, "The key of the request is ambiguous or malformed, such as a credential that was sent twice."},
		{core.ErrUnavailable, 503, "The request cannot be checked at the moment; retry later."},
		{core.ErrInvalid, 500, "The request could not be checked."},
		{errors.New("secret"), 500, "The request could not be checked."},
	} {
		for _, err := range []error{row.err, fmt.Errorf("rule %q: %w", "login", row.err)} {
			if p := Failure(err); p.Status != row.status || p.Detail != row.detail {
				t.Errorf("%v: got %d %q, want %d %q", err, p.Status, p.Detail, row.status, row.detail)
			}
		}
	}
}
