package rulefile_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/rulecases"
	"github.com/spillgate/spillgate/rulefile"
)

// program are the functions of a program that uses files.
var program = rulefile.Funcs{
	Keys: rulecases.Keys, Tiers: rulecases.Tiers, Costs: rulecases.Costs, CostsAfter: rulecases.CostsAfter, Matches: rulecases.Matches,
}

const whole = rulecases.Whole

func mustParse(t *testing.T, src string) *rulefile.File {
	t.Helper()
	return must.Get(rulefile.Parse([]byte(src), program))(t)
}

// A nil key func must not give all clients one key.
func TestNilFunctionsAreMistakes(t *testing.T) {
	src := `funcs: [user, plan, export, final, internal]
rules:
  - {key: user, limits: 1/m, match: internal, cost: export, cost_after: final, tiers: {func: plan, pro: 2/m}}
`
	_, err := rulefile.Parse([]byte(src), rulefile.Funcs{
		Keys: map[string]core.KeyFunc{"user": nil}, Tiers: map[string]func(*http.Request) string{"plan": nil}, Costs: map[string]func(*http.Request) int{"export": nil},
		CostsAfter: map[string]func(*http.Request, core.Outcome) int{"final": nil}, Matches: map[string]func(*http.Request) bool{"internal": nil},
	})
	for _, want := range []string{"3:11: ", "user", "plan", "export", "final", "internal"} {
		expect.True(t, err != nil && strings.Contains(err.Error(), want) && strings.Count(err.Error(), "the program supplies nil as the function ") == 5,
			"got the error %v, want five mistakes, one of them %q", err, want)
	}
}

func TestParseReadsAllFields(t *testing.T) {
	f := mustParse(t, whole)
	must.True(t, len(f.Rules) == 6 && f.Rules[5].MaxWait == 5*time.Second && f.Rules[4].MaxWait == 0 &&
		f.Rules[4].Lease == 100*time.Millisecond && f.Rules[0].Lease == 0 && len(f.Hash) == 64 &&
		slices.Equal(f.Rules[4].Override("ip:203.0.113.9"), []core.Limit{core.PerSecond(9)}) && f.Rules[3].Override == nil,
		"got %+v", f)
	login, api, rest := f.Rules[0], f.Rules[1], f.Rules[2]
	expect.True(t, login.Name == "login" && slices.Equal(login.Routes, []string{"POST /login", "POST /v1/{tenant}/login"}) && login.OnFailure == core.FailClosed &&
		slices.Equal(login.Limits, []core.Limit{core.Every(5, 10*time.Minute), core.PerDay(20)}) && !login.DryRun && login.Cost == nil && login.Tier == nil,
		"login: got %+v", login)
	expect.True(t, api.OnFailure == core.FailOpen && api.DryRun && slices.Equal(api.Limits, []core.Limit{core.PerSecond(10), core.PerMinute(120).WithBurst(200)}) &&
		slices.Equal(api.Routes, []string{"/api/"}),
		"api: got %+v", api)
	expect.True(t, rest.Name == "default" && rest.Match == nil && rest.Routes == nil && rest.Cost(nil) == 3 && rest.OnFailure == core.FailLocal,
		"the rule without a name: got %+v", rest)
	for i, want := range []int{-1, -1, 0, 9, -1} {
		final := f.Rules[i].CostAfter
		if (final == nil) != (want < 0) || final != nil && final(nil, core.Outcome{Cost: 1, Status: 200, Bytes: 9}) != want {
			t.Errorf("rule %d: final is not as the file says", i)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.1.2.3:9"
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	r.Header.Set("U", "ann")
	expect.True(t, !login.Match(r) && !api.Match(r), "the headers or the program's match do not narrow a rule")
	key, err := login.Key(r)
	expect.True(t, key == "ip:203.0.113.7" && err == nil, "ip behind a proxy: got %q, %v", key, err)
	key, err = api.Key(r)
	expect.True(t, key == "user:ann" && err == nil, "a key of the program: got %q, %v", key, err)
	key, err = rest.Key(r)
	expect.True(t, key == "user:ann" && err == nil, "the last of first: got %q, %v", key, err)
	expect.Equal(t, api.Cost(r), 7, "the cost is not the program's")
	for plan, want := range map[string][]core.Limit{"pro": {core.PerSecond(100)}, "free": {core.PerSecond(1)}, "gold": nil, "func": nil} {
		r.Header.Set("Plan", plan)
		expect.Elements(t, api.Tier(r), want, "tier %s", plan)
	}
}

func TestLimitsOfAllKinds(t *testing.T) {
	f := mustParse(t, "rules: [{key: ip, limits: '5/10m;ban=1h, 20 at once'}]")
	want := []core.Limit{{Rate: 5, Period: 10 * time.Minute, Ban: time.Hour}, core.AtOnce(20)}
	expect.Elements(t, f.Rules[0].Limits, want, "f.Rules[0].Limits")
}

func TestMatchNarrows(t *testing.T) {
	f := mustParse(t, whole)
	for _, tt := range []struct {
		rule    int
		headers http.Header
		want    bool
	}{
		{0, http.Header{"X-Plan": {"pro"}, "X-Kind": {"b"}}, true},
		{0, http.Header{"X-Plan": {"free", "pro"}, "X-Kind": {"a"}}, true},
		{0, http.Header{"X-Plan": {"pro"}}, false},
		{0, http.Header{"X-Plan": {"PRO"}, "X-Kind": {"a"}}, false},
		{1, http.Header{"Internal": {"1"}}, true},
		{1, nil, false},
	} {
		expect.Equal(t, f.Rules[tt.rule].Match(&http.Request{Header: tt.headers}), tt.want, "rule %d, %v", tt.rule, tt.headers)
	}
}

func TestIPWithoutProxiesIsThePeer(t *testing.T) {
	f := mustParse(t, "rules: [{key: ip, limits: 1/s}]")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	key, err := f.Rules[0].Key(r)
	expect.True(t, key == "ip:192.0.2.1" && err == nil, "got %q, %v", key, err)
}

func TestHashIsOfTheContents(t *testing.T) {
	a, b := mustParse(t, whole), mustParse(t, whole+"\n")
	expect.True(t, a.Hash != b.Hash && a.Hash == mustParse(t, whole).Hash, "got %s and %s", a.Hash, b.Hash)
}

// Editors on Windows write a byte order mark, and PowerShell redirects output as UTF-16.
func TestFilesFromWindows(t *testing.T) {
	for _, src := range []string{whole, "# rules\n" + whole, "---\n" + whole, strings.ReplaceAll(whole, "\n", "\r\n")} {
		got, want := mustParse(t, "\ufeff"+src), mustParse(t, src)
		expect.True(t, slices.Equal(names(got), names(want)) && got.Hash != want.Hash,
			"%q: got rules %q, want %q", src[:20], names(got), names(want))
	}
	_, err := rulefile.Parse([]byte("\ufeffrule:\n"), program)
	want := "spillgate.yaml:1:1: unknown field \"rule\" of the file; did you mean rules?\n    1 | rule:\n      | ^"
	expect.True(t, err != nil && strings.HasPrefix(err.Error(), want), "got\n%v\nwant\n%s", err, want)
	for _, src := range []string{"\xff\xfer\x00u\x00", "\xfe\xff\x00r\x00u", "r\x00u\x00", "\x00r\x00u"} {
		if _, err := rulefile.Parse([]byte(src), program); err == nil || !strings.HasPrefix(err.Error(), "spillgate.yaml:1:1: the file is UTF-16, want UTF-8\n") || strings.Count(err.Error(), "yaml:") != 1 {
			t.Errorf("%q: got %v", src, err)
		}
	}
}

func names(f *rulefile.File) (names []string) {
	for _, r := range f.Rules {
		names = append(names, r.Name)
	}
	return names
}

func TestCheckAcceptsDeclaredNames(t *testing.T) {
	expect.NoError(t, expect.ErrorOf(rulefile.Check("f.yaml", []byte(whole))), "Check")
	_, err := rulefile.Check("f.yaml", []byte(strings.Replace(whole, "[user, plan,", "[plan,", 1)))
	expect.True(t, err != nil && strings.Count(err.Error(), `unknown key "user"`) == 2 && strings.HasPrefix(err.Error(), "f.yaml:5:8: "),
		"got %v, want the undeclared name at both places", err)
}

func TestMistakesShowTheLineAndACaret(t *testing.T) {
	_, err := rulefile.Parse([]byte("rules:\n  - name: a\n    key: ip\n    limit: 5/m # é\n    limits: 1/s, often\n"), program)
	want := `spillgate.yaml:4:5: unknown field "limit" of a rule; did you mean limits?
    4 |     limit: 5/m # é
      |     ^
spillgate.yaml:5:18: limit "often": want RATE/PERIOD, such as 100/m, or RATE at once
    5 |     limits: 1/s, often
      |                  ^`
	expect.True(t, err != nil && err.Error() == want, "got\n%v\nwant\n%s", err, want)
	var m *rulefile.Mistake
	expect.True(t, errors.As(err, &m) && m.Line == 4 && errors.Is(err, core.ErrInvalid), "got %#v", err)
}

func TestMistakesCannotMoveTheCursor(t *testing.T) {
	_, err := rulefile.Parse([]byte("rules: \"\x1b[2J\u009b\"\n"), program)
	expect.True(t, err != nil && !strings.ContainsAny(err.Error(), "\x1b\u009b"), "got %q", err)
}

func TestMistakesInLongLinesAreShort(t *testing.T) {
	_, err := rulefile.Parse([]byte("rules: [{key: ip, limits: "+strings.Repeat("1/s, ", 5000)+"often}]"), program)
	for line := range strings.SplitSeq(fmt.Sprint(err), "\n") {
		expect.True(t, strings.HasPrefix(line, "spillgate.yaml") || len(line) <= 250, "got a line of %d bytes", len(line))
	}
}
