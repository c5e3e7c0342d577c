package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spillgate.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const goodRules = `funcs: [plan, isBot]
rules:
  - {name: login, match: POST /login, key: ip, limits: "5/10m, 20/d", on_failure: closed}
  - {name: api, match: /api/, key: ip, limits: 10/s, tiers: {func: plan, pro: 99/s}, dry_run: true}
  - {name: pro, headers: {X-Plan: pro}, key: bearer, limits: 5/s, cost: 3}
  - {name: bots, match: isBot, key: ip, limits: 1/m}
`

func TestCheckFile(t *testing.T) {
	good, bad := fileWith(t, goodRules), fileWith(t, "rules:\n  - name: a\n    key: ip\n    limit: 5/m\n  - key: usr\n    limits: 1/s\n")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{good}, 0, good + ": 4 rules, no mistakes\n", ""},
		{[]string{bad}, 1, "", bad + `:4:5: unknown field "limit" of a rule; did you mean limits?` + "\n    4 |     limit: 5/m\n      |     ^\n" +
			bad + `:5:10: unknown key "usr"; want ip, bearer, basic, method, pattern, apikey, header, cookie, const, first, join` +
			"\n    5 |   - key: usr\n      |          ^\n2 mistakes\n"},
		{[]string{"--json", good}, 0, "{\n  \"rules\": 4,\n  \"mistakes\": []\n}\n", ""},
		{[]string{missing}, 2, "", "spillgate: rules: open " + missing + ": no such file or directory\n"},
		{nil, 2, "", "spillgate: check wants FILE, got 0 arguments\n"},
		{[]string{good, bad}, 2, "", "spillgate: check wants FILE, got 2 arguments\n"},
		{[]string{"--colour", good}, 2, "", "spillgate: unknown flag: --colour\n"},
	} {
		code, stdout, stderr := execute(t, append([]string{"check"}, tt.args...)...)
		expect.True(t, code == tt.code && stdout == tt.stdout && stderr == tt.stderr,
			"check %q: exit code %d, stdout\n%s\nstderr\n%s\nwant %d\n%s\n%s", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
	}
	warned := fileWith(t, "skip: {addresses: [10.0.0.0/8]}\nrules: [{key: ip, limits: 1/s}]\n")
	const warning = "behind a proxy nobody is skipped by address: the file trusts no proxies"
	if code, stdout, stderr := execute(t, "check", warned); code != 0 || stdout != warned+": 1 rule, no mistakes\n" ||
		!strings.HasPrefix(stderr, "warning: "+warned+":1:8: "+warning+"\n") {
		t.Errorf("with a warning: exit code %d, stdout\n%s\nstderr\n%s", code, stdout, stderr)
	}
	if code, stdout, _ := execute(t, "check", "--json", warned); code != 0 || !strings.Contains(stdout, `"text": "`+warning) || !strings.Contains(stdout, `"warnings"`) {
		t.Errorf("with a warning: exit code %d, stdout\n%s", code, stdout)
	}
	code, stdout, stderr := execute(t, "check", "--json", bad)
	var v verdict
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 1 || stderr != "" || len(v.Mistakes) != 2 ||
		v.Mistakes[0] != (mistake{bad, 4, 5, `unknown field "limit" of a rule; did you mean limits?`}) {
		t.Errorf("check --json: exit code %d, stdout\n%s\nstderr\n%s", code, stdout, stderr)
	}
}

func TestExplain(t *testing.T) {
	code, stdout, stderr := execute(t, "explain", fileWith(t, goodRules), "POST", "/login/?a=b", "-H", "X-Plan: free")
	want := `POST /login/?a=b

login applies
  why         matches POST /login
  key         ip
  limits      5/10m, 20/1d
  on failure  closed

bots applies if functions of the program say so
  why         it has no patterns, so it applies to every path; the program decides by isBot
  key         ip
  limits      1/1m
  on failure  local

Rules that do not apply:
  api: no pattern matches: /api/
  pro: it has no patterns, so it applies to every path; X-Plan is free, want pro
`
	expect.True(t, code == 0 && stdout == want && stderr == "", "exit code %d, stderr %q, stdout\n%s\nwant\n%s", code, stderr, stdout, want)
}

func TestExplainJSON(t *testing.T) {
	code, stdout, _ := execute(t, "explain", "--json", fileWith(t, goodRules), "GET", "/api/", "-H", "X-Plan: pro")
	var all []rulefile.Explanation
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 || len(all) != 4 || all[1].Applies != "yes" || !all[1].DryRun ||
		all[2].Applies != "yes" || all[2].Cost != "3" || all[1].Tiers != "plan: pro 99/1s" {
		t.Errorf("exit code %d, stdout\n%s", code, stdout)
	}
}

// A request for a URL has the host of the URL, whatever its field Host says.
func TestExplainHosts(t *testing.T) {
	file := fileWith(t, "rules: [{key: const(x), limits: 1/s, match: a.example/x}]")
	for _, tt := range []struct{ target, host, applies string }{
		{"/x", "a.example", "yes"}, {"/x", "b.example", "no"}, {"http://a.example/x", "b.example", "yes"}, {"http://b.example/x", "a.example", "no"},
	} {
		_, stdout, _ := execute(t, "explain", "--json", file, "GET", tt.target, "-H", "Host: "+tt.host)
		expect.True(t, strings.Contains(stdout, `"applies": "`+tt.applies+`"`), "%v: got %s", tt, stdout)
	}
}

func TestExplainMistakes(t *testing.T) {
	good, bad := fileWith(t, goodRules), fileWith(t, "rules: none\n")
	checkBadCalls(t, "explain", []badCall{
		{[]string{good}, 2, "explain wants FILE METHOD PATH, got 1 argument\n"},
		{[]string{good, "POST"}, 2, "explain wants FILE METHOD PATH, got 2 arguments"},
		{[]string{good, "POST", "login"}, 2, `"login" is not a path such as /login`},
		{[]string{good, "POST", "/", "-H", "plan"}, 2, `"plan" is not a header field`},
		{[]string{good + "x", "POST", "/"}, 2, "no such file"},
		{[]string{bad, "POST", "/"}, 1, "1:8: rules: want a list, got a text\n"},
	})
}

func TestSchema(t *testing.T) {
	code, stdout, stderr := execute(t, "schema")
	expect.True(t, code == 0 && stderr == "" && json.Valid([]byte(stdout)) && stdout == string(rulefile.Schema()),
		"exit code %d, stderr %q, stdout\n%s", code, stderr, stdout)
}

func TestExplainSkipAndOverrides(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.yaml")
	text := "skip: {addresses: [10.0.0.0/8], routes: [/healthz]}\nrules:\n  - {key: ip, limits: 5/month, overrides: {\"203.0.113.0/24\": 0/s}}\n"
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	tenants := fileWith(t, "rules: [{key: header(X-Tenant), limits: 1/s}]\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", name, "GET", "/healthz"}, "skipped: its route is skipped"},
		{[]string{"explain", name, "GET", "/x", "--client", "10.1.2.3"}, "skipped: its address is skipped"},
		{[]string{"explain", name, "GET", "/x", "--client", "192.0.2.1"}, "1 key or network has limits of its own"},
		{[]string{"explain", name, "GET", "/x", "--client", "192.0.2.1"}, "client key  ip:192.0.2.1\n  limits      5/month\n  overrides"},
		{[]string{"explain", name, "GET", "/x", "--client", "203.0.113.7"}, "own limits  0/1s\n"},
		{[]string{"explain", name, "GET", "/x", "--client", "192.0.2.1", "--json"}, `"client_key": "ip:192.0.2.1"`},
		{[]string{"explain", tenants, "GET", "/", "-H", "X-Tenant: acme"}, "client key  header:x-tenant:acme\n"},
		{[]string{"explain", tenants, "GET", "/", "-H", "X-Tenant: acme", "--json"}, `"client_key": "header:x-tenant:acme"`},
		{[]string{"explain", tenants, "GET", "/", "--client", "192.0.2.1"}, "no key      "},
	} {
		var out strings.Builder
		cmd := newExplain()
		cmd.SetArgs(tt.args[1:])
		cmd.SetOut(&out)
		if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%v: got %v, %s; want %q", tt.args, err, out.String(), tt.want)
		}
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// replied is a reply with these header values. An empty value leaves the header out.
func replied(status int, remaining, retryAfter string) reply {
	h := http.Header{}
	if remaining != "" {
		h.Set("X-RateLimit-Limit", "2")
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Reset", "1772366405")
	}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return reply{status: status, header: h, at: noon}
}

func TestCheck(t *testing.T) {
	limits := core.MustParseLimits("2/10s")
	admitted, denied := replied(200, "1", ""), replied(429, "0", "5")
	later := func(r reply) *reply { return &r }
	good := func() visit {
		return visit{router: "chi", replies: []reply{admitted, admitted, denied}, later: later(admitted)}
	}
	for _, tt := range []struct {
		why    string
		change func(*visit)
		limits string // if not 2/10s
		shared bool
		want   string // in the error; empty if no error is expected
	}{
		{why: "correct", change: func(*visit) {}},
		{why: "a request failed", change: func(v *visit) { v.err = errors.New("connection reset") }, want: "chi: connection reset"},
		{why: "no key", change: func(v *visit) { v.replies = []reply{replied(400, "", "")} }, want: "request 1 was answered 400 Bad Request"},
		{why: "denied too early", change: func(v *visit) { v.replies = v.replies[1:] }, want: "it denied request 2, but 2/10s admits 2"},
		{why: "denied early because of other processes", change: func(v *visit) { v.replies = v.replies[2:] }, shared: true},
		{why: "denied too late", change: func(v *visit) { v.replies = append([]reply{admitted}, v.replies...) }, want: "it admitted 3 requests"},
		{why: "one more because time passed", change: func(v *visit) {
			v.replies, v.sending = append([]reply{admitted}, v.replies...), 5*time.Second
		}},
		{why: "no headers", change: func(v *visit) { v.replies[1] = replied(200, "", "") }, want: "reply 2 lacks rate limit headers"},
		{why: "a denial with something left", change: func(v *visit) { v.replies[2] = replied(429, "1", "5") }, want: "the denial shows 1 remaining"},
		{why: "no wait announced", change: func(v *visit) { v.replies[2] = replied(429, "0", "") }, want: `Retry-After is "", want whole seconds`},
		{why: "a wait of 0 is a hot loop", change: func(v *visit) { v.replies[2] = replied(429, "0", "0") }, want: `Retry-After is "0"`},
		{why: "a wait in fractions", change: func(v *visit) { v.replies[2] = replied(429, "0", "4.5") }, want: `Retry-After is "4.5"`},
		{why: "two waits", change: func(v *visit) {
			v.replies[2] = replied(429, "0", "5")
			v.replies[2].header.Add("Retry-After", "6")
		}, want: "Retry-After"},
		{why: "denied after the wait", change: func(v *visit) { v.later = later(denied) }, want: "after the announced wait of 5s was answered 429"},
		{why: "another process got the request", change: func(v *visit) { v.later = later(denied) }, shared: true},
		{why: "broken after the wait", change: func(v *visit) { v.later = later(replied(500, "", "")) }, shared: true, want: "was answered 500"},
		{why: "a wait that is too long to observe", change: func(v *visit) { v.later = nil }},
		{why: "nothing is ever admitted", limits: "0/1s", change: func(v *visit) {
			v.replies, v.later = []reply{replied(429, "0", "")}, nil
		}},
		{why: "nothing is ever admitted, but a wait is announced", limits: "0/1s", change: func(v *visit) {
			v.replies, v.later = []reply{denied}, nil
		}, want: `it never admits a request, but announces Retry-After "5"`},
	} {
		v, limits := good(), limits
		if tt.limits != "" {
			limits = core.MustParseLimits(tt.limits)
		}
		tt.change(&v)
		err := check([]visit{v}, limits, tt.shared)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.why, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want %q", tt.why, err, tt.want)
		}
	}
}

func TestCheckReportsAll(t *testing.T) {
	broken := errors.New("connection reset")
	err := check([]visit{{router: "chi", err: broken}, {router: "gin", err: broken}}, nil, false)
	expect.True(t, err != nil && err.Error() == "chi: connection reset\ngin: connection reset", "error %v", err)
}

func TestAdmissible(t *testing.T) {
	for _, tt := range []struct {
		limits      string
		span        time.Duration
		least, most int
	}{
		{"10/1s", 0, 10, 10},
		{"10/1s", 199 * time.Millisecond, 10, 11},        // refilled continuously
		{"10/1s;burst=3", 200 * time.Millisecond, 3, 5},  // from the burst
		{"10/1s;fixed-window", time.Millisecond, 10, 20}, // around the start of a window
		{"10/1s;fixed-window", 1001 * time.Millisecond, 10, 30},
		{"10/1s;sliding-window", 999 * time.Millisecond, 10, 10},
		{"10/1s;sliding-log", time.Second, 10, 20},
		{"10/1s, 4/1m;sliding-log", 3 * time.Second, 4, 4}, // all limits apply
		{"10/1s, 5 at once", 199 * time.Millisecond, 10, 11},
		{"10/1s, 0 at once", 199 * time.Millisecond, 0, 0},
	} {
		if least, most := admissible(core.MustParseLimits(tt.limits), tt.span); least != tt.least || most != tt.most {
			t.Errorf("%s within %v: %d to %d, want %d to %d", tt.limits, tt.span, least, most, tt.least, tt.most)
		}
	}
}
