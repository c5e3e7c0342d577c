package replay

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog/logtest"
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
		sent(5, "1.1.1.1", "/c/123"), sent(6, "1.1.1.1", "/c/124"),
	})
	if rep.Requests != 7 || rep.Denied != 3 || !rep.From.Equal(noon) || !rep.To.Equal(noon.Add(6)) || rep.AtLeast != nil && *rep.AtLeast != 3 {
		t.Errorf("got %+v", rep)
	}
	want := []RuleReport{
		{Name: "all", Limits: []string{"3/1h"}, Asked: 7, Denied: 2, Keys: 2, KeysHit: 1, HitShares: []int{4: 1, 6: 0}, Hit: []ClientReport{{"ip:1.1.1.1", 6, 2}}},
		{Name: "a", Limits: []string{"1/1h"}, Asked: 2, Denied: 1, Keys: 1, KeysHit: 1, HitShares: []int{4: 1, 6: 0}, Hit: []ClientReport{{"ip:1.1.1.1", 2, 1}}},
		{Name: "trial", Limits: []string{"1/1h"}, DryRun: true, Asked: 7, Denied: 6, Keys: 1, KeysHit: 1, HitShares: []int{6: 1}, Hit: []ClientReport{{"const:x", 7, 6}}},
	}
	if got, want := fmt.Sprintf("%+v", rep.Rules), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := fmt.Sprint(rep.Routes); got != "[{GET /c/{} 2} {GET /a 1}]" {
		t.Errorf("got routes %s", got)
	}
	if got := fmt.Sprint(rep.Timeline.Asked, rep.Timeline.Denied, rep.Timeline.Would, rep.Would); got != "[7] [3] [3] 3" {
		t.Errorf("got %s", got)
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
	if rep.Denied != 8 || rep.AtLeast == nil || *rep.AtLeast != 0 {
		t.Errorf("got %d denied, at least %v; want 8, 0", rep.Denied, rep.AtLeast)
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
	if len(rep.Rules) != 1 || rep.Rules[0].Denied != 1 || rep.LeftOut["a"] != "function user" || rep.LeftOut["c"] != "header Authorization, header X-B" {
		t.Errorf("got %+v", rep)
	}
	if rep := run(t, src, Options{}, entries{e}); len(rep.Rules) != 0 || rep.Requests != 1 {
		t.Errorf("without any rule: got %+v", rep)
	}
}

func TestInterruptedReplayReports(t *testing.T) {
	log := make(entries, 40_000)
	for i := range log {
		log[i] = sent(time.Duration(i), "x", "/")
	}
	ctx, cancel := context.WithCancel(t.Context())
	rep, err := Run(ctx, rules(t, "rules: [{key: ip, limits: 1/h}]"), []Source{&log}, Options{Progress: func(int) { cancel() }})
	if err != nil || !rep.Incomplete || rep.Requests == 0 || rep.Requests == 40_000 || rep.Denied != rep.Requests-1 {
		t.Errorf("got %v, %d of %d requests", err, rep.Denied, rep.Requests)
	}
}

// A request that several dry runs would deny counts once. A request that another rule denies does not count.
func TestDryRunsCountWhatTheyWouldDeny(t *testing.T) {
	rep := run(t, `rules:
  - {name: first, key: ip, limits: 1/h, dry_run: true}
  - {name: second, key: ip, limits: 2/h, dry_run: true}
  - {name: third, key: ip, limits: 9/h, dry_run: true}
  - {name: all, key: ip, limits: 3/h}
`, Options{}, entries{sent(0, "a", "/"), sent(1, "a", "/"), sent(2, "a", "/"), sent(3, "a", "/"), sent(4, "b", "/")})
	if rep.Would != 2 || rep.Denied != 1 {
		t.Errorf("dry runs would deny %d, and %d are denied; want 2 and 1", rep.Would, rep.Denied)
	}
}
