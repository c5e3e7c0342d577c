package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

// fileWith returns the path of a rules file.
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
  - {name: pro, headers: {X-Plan: pro}, key: bearer, limits: 1/s, cost: 3}
  - {name: bots, match: isBot, key: ip, limits: 1/m}
`

func TestCheckFile(t *testing.T) {
	good, bad := fileWith(t, goodRules), fileWith(t, "rules:\n  - name: a\n    key: ip\n    limit: 5/m\n  - key: usr\n    limits: 1/s\n")
	missing := filepath.Join(t.TempDir(), "none.yaml")
	tests := []struct {
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
	}
	for _, tt := range tests {
		code, stdout, stderr := execute(t, append([]string{"check"}, tt.args...)...)
		if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
			t.Errorf("check %q: exit code %d, stdout\n%s\nstderr\n%s\nwant %d\n%s\n%s", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
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
	if code != 0 || stdout != want || stderr != "" {
		t.Errorf("exit code %d, stderr %q, stdout\n%s\nwant\n%s", code, stderr, stdout, want)
	}
}

func TestExplainJSON(t *testing.T) {
	code, stdout, _ := execute(t, "explain", "--json", fileWith(t, goodRules), "GET", "/api/", "-H", "X-Plan: pro")
	var all []rulefile.Explanation
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 || len(all) != 4 || all[1].Applies != "yes" || !all[1].DryRun ||
		all[2].Applies != "yes" || all[2].Cost != "3" || all[1].Tiers != "plan: pro 99/1s" {
		t.Errorf("exit code %d, stdout\n%s", code, stdout)
	}
}

func TestExplainMistakes(t *testing.T) {
	good, bad := fileWith(t, goodRules), fileWith(t, "rules: none\n")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{good, "POST"}, 2, "explain wants FILE METHOD PATH, got 2 arguments"},
		{[]string{good, "POST", "login"}, 2, `"login" is not a path such as /login`},
		{[]string{good, "POST", "/", "-H", "plan"}, 2, `"plan" is not a header field`},
		{[]string{good + "x", "POST", "/"}, 2, "no such file"},
		{[]string{bad, "POST", "/"}, 1, "1:8: rules: want a list, got a text\n"},
	} {
		code, stdout, stderr := execute(t, append([]string{"explain"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("explain %q: exit code %d, stdout %q, stderr %q; want %d, %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

func TestSchema(t *testing.T) {
	code, stdout, stderr := execute(t, "schema")
	if code != 0 || stderr != "" || !json.Valid([]byte(stdout)) || stdout != string(rulefile.Schema()) {
		t.Errorf("exit code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
}
