package replay

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog/logtest"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

type entries = logtest.Entries

var noon, sent = logtest.Noon, logtest.Sent

func rules(t *testing.T, src string) *rulefile.File { return logtest.Rules(t, src) }

func run(t *testing.T, src string, o Options, logs ...entries) *Report {
	t.Helper()
	if o.Knows == nil {
		o.Knows = func(need string) bool { return need == Statuses }
	}
	sources := make([]Source, len(logs))
	for i := range logs {
		sources[i] = &logs[i]
	}
	return must.Get(Run(t.Context(), rules(t, src), sources, o))(t)
}

func TestRuleCountsOnlyItsOwnDenials(t *testing.T) {
	rep := run(t, `rules:
  - {name: all, key: ip, limits: 3/h}
  - {name: a, key: ip, limits: 1/h, match: /a}
  - {name: trial, key: const(x), limits: 1/h, dry_run: true}
`, Options{}, entries{
		sent(0, "1.1.1.1", "/a"), sent(1, "1.1.1.1", "/a"), sent(2, "2.2.2.2", "/b/7"), sent(3, "1.1.1.1", "/c"), sent(4, "1.1.1.1", "/c"),
		sent(5, "1.1.1.1", "/c/123"), sent(6, "1.1.1.1", "/c/"+strings.Repeat("x", 41)),
	})
	if rep.Requests != 7 || rep.Denied != 3 || !rep.From.Equal(noon) || !rep.To.Equal(noon.Add(6)) || rep.AtLeast != nil && *rep.AtLeast != 3 {
		t.Errorf("got %+v", rep)
	}
	want := []RuleReport{
		{Name: "all", Limits: []string{"3/1h"}, Asked: 7, Denied: 2, Keys: 2, KeysHit: 1, HitShares: []int{4: 1, 6: 0}, Hit: []ClientReport{{"ip:1.1.1.1", 6, 2}}},
		{Name: "a", Limits: []string{"1/1h"}, Asked: 2, Denied: 1, Keys: 1, KeysHit: 1, HitShares: []int{4: 1, 6: 0}, Hit: []ClientReport{{"ip:1.1.1.1", 2, 1}}},
		{Name: "trial", Limits: []string{"1/1h"}, DryRun: true, Asked: 7, Denied: 6, Keys: 1, KeysHit: 1, HitShares: []int{6: 1}, Hit: []ClientReport{{"const:x", 7, 6}}},
	}
	expect.Equal(t, fmt.Sprintf("%+v", rep.Rules), fmt.Sprintf("%+v", want), "result")
	expect.Equal(t, fmt.Sprint(rep.Routes), "[{GET /c/{} 2} {GET /a 1}]", "routes")
	expect.Equal(t, fmt.Sprint(rep.Timeline.Asked, rep.Timeline.Denied, rep.Timeline.Would, rep.Would), "[7] [3] [3] 3", "result")
}

// An override may have more or fewer limits than its rule, and a fast one where the rule is slow.
func TestOverridesAreReplayed(t *testing.T) {
	var log entries
	for _, client := range []string{"1.1.1.1", "2.2.2.2", "3.3.3.3"} {
		for i := range 6 {
			log = append(log, sent(time.Duration(i/3)*time.Second, client, "/"))
		}
	}
	rep := run(t, `rules:
  - {name: a, key: ip, limits: "1/h, 9/d", overrides: {"ip:1.1.1.1": 100/s, "ip:2.2.2.2": "8/m, 7/h, 2/d"}}
  - {name: b, key: ip, limits: 5/h, overrides: {"ip:3.3.3.3": "9/m, 1/h"}}
`, Options{}, log)
	var got []string
	for _, r := range rep.Rules {
		got = append(got, fmt.Sprint(r.Name, r.Asked, r.Denied, r.Hit))
	}
	expect.Equal(t, fmt.Sprint(rep.Denied, got), "10 [a18 9 [{ip:3.3.3.3 6 5} {ip:2.2.2.2 6 4}] b18 6 [{ip:3.3.3.3 6 5} {ip:1.1.1.1 6 1}]]", "result")
	rep = run(t, `rules: [{key: ip, limits: 1/h, overrides: {"1.0.0.0/8": 5/s;burst=1}}]`, Options{}, wholeSeconds(log[:6:6]))
	expect.True(t, rep.Denied == 4 && *rep.AtLeast == 0, "got %d denied, at least %v; want 4, 0", rep.Denied, *rep.AtLeast)
}

func TestWholeSecondsGiveARange(t *testing.T) {
	var log entries
	for i := range 10 {
		e := sent(time.Duration(i/5)*time.Second, "x", "/")
		e.Seconds = true
		log = append(log, e)
	}
	rep := run(t, "rules: [{key: ip, limits: 5/s;burst=1}]", Options{}, log)
	expect.True(t, rep.Denied == 8 && rep.AtLeast != nil && *rep.AtLeast == 0,
		"got %d denied, at least %v; want 8, 0", rep.Denied, rep.AtLeast)
	log[9].Seconds = false
	if rep := run(t, "rules: [{key: ip, limits: 1/s}]", Options{}, log); rep.AtLeast != nil {
		t.Errorf("got a range of %d for a log with fractions", *rep.AtLeast)
	}
}

func TestRulesThatNeedMoreAreLeftOut(t *testing.T) {
	src := "funcs: [user]\nrules: [{name: a, key: user, limits: 1/h}, {name: b, key: header(X-A), limits: 1/h}, {name: c, key: 'first(header(X-B), bearer)', limits: 1/h}]"
	e := sent(0, "x", "/")
	keyless := e
	e.Header = http.Header{"X-A": {"1"}}
	log := expect.KeepLog(t)
	rep := run(t, src, Options{Knows: func(need string) bool { return need == "header X-A" }}, entries{e, e, keyless})
	expect.True(t, rep.Failed == 1 && log.String() == "", "%d failed, logged %s", rep.Failed, log)
	expect.True(t, len(rep.Rules) == 1 && rep.Rules[0].Denied == 1 && rep.LeftOut["a"] == "function user" && rep.LeftOut["c"] == "header Authorization, header X-B",
		"got %+v", rep)
	rep = run(t, src, Options{}, entries{e})
	expect.True(t, len(rep.Rules) == 0 && rep.Requests == 1, "without any rule: got %+v", rep)
}

func TestInterruptedReplayReports(t *testing.T) {
	log := make(entries, 40_000)
	for i := range log {
		log[i] = sent(time.Duration(i), "x", "/")
	}
	ctx, cancel := context.WithCancel(t.Context())
	rep, err := Run(ctx, rules(t, "rules: [{key: ip, limits: 1/h}]"), []Source{&log}, Options{Progress: func(int) { cancel() }})
	expect.True(t, err == nil && rep.Incomplete && rep.Requests != 0 && rep.Requests != 40_000 && rep.Denied == rep.Requests-1,
		"got %v, %d of %d requests", err, rep.Denied, rep.Requests)
}

// A request that several dry runs would deny counts once. A request that another rule denies does not count.
func TestDryRunsCountWhatTheyWouldDeny(t *testing.T) {
	rep := run(t, `rules:
  - {name: first, key: ip, limits: 1/h, dry_run: true}
  - {name: second, key: ip, limits: 2/h, dry_run: true}
  - {name: third, key: ip, limits: 9/h, dry_run: true}
  - {name: all, key: ip, limits: 3/h}
`, Options{}, entries{sent(0, "a", "/"), sent(1, "a", "/"), sent(2, "a", "/"), sent(3, "a", "/"), sent(4, "b", "/")})
	expect.True(t, rep.Would == 2 && rep.Denied == 1, "dry runs would deny %d, and %d are denied; want 2 and 1", rep.Would, rep.Denied)
}

// TestCalendarWindowsTurnAtLocalMidnight replays requests around midnight in Berlin. UTC is an hour or two behind.
func TestCalendarWindowsTurnAtLocalMidnight(t *testing.T) {
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	day := noon.In(berlin)
	midnight := time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, berlin)
	at := func(d time.Duration) time.Duration { return midnight.Add(d).Sub(noon) }
	log := entries{
		sent(at(-3*time.Hour), "x", "/"), sent(at(-time.Second), "x", "/"), // the second is denied
		sent(at(0), "x", "/"), sent(at(23*time.Hour), "x", "/"), // and so is the fourth
		sent(at(24*time.Hour), "x", "/"),
	}
	rep := run(t, "rules: [{key: ip, limits: 1/day;tz=Europe/Berlin}]", Options{}, log)
	expect.True(t, rep.Denied == 2 && rep.Failed == 0, "got %+v, want 2 of 5 denied", rep)
}

// wholeSeconds returns entries whose times are whole seconds.
func wholeSeconds(log entries) entries {
	for i := range log {
		log[i].Seconds = true
	}
	return log
}

func TestRangeOfDenials(t *testing.T) {
	var log, long, timed, mixed entries
	for i := range 10 {
		e := sent(time.Duration(i/5)*time.Second, "x", "/")
		log = append(log, e)
		e.Started, e.Duration = true, time.Duration(i)*100*time.Millisecond
		timed = append(timed, e)
		e.At, e.Duration = noon, time.Duration(9+i%2)*100*time.Millisecond
		mixed = append(mixed, e)
	}
	for range 4 { // all start at once and take a second
		e := sent(0, "x", "/")
		e.Started, e.Duration = true, time.Second
		long = append(long, e)
	}
	all := func(string) bool { return true }
	for _, tt := range []struct {
		why, rules    string
		log           entries
		o             Options
		denied, least int
	}{
		{"a fast limit", "{key: ip, limits: 5/s;burst=1}", log, Options{}, 8, 0},
		{"the denials of a slow limit stand", "{key: ip, limits: 1/h}", log, Options{}, 9, 9},
		{"a slow dry run denies nothing", "{key: ip, limits: 1/h, dry_run: true}, {name: b, key: ip, limits: 5/s;burst=1}", log, Options{}, 8, 0},
		{"a fast limit is not charged for requests that a slow limit denies", "{key: ip, limits: 8/h}, {name: b, key: ip, limits: 5/s;burst=1}", log, Options{}, 8, 0},
		{"ends by a duration are as uncertain as the starts", "{key: ip, limits: 5/s;burst=1}", timed, Options{}, 4, 0},
		{"ends by durations are not in order", "{key: ip, limits: 10/s;burst=1}", mixed, Options{}, 8, 0},
		{"requests that are spread are held for the same time", "{key: ip, limits: 1 at once}", long, Options{AtStart: true, Knows: all}, 3, 3},
	} {
		rep := run(t, "rules: ["+tt.rules+"]", tt.o, wholeSeconds(append(entries(nil), tt.log...)))
		expect.True(t, rep.Denied == tt.denied && rep.AtLeast != nil && *rep.AtLeast == tt.least && rep.Failed <= 0,
			"%s: got %d denied, at least %v; want %d, %d", tt.why, rep.Denied, *rep.AtLeast, tt.denied, tt.least)
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
	src := "rules: [{name: login, key: ip, limits: 5/h, cost_after: failures}]"
	rep := run(t, src, Options{}, slices.Clone(log))
	expect.True(t, rep.Denied == 5 && rep.Failed == 0, "got %+v, want 10 free successes, 5 failures and 5 denials", rep)
	none := func(string) bool { return false }
	rep = run(t, src, Options{Knows: none}, slices.Clone(log))
	expect.Equal(t, rep.LeftOut["login"], Statuses, "without statuses: %+v", rep)
	rep = run(t, src, Options{SkipStatus: map[int]bool{401: true}}, log)
	expect.True(t, rep.Denied == 0 && rep.Skipped == 10 && rep.Requests == 10, "without those answered 401: got %+v", rep)
}

// A request is decided when it starts and held until it ends. After that, it counts if it failed.
func TestRequestsInFlightAreHeld(t *testing.T) {
	request := func(path string, start, took time.Duration, status int) accesslog.Entry {
		e := sent(start, "x", path)
		e.Started, e.Duration, e.Status = true, took, status
		return e
	}
	for _, tt := range []struct {
		why    string
		log    entries // by end
		denied int     // of /b
	}{
		{"a request in flight is held", entries{request("/b", 5*time.Second, time.Second, 200), request("/a", 0, 10*time.Second, 200)}, 1},
		{"a success is free once it has ended", entries{request("/a", 0, 10*time.Second, 200), request("/b", 10*time.Second, time.Second, 200)}, 0},
		{"a long request is held until its end", entries{request("/b", 4*time.Minute, time.Second, 200), request("/a", 0, 5*time.Minute, 200)}, 1},
		{"a failure is not", entries{request("/a", 0, 10*time.Second, 401), request("/b", 10*time.Second, time.Second, 200)}, 1},
		{"a request without a response is not free", entries{request("/a", 0, 10*time.Second, 0), request("/b", 10*time.Second, time.Second, 200)}, 1},
	} {
		rep := run(t, "rules: [{key: ip, limits: 1/d, cost_after: failures}]", Options{AtStart: true}, tt.log)
		if rep.Denied != tt.denied || tt.denied > 0 && rep.Routes[0].Route != "GET /b" || rep.Failed != 0 {
			t.Errorf("%s: denied %v, want %d of /b; %s", tt.why, rep.Routes, tt.denied, rep.Error)
		}
	}
}

func TestLimitsOfRequestsInFlight(t *testing.T) {
	const src = "rules: [{key: ip, limits: 1 at once}]"
	e := sent(5*time.Minute, "x", "/")
	e.Duration = 5 * time.Minute
	log := entries{e, e, sent(6*time.Minute, "x", "/"), sent(7*time.Minute, "x", "/")}
	log[2].Duration, log[3].Duration = 2*time.Minute, time.Second
	all := func(string) bool { return true }
	rep := run(t, src, Options{AtStart: true, Knows: all}, slices.Clone(log))
	expect.True(t, rep.Denied == 2 && rep.Failed == 0, "got %+v, want two of the three overlapping requests denied", rep)
	rep = run(t, src, Options{}, log)
	expect.Equal(t, rep.LeftOut["default"], Durations, "without durations: %+v", rep)
}

func TestClientsByTheirShareOfDeniedRequests(t *testing.T) {
	tally := tally{clients: make(map[uint64]clientTally), names: make(map[uint64]string)}
	for hash, c := range []clientTally{{1000, 1}, {100, 1}, {1000, 11}, {20, 1}, {4, 1}, {400, 101}, {2, 1}, {4, 3}, {100, 76}, {7, 7}, {5, 0}} {
		tally.clients[uint64(hash)] = c
		if c.denied > 0 {
			tally.names[uint64(hash)] = "key"
		}
	}
	expect.Elements(t, tally.hitShares(), []int{2, 2, 0, 1, 2, 1, 2}, "for the bounds %v", Shares)
}
