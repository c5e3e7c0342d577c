package replay

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
)

// entries is a Source.
type entries []accesslog.Entry

func (s *entries) Next(e *accesslog.Entry) error {
	if len(*s) == 0 {
		return io.EOF
	}
	*e, *s = (*s)[0], (*s)[1:]
	return nil
}

var noon = time.Date(2025, 10, 10, 12, 0, 0, 0, time.UTC)

// sent is a request that was answered 200 after a time.
func sent(after time.Duration, client, path string) accesslog.Entry {
	return accesslog.Entry{At: noon.Add(after), Client: client, Method: "GET", Target: path, Status: 200, Duration: -1}
}

func rules(t *testing.T, src string) *rulefile.File {
	t.Helper()
	f, err := rulefile.Offline("f", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func run(t *testing.T, src string, o Options, logs ...entries) *Report {
	t.Helper()
	if o.Knows == nil {
		o.Knows = func(string) bool { return false }
	}
	sources := make([]Source, len(logs))
	for i := range logs {
		sources[i] = &logs[i]
	}
	rep, err := Run(t.Context(), rules(t, src), sources, o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestRuleCountsWhatItRefusesItself(t *testing.T) {
	rep := run(t, `rules:
  - {name: all, key: ip, limits: 3/h}
  - {name: a, key: ip, limits: 1/h, match: /a}
  - {name: trial, key: const(x), limits: 1/h, dry_run: true}
`, Options{}, entries{
		sent(0, "1.1.1.1", "/a"), sent(1, "1.1.1.1", "/a"), sent(2, "2.2.2.2", "/b/7"), sent(3, "1.1.1.1", "/c"), sent(4, "1.1.1.1", "/c"),
		sent(5, "1.1.1.1", "/c/123"), sent(6, "1.1.1.1", "/c/124"),
	})
	if rep.Requests != 7 || rep.Refused != 3 || !rep.From.Equal(noon) || !rep.To.Equal(noon.Add(6)) || rep.AtLeast != nil && *rep.AtLeast != 3 {
		t.Errorf("got %+v", rep)
	}
	want := []RuleReport{
		{Name: "all", Limits: []string{"3/1h"}, Asked: 7, Refused: 2, Keys: 2, KeysHit: 1, Hit: []ClientReport{{"ip:1.1.1.1", 6, 2}}},
		{Name: "a", Limits: []string{"1/1h"}, Asked: 2, Refused: 1, Keys: 1, KeysHit: 1, Hit: []ClientReport{{"ip:1.1.1.1", 2, 1}}},
		{Name: "trial", Limits: []string{"1/1h"}, DryRun: true, Asked: 7, Refused: 6, Keys: 1, KeysHit: 1, Hit: []ClientReport{{"const:x", 7, 6}}},
	}
	if got, want := fmt.Sprintf("%+v", rep.Rules), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := fmt.Sprint(rep.Routes); got != "[{GET /c/{} 2} {GET /a 1}]" {
		t.Errorf("got routes %s", got)
	}
	if got := fmt.Sprint(rep.Timeline.Asked, rep.Timeline.Refused); got != "[7] [3]" {
		t.Errorf("got %s", got)
	}
}

func TestLogsAreMergedByTime(t *testing.T) {
	const one = "rules: [{key: const(x), limits: 1/1h}]"
	rep := run(t, "rules: [{key: 'join(ip, const(x))', limits: 0/s}]", Options{},
		entries{sent(3, "c", "/"), sent(5, "e", "/")}, entries{sent(1, "a", "/"), sent(4, "d", "/")}, nil, entries{sent(2, "b", "/")})
	if rep.Requests != 5 || rep.Timeline.From != noon {
		t.Errorf("got %+v", rep)
	}
	for first, logs := range map[string][]entries{
		"the earliest": {{sent(2, "x", "/late")}, {sent(1, "x", "/early")}},
		"of one instant, in the order of the logs":  {{sent(1, "x", "/early")}, {sent(1, "x", "/late")}},
		"of one instant, in the order of the lines": {{sent(1, "x", "/early"), sent(1, "x", "/late")}},
	} {
		if rep := run(t, one, Options{}, logs...); len(rep.Routes) != 1 || rep.Routes[0].Route != "GET /late" {
			t.Errorf("%s: refused %v, want GET /late", first, rep.Routes)
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
			got = append(got, fmt.Sprint(r.Route, " ", r.Refused))
		}
		if !slices.Equal(got, want) {
			t.Errorf("at start %v: refused %q, want %q", at, got, want)
		}
	}
}

func TestWholeSecondsGiveARange(t *testing.T) {
	var log entries
	for i := range 10 {
		e := sent(time.Duration(i/5)*time.Second, "x", "/")
		e.Seconds = true
		log = append(log, e)
	}
	rep := run(t, "rules: [{key: ip, limits: 5/s;burst=1}]", Options{}, log)
	if rep.Refused != 8 || rep.AtLeast == nil || *rep.AtLeast != 0 {
		t.Errorf("got %d refused, at least %v; want 8, 0", rep.Refused, rep.AtLeast)
	}
	log[9].Seconds = false
	if rep := run(t, "rules: [{key: ip, limits: 1/s}]", Options{}, log); rep.AtLeast != nil {
		t.Errorf("got a range of %d for a log with fractions", *rep.AtLeast)
	}
}

func TestRulesThatNeedMoreAreLeftOut(t *testing.T) {
	src := "funcs: [user]\nrules: [{name: a, key: user, limits: 1/h}, {name: b, key: header(X-A), limits: 1/h}, {name: c, key: 'first(header(X-B), bearer)', limits: 1/h}]"
	e := sent(0, "x", "/")
	e.Header = http.Header{"X-A": {"1"}}
	rep := run(t, src, Options{Knows: func(need string) bool { return need == "header X-A" }}, entries{e, e})
	if len(rep.Rules) != 1 || rep.Rules[0].Refused != 1 || rep.LeftOut["a"] != "function user" || rep.LeftOut["c"] != "header Authorization, header X-B" {
		t.Errorf("got %+v", rep)
	}
	if rep := run(t, src, Options{}, entries{e}); len(rep.Rules) != 0 || rep.Requests != 1 {
		t.Errorf("without any rule: got %+v", rep)
	}
}

func TestStatusSettlesFailures(t *testing.T) {
	var log entries
	for i := range 20 {
		e := sent(time.Duration(i), "x", "/login")
		if e.Status = 200; i >= 10 {
			e.Status = 401
		}
		log = append(log, e)
	}
	src := "rules: [{name: login, key: ip, limits: 5/h, final: failures}]"
	if rep := run(t, src, Options{}, slices.Clone(log)); rep.Refused != 5 || rep.Failed != 0 {
		t.Errorf("got %+v, want 10 free successes, 5 failures and 5 refusals", rep)
	}
	if rep := run(t, src, Options{SkipStatus: map[int]bool{401: true}}, log); rep.Refused != 0 || rep.Skipped != 10 || rep.Requests != 10 {
		t.Errorf("without those answered 401: got %+v", rep)
	}
}

// Decided at their starts, failures count from their ends on, and what is under way is held until then.
func TestWhatIsUnderWayIsHeld(t *testing.T) {
	request := func(path string, start, took time.Duration, status int) accesslog.Entry {
		e := sent(start, "x", path)
		e.Started, e.Duration, e.Status = true, took, status
		return e
	}
	tests := []struct {
		why     string
		log     entries // by end
		refused int     // of /b
	}{
		{"one that is under way is held", entries{request("/b", 5*time.Second, time.Second, 200), request("/a", 0, 10*time.Second, 200)}, 1},
		{"a success is free after its end", entries{request("/a", 0, 10*time.Second, 200), request("/b", 10*time.Second, time.Second, 200)}, 0},
		{"a long one is held throughout", entries{request("/b", 4*time.Minute, time.Second, 200), request("/a", 0, 5*time.Minute, 200)}, 1},
		{"a failure is not", entries{request("/a", 0, 10*time.Second, 401), request("/b", 10*time.Second, time.Second, 200)}, 1},
	}
	for _, tt := range tests {
		rep := run(t, "rules: [{key: ip, limits: 1/d, final: failures}]", Options{AtStart: true}, tt.log)
		if rep.Refused != tt.refused || tt.refused > 0 && rep.Routes[0].Route != "GET /b" || rep.Failed != 0 {
			t.Errorf("%s: refused %v, want %d of /b; %s", tt.why, rep.Routes, tt.refused, rep.Error)
		}
	}
}

func TestLimitsOfRequestsInFlight(t *testing.T) {
	const src = "rules: [{key: ip, limits: 1 at once}]"
	e := sent(5*time.Second, "x", "/")
	e.Duration = 5 * time.Second
	log := entries{e, e, sent(7*time.Second, "x", "/")}
	log[2].Duration = time.Second
	all := func(string) bool { return true }
	if rep := run(t, src, Options{AtStart: true, Knows: all}, slices.Clone(log)); rep.Refused != 1 || rep.Failed != 0 {
		t.Errorf("got %+v, want one of two refused that overlap", rep)
	}
	if rep := run(t, src, Options{}, log); rep.LeftOut["default"] != Durations {
		t.Errorf("without durations: got %+v", rep)
	}
}

func TestInterruptedReplayReports(t *testing.T) {
	log := make(entries, 40_000)
	for i := range log {
		log[i] = sent(time.Duration(i), "x", "/")
	}
	ctx, cancel := context.WithCancel(t.Context())
	rep, err := Run(ctx, rules(t, "rules: [{key: ip, limits: 1/h}]"), []Source{&log}, Options{Progress: func(int) { cancel() }})
	if err != nil || !rep.Incomplete || rep.Requests == 0 || rep.Requests == 40_000 || rep.Refused != rep.Requests-1 {
		t.Errorf("got %v, %d of %d requests", err, rep.Refused, rep.Requests)
	}
}

// A live server and a replay of its log refuse the same requests.
func TestLockstepWithALiveServer(t *testing.T) {
	const src = `rules:
  - {name: all, key: ip, limits: "7/s, 40/m;sliding-window"}
  - {name: login, key: ip, limits: "3/10s;fixed-window, 9/m;sliding-log", match: [POST /login, "POST /v1/{tenant}/login"]}
  - {name: agent, key: "join(ip, header(User-Agent))", limits: 4/s;burst=9, match: /api/, cost: 2}
`
	var log strings.Builder
	var live []bool
	synctest.Test(t, func(t *testing.T) {
		l := core.Must(core.New(liveRules(t, src)))
		h := stdlib.New(l)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		random := rand.New(rand.NewPCG(1, 2))
		for range 5000 {
			time.Sleep(time.Duration(random.IntN(120_000)) * time.Microsecond)
			client := fmt.Sprintf("203.0.113.%d", random.IntN(3))
			path := []string{"/", "//login", "/v1/a/login", "/api/x", "/api/%79"}[random.IntN(5)]
			agent := []string{"a", "b"}[random.IntN(2)]
			r := httptest.NewRequest(http.MethodPost, path, nil)
			r.RemoteAddr = client + ":1"
			r.Header.Set("User-Agent", agent)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			live = append(live, w.Code == http.StatusTooManyRequests)
			fmt.Fprintf(&log, `{"ts":"%s","request":{"client_ip":"%s","method":"POST","uri":"%s","headers":{"User-Agent":["%s"]}},"status":%d}`+"\n",
				time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), client, path, agent, w.Code)
		}
	})
	p, left, err := newPlayer(rules(t, src), func(string) bool { return true })
	if err != nil || len(left) > 0 {
		t.Fatal(err, left)
	}
	reader, err := accesslog.NewReader("log", strings.NewReader(log.String()), accesslog.Options{Format: "caddy"})
	if err != nil {
		t.Fatal(err)
	}
	differences, refused := 0, 0
	var e accesslog.Entry
	for i := 0; reader.Next(&e) == nil; i++ {
		if p.decide(&e, e.At); p.refused != live[i] {
			differences++
		}
		if live[i] {
			refused++
		}
	}
	if differences != 0 || refused < 500 || refused > 4500 || reader.Entries != len(live) {
		t.Errorf("%d differences in %d of %d requests, %d of which were refused", differences, reader.Entries, len(live), refused)
	}
}

func liveRules(t *testing.T, src string) []core.Rule {
	t.Helper()
	f, err := rulefile.Parse([]byte(src), rulefile.Funcs{})
	if err != nil {
		t.Fatal(err)
	}
	return f.Rules
}

func BenchmarkRun(b *testing.B) {
	f, err := rulefile.Offline("f", []byte("rules: [{name: login, key: ip, limits: '5/10m, 200/d', match: POST /login}, {name: all, key: ip, limits: 10/s}]"))
	if err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "203.0.%d.%d - - [10/Oct/2025:13:55:%02d +0000] \"GET /api/users/%d HTTP/1.1\" 200 2326 \"http://example.com/\" \"Mozilla/5.0\"\n", i%16, i%251, i/200, i)
	}
	lines := 0
	for b.Loop() {
		r, err := accesslog.NewReader("log", strings.NewReader(text.String()), accesslog.Options{Format: "combined"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Run(b.Context(), f, []Source{r}, Options{Knows: func(string) bool { return true }}); err != nil {
			b.Fatal(err)
		}
		lines += 10_000
	}
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "lines/s")
}

func TestRequestsAreWhatTheServerReceived(t *testing.T) {
	tests := []struct {
		why, rule string
		e         accesslog.Entry
	}{
		{"an absolute URL names the host", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "http://example.com:80/a"}},
		{"else the log does", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "/a?b", Host: "example.com"}},
		{"escapes", "{key: ip, limits: 0/s, match: /login}", accesslog.Entry{Target: "/%6Cogin"}},
		{"a target that is none", "{key: ip, limits: 0/s, match: /a%zz}", accesslog.Entry{Target: "/a%zz?q"}},
		{"the user", "{key: join(basic, const(x)), limits: 0/s}", accesslog.Entry{Target: "/", User: "ann"}},
		{"a header", "{key: ip, limits: 0/s, headers: {X-A: b}}", accesslog.Entry{Target: "/", Header: http.Header{"X-A": {"b"}}}},
	}
	for _, tt := range tests {
		tt.e.At, tt.e.Client, tt.e.Method, tt.e.Duration = noon, "x", "GET", -1
		rule := strings.Replace(strings.Replace(tt.rule, "join(basic, const(x))", "'join(basic, const(x))'", 1), "/a%zz", "'/a%zz'", 1)
		rep := run(t, "rules: ["+rule+"]", Options{Knows: func(string) bool { return true }}, entries{tt.e})
		if rep.Refused != 1 || rep.Failed != 0 {
			t.Errorf("%s: the rule did not refuse it: %+v", tt.why, rep)
		}
	}
}

func TestTimelineDoublesItsColumns(t *testing.T) {
	var line Timeline
	for i := range 500 {
		at := noon.Add(time.Duration(i) * time.Second)
		line.add(at, at, i%5 == 0)
	}
	line.add(noon.Add(500*time.Second), noon, false) // late
	if line.Width != 8*time.Second || len(line.Asked) != 63 || !line.From.Equal(noon) {
		t.Fatalf("got %d columns of %v", len(line.Asked), line.Width)
	}
	asked, refused := 0, 0
	for i := range line.Asked {
		asked, refused = asked+line.Asked[i], refused+line.Refused[i]
		if i < 62 && line.Asked[i] != 8 {
			t.Errorf("column %d has %d requests, want 8", i, line.Asked[i])
		}
	}
	if asked != 501 || refused != 100 {
		t.Errorf("got %d requests, %d refused; want 501, 100", asked, refused)
	}
}

func TestManyRoutesAreBounded(t *testing.T) {
	r := &runner{player: &player{}, routes: make(map[string]int)}
	for i := range 20_000 {
		r.player.url.Path = "/a" + strings.Repeat("x", i%30) + fmt.Sprint(i)
		r.countRoute(&accesslog.Entry{Method: "GET"})
	}
	if len(r.routes) != 10_001 || r.routes["others"] != 10_000 {
		t.Errorf("got %d routes, %d others", len(r.routes), r.routes["others"])
	}
}
