package replay

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestRequestsAreWhatTheServerReceived(t *testing.T) {
	for _, tt := range []struct {
		why, rule string
		e         accesslog.Entry
	}{
		{"an absolute URL names the host", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "http://example.com:80/a"}},
		{"without one, the log names the host", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "/a?b", Host: "example.com"}},
		{"escapes", "{key: ip, limits: 0/s, match: /login}", accesslog.Entry{Target: "/%6Cogin"}},
		{"an invalid target", "{key: ip, limits: 0/s, match: /a%zz}", accesslog.Entry{Target: "/a%zz?q"}},
		{"the user", "{key: join(basic, const(x)), limits: 0/s}", accesslog.Entry{Target: "/", User: "ann"}},
		{"a credential of another kind", "{key: bearer, limits: 0/s}", accesslog.Entry{Target: "/", User: "ann", Header: http.Header{"Authorization": {"Bearer x"}}}},
		{"a tunnel", "{key: ip, limits: 0/s, match: 'CONNECT example.com/{$}'}", accesslog.Entry{Method: "CONNECT", Target: "example.com:443"}},
		{"a header", "{key: ip, limits: 0/s, headers: {X-A: b}}", accesslog.Entry{Target: "/", Header: http.Header{"X-A": {"b"}}}},
	} {
		tt.e.At, tt.e.Client, tt.e.Method, tt.e.Duration = noon, "x", cmp.Or(tt.e.Method, "GET"), -1
		rule := strings.Replace(strings.Replace(tt.rule, "join(basic, const(x))", "'join(basic, const(x))'", 1), "/a%zz", "'/a%zz'", 1)
		rep := run(t, "rules: ["+rule+"]", Options{Knows: func(string) bool { return true }}, entries{tt.e})
		expect.True(t, rep.Denied == 1 && rep.Failed == 0, "%s: the rule did not deny it: %+v", tt.why, rep)
	}
}

func TestManyRoutesAreBounded(t *testing.T) {
	r := &runner{player: &player{requests: &Requests{}}, routes: make(map[string]int)}
	for i := range 20_000 {
		r.player.requests.URL.Path = "/a" + strings.Repeat("x", i%30) + fmt.Sprint(i)
		r.countRoute(&accesslog.Entry{Method: "GET"})
	}
	expect.True(t, len(r.routes) == 10_001 && r.routes["others"] == 10_000, "got %d routes, %d others", len(r.routes), r.routes["others"])
}

func TestNothingRemainsFromThePreviousRequest(t *testing.T) {
	q := NewRequests(rules(t, "rules: [{key: bearer, limits: 1/s}]"))
	expect.True(t, q.Users, "a credential may belong to the user")
	q.Set(&accesslog.Entry{Target: "http://example.com/a?b", User: "ann", Client: "x", Method: "GET"})
	user, _, _ := q.Request.BasicAuth()
	expect.True(t, user == "ann" && q.Request.Host == "example.com", "got %+v", q.Request)
	q.Set(&accesslog.Entry{Target: "/"})
	expect.True(t, len(q.Request.Header) == 0 && q.Request.Host == "" && q.URL.RawQuery == "" && q.Request.RemoteAddr == "",
		"got %+v", q.Request)
	fields := http.Header{"User-Agent": {"curl"}}
	q.Set(&accesslog.Entry{Target: "/", User: "ann", Header: fields})
	q.Set(&accesslog.Entry{Target: "/", Header: fields})
	expect.True(t, len(q.Request.Header) == 1, "a parser reuses its header: got %v", q.Request.Header)
	q = NewRequests(rules(t, "rules: [{key: ip, limits: 1/s}]"))
	expect.True(t, !q.Users, "no rule asks for a user")
}

func TestFailedRequestsAreNotCounted(t *testing.T) {
	p, _, err := newPlayer(rules(t, "rules: [{name: a, key: ip, limits: 1/s}, {name: b, key: header(X-A), limits: 1/s}]"), func(string) bool { return true })
	must.Do(t, err)
	e := sent(0, "x", "/")
	if p.decide(&e, e.At); p.errs != 1 || len(p.asks) != 0 || p.rules[0].asked != 0 {
		t.Errorf("got %d errors, asks %v, %d counted", p.errs, p.asks, p.rules[0].asked)
	}
}

func TestLogsAreMergedByTime(t *testing.T) {
	const one = "rules: [{key: const(x), limits: 1/1h}]"
	rep := run(t, "rules: [{key: 'join(ip, const(x))', limits: 0/s}]", Options{},
		entries{sent(3, "c", "/"), sent(5, "e", "/")}, entries{sent(1, "a", "/"), sent(4, "d", "/")}, nil, entries{sent(2, "b", "/")})
	expect.Equal(t, rep.Requests, 5, "requests of %+v", rep)
	expect.Equal(t, rep.Timeline.From, noon, "begin of the timeline")
	for first, logs := range map[string][]entries{
		"the earliest": {{sent(2, "x", "/late")}, {sent(1, "x", "/early")}},
		"of one instant, in the order of the logs":  {{sent(1, "x", "/early")}, {sent(1, "x", "/late")}},
		"of one instant, in the order of the lines": {{sent(1, "x", "/early"), sent(1, "x", "/late")}},
	} {
		if rep := run(t, one, Options{}, logs...); len(rep.Routes) != 1 || rep.Routes[0].Route != "GET /late" {
			t.Errorf("%s: denied %v, want GET /late", first, rep.Routes)
		}
	}
}

func TestRequestsAreDecidedAtTheirStartOrEnd(t *testing.T) {
	long := sent(30*time.Second, "x", "/long")
	long.Duration = 29 * time.Second
	started := sent(2*time.Second, "x", "/started")
	started.Duration, started.Started = 40*time.Second, true
	log := entries{sent(20*time.Second, "x", "/short"), long, started}
	for at, want := range map[bool][]string{false: {"GET /long 1", "GET /started 1"}, true: {"GET /short 1", "GET /started 1"}} {
		rep := run(t, "rules: [{key: const(x), limits: 1/h}]", Options{AtStart: at}, slices.Clone(log))
		var got []string
		for _, r := range rep.Routes {
			got = append(got, fmt.Sprint(r.Route, " ", r.Denied))
		}
		expect.Elements(t, got, want, "at start %v: denied", at)
	}
}

// A parser reuses its header while requests are kept back to be decided in the order of their starts.
func TestHeadersOfRequestsThatAreKeptBack(t *testing.T) {
	const line = `1.1.1.1 - - [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.1" 200 9 "-" "%s" 12 "w" "u" 1ms`
	all := func(string) bool { return true }
	log := must.Get(accesslog.NewReader("log", strings.NewReader(fmt.Sprintf(line+"\n"+line, "a", "b")), accesslog.Options{}))(t)
	rep := must.Get(Run(t.Context(), rules(t, "rules: [{key: header(User-Agent), limits: 1/h}]"), []Source{log}, Options{AtStart: true, Knows: all}))(t)
	expect.True(t, rep.Requests == 2 && rep.Denied == 0 && rep.Rules[0].Keys == 2, "got %+v", rep)
}

func TestTimelineDoublesItsColumns(t *testing.T) {
	var line Timeline
	for i := range 500 {
		at := noon.Add(time.Duration(i) * time.Second)
		line.add(at, at, i%5 == 0, i%2 == 0)
	}
	line.add(noon.Add(500*time.Second), noon, false, false) // late
	must.True(t, line.Width == 8*time.Second && len(line.Asked) == 63 && line.From.Equal(noon),
		"got %d columns of %v", len(line.Asked), line.Width)
	asked, denied, would := 0, 0, 0
	for i := range line.Asked {
		asked, denied, would = asked+line.Asked[i], denied+line.Denied[i], would+line.Would[i]
		expect.True(t, i >= 62 || line.Asked[i] == 8, "column %d has %d requests, want 8", i, line.Asked[i])
	}
	expect.True(t, asked == 501 && denied == 100 && would == 200,
		"got %d requests, %d denied, %d denied by dry runs only; want 501, 100, 200", asked, denied, would)
}

// TestReplayReportsWaits checks who would wait, and for how long, also in a dry run. A request that another rule denies does not wait.
func TestReplayReportsWaits(t *testing.T) {
	rep := run(t, `rules:
  - {name: webhooks, key: ip, limits: 1/s, max_wait: 2s}
  - {name: trial, key: const(x), limits: 1/s, max_wait: 1s, dry_run: true}
  - {name: all, key: ip, limits: 4/h}
`, Options{}, entries{
		sent(0, "1.1.1.1", "/"), sent(0, "1.1.1.1", "/"), sent(0, "1.1.1.1", "/"), sent(0, "1.1.1.1", "/"), sent(0, "2.2.2.2", "/"), sent(0, "2.2.2.2", "/"),
	})
	w, dry := rep.Rules[0].Waits, rep.Rules[1].Waits
	if got := fmt.Sprintf("%+v", *w); got != "{Waited:3 Mean:1.333333333s Longest:2s Clients:[{Key:ip:1.1.1.1 Waited:2 Longest:2s} {Key:ip:2.2.2.2 Waited:1 Longest:1s}]}" {
		t.Errorf("got %s", got)
	}
	expect.True(t, dry.Waited == 1 && dry.Longest == time.Second && rep.Denied == 1 && rep.Rules[2].Waits == nil,
		"dry run %+v, %d denied", dry, rep.Denied)
}
