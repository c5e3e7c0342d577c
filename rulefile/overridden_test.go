package rulefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/rulefile"
)

// manyUsers is a file in which 10,000 users have their own limits.
func manyUsers(n int) string {
	var b strings.Builder
	b.WriteString("funcs: [user]\nrules:\n  - name: api\n    key: user\n    limits: 5/h\n    overrides:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "      \"user:U%d\": %d/h\n", i, n)
	}
	return b.String()
}

func TestOverridesAreSwappedUnderLoad(t *testing.T) {
	changeUnderLoad(t, "U77", manyUsers, func(l *core.Limiter) {
		d, err := l.Peek(requestOf("nobody"))
		expect.True(t, err == nil && d.Results[0].Limit.Rate == 5, "got %+v, %v; want the limits of the rule", d, err)
	})
}

func perUser(n int) string {
	return fmt.Sprintf("funcs: [user]\nrules: [{name: api, key: user, limits: %d/h}]\n", n)
}

func requestOf(user string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("U", user)
	return r
}

// A load sends requests of many users, and asks how much one user has left, until it is stopped.
type load struct {
	limiter            *core.Limiter
	stop               atomic.Bool
	decided, undecided atomic.Int64
	wrong              atomic.Int64 // results for that user with neither limit
	wg                 sync.WaitGroup
}

func (l *load) begin(workers int, one string, left ...int) {
	for n := range workers {
		l.wg.Go(func() {
			for i := 0; !l.stop.Load(); i++ {
				time.Sleep(time.Millisecond)
				d, err := l.limiter.Check(requestOf(fmt.Sprintf("%d-%d", n, i%500)))
				l.note(d, err)
				d, err = l.limiter.Peek(requestOf(one))
				if l.note(d, err) && d.Results[0].Remaining != left[0] && d.Results[0].Remaining != left[1] {
					l.wrong.Add(1)
				}
			}
		})
	}
}

func (l *load) note(d core.Decision, err error) bool {
	if err != nil || len(d.Results) != 1 {
		l.undecided.Add(1)
		return false
	}
	l.decided.Add(1)
	return true
}

func TestWatchKeepsWhatWasUsedUnderLoad(t *testing.T) {
	changeUnderLoad(t, "ann", perUser, func(*core.Limiter) {})
}

// changeUnderLoad checks that a user who has used up 10 has 90 left when the file allows 100, and that each request is
// decided meanwhile. Then it calls after.
func changeUnderLoad(t *testing.T, user string, file func(n int) string, after func(l *core.Limiter)) {
	watch(t, func(w *watched) {
		w.write(w.path, file(10))
		w.wait(3 * time.Second)
		for range 10 {
			d, err := w.limiter.Check(requestOf(user))
			must.True(t, err == nil && d.Allowed, "got %+v, %v", d, err)
		}
		l := &load{limiter: w.limiter}
		l.begin(8, user, 0, 90)
		time.Sleep(100 * time.Millisecond)
		w.write(w.path, file(100))
		time.Sleep(3 * time.Second)
		l.stop.Store(true)
		l.wg.Wait()
		synctest.Wait()
		if d, err := w.limiter.Peek(requestOf(user)); err != nil || d.Results[0].Remaining != 90 || d.Results[0].Limit.Rate != 100 {
			t.Errorf("got %+v, %v; want 90 of 100 left", d, err)
		}
		after(w.limiter)
		expect.True(t, l.undecided.Load() <= 0 && l.wrong.Load() <= 0 && l.decided.Load() >= 10_000,
			"%d decided, %d undecided, %d with another limit", l.decided.Load(), l.undecided.Load(), l.wrong.Load())
	})
}

// A skipped address is the address of key ip: behind a trusted proxy, it is the client's, and nobody else can claim it.
func TestSkipOfAddressesBehindAProxy(t *testing.T) {
	file, err := rulefile.Parse([]byte("proxies: {trusted: [10.0.0.0/8], header: X-Forwarded-For}\nskip: {addresses: [192.0.2.0/24, 10.0.0.0/8]}\n"+
		"rules: [{key: ip, limits: 1/d}]\n"), program)
	must.Do(t, err)
	l := core.Must(core.New(file.Rules))
	for _, tt := range []struct {
		peer, forwarded string
		skipped         bool
	}{
		{"10.1.2.3:1", "192.0.2.7", true},
		{"10.1.2.3:1", "203.0.113.9", false},
		{"10.1.2.3:1", "192.0.2.7, 203.0.113.9", false},
		{"203.0.113.9:1", "192.0.2.7", false}, // not a proxy, so the field is not read
		{"192.0.2.7:1", "", true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.peer
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		d, err := l.Peek(r)
		expect.True(t, err == nil && (len(d.Results) == 0) == tt.skipped,
			"from %s, forwarded for %q: got %+v, %v; want skipped %v", tt.peer, tt.forwarded, d.Results, err, tt.skipped)
	}
}

// asking is a log whose writer sends a request itself, as a collector of logs behind the limiter gets one.
type asking struct {
	bytes.Buffer
	ask func()
}

func (a *asking) Write(p []byte) (int, error) {
	a.ask()
	return a.Buffer.Write(p)
}

// Behind a proxy that the file does not trust, the address is the proxy's, so no request is skipped.
func TestNoSkipOfAddressesBehindUnknownProxy(t *testing.T) {
	const text = "skip: {addresses: [10.0.0.0/8]}\nrules: [{key: header(X-Tenant), limits: 1/d}]\n"
	for name, skipped := range map[string]bool{
		"X-Forwarded-For": false, "Forwarded": false, "X-Real-Ip": false, "Via": false, "X-Forwarded-Proto": false, "Cf-Connecting-Ip": false,
		"True-Client-Ip": false, "X-Original-Forwarded-For": false, "X-Other": true,
	} {
		file := mustParse(t, text)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.1.2.3:4"
		r.Header = http.Header{name: {"203.0.113.9"}, "X-Tenant": {"acme"}}
		log := asking{ask: func() { file.Rules[0].Match(r) }}
		l := core.Must(core.New(file.Rules, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
		for range 3 {
			if d, err := l.Peek(r); err != nil || (len(d.Results) == 0) != skipped {
				t.Errorf("%s: got %+v, %v; want skipped %v", name, d.Results, err, skipped)
			}
		}
		lines := strings.Count(log.String(), "skip.addresses skips nobody behind a proxy")
		if want := map[bool]int{false: 1}[skipped]; lines != want || !skipped && !strings.Contains(log.String(), "header="+name) {
			t.Errorf("%s: logged %d lines, want %d: %s", name, lines, want, &log.Buffer)
		}
		expect.True(t, len(file.Warnings) == 1 && file.Warnings[0].Line == 1 && file.Warnings[0].Column == 8,
			"warnings %v, want one at 1:8", file.Warnings)
	}
	file := mustParse(t, "proxies: {hops: 1}\n"+text)
	expect.Equal(t, len(file.Warnings), 0, "with proxies: warnings %v", file.Warnings)
}

func TestWhatHasNoEffectIsAWarning(t *testing.T) {
	for rule, want := range map[string]string{
		"key: ip, limits: 600/m":                                              "",
		"key: ip, limits: '10/s, 600/m'":                                      "limits: 600/1m never denies, because 10/1s is used up first",
		"key: ip, limits: '9/m, 9/s'":                                         "limits: 9/1s never denies, because 9/1m is used up first",
		"key: ip, limits: '9/s;burst=700, 600/m'":                             "",
		"key: ip, limits: '10/s, 500/m, 36000/h;ban=2h, 0/d, 9 at once'":      "",
		"key: ip, limits: '10/s;fixed-window, 600/m;fixed-window'":            "limits: 600/1m;fixed-window never denies, because 10/1s;fixed-window is used up first",
		"key: ip, limits: '7/2s;sliding-log, 11/3s;sliding-log, 3/month'":     "",
		"key: ip, limits: 9/s, overrides: {'ip:192.0.2.1': '5/s, 5/500ms'}":   "ip:192.0.2.1: 5/500ms never denies, because 5/1s is used up first",
		"key: 'first(ip, bearer)', limits: 9/s":                               "key: every request has ip, so first(..) uses none of the keys behind it; put it last",
		"key: 'join(bearer, first(basic, const(x), ip))', limits: 9/s":        "key: every request has const(x), so first(..) uses none of the keys behind it; put it last",
		"key: 'join(ip, first(bearer, method))', limits: 9/s":                 "",
		"key: ip, limits: 9/s, match: POST api/users":                         `match: "api" is in place of a host; for all hosts, want /api/users`,
		"key: ip, limits: 9/s, match: [shop.Cart/Add]":                        `match: "shop.Cart" is in place of a host; for all hosts, want /shop.Cart/Add`,
		"key: ip, limits: 9/s, match: [localhost/a, 'api:80/b', c.example/d]": "",
	} {
		file := mustParse(t, "rules: [{"+rule+"}]")
		got := ""
		for _, w := range file.Warnings {
			got += w.Text
		}
		expect.Equal(t, got, want, "warnings for %s", rule)
	}
}

func TestCostThatNeverFitsIsAWarning(t *testing.T) {
	const text = "rules: [{key: ip, limits: \"5/s, 9/m, 2 at once, 0/d\", cost: %d}]\n"
	file := mustParse(t, fmt.Sprintf(text, 6))
	must.Equal(t, len(file.Warnings), 1, "warnings %v", file.Warnings)
	expect.Equal(t, file.Warnings[0].Text, "cost: 5/1s does not admit 6 at once; want a larger rate or burst, or a smaller cost", "warning")
	for _, fits := range []string{"5", "6, cost_after: failures"} {
		file = mustParse(t, strings.Replace(text, "%d", fits, 1))
		expect.Equal(t, len(file.Warnings), 0, "cost: %s: warnings %v", fits, file.Warnings)
	}
}

// The skip of a file is replaced together with its rules. It does not apply to rules of the program.
func TestSkipIsSwapped(t *testing.T) {
	own := core.Rule{Name: "own", Key: program.Keys["user"], Limits: []core.Limit{core.PerHour(5)}}
	watch(t, func(w *watched) {
		for _, tt := range []struct {
			skip string
			want int // results
		}{{"", 2}, {"skip: {routes: [/]}\n", 1}, {"skip: {routes: [/other]}\n", 2}} {
			w.write(w.path, tt.skip+rate(10))
			w.wait(3 * time.Second)
			if d, err := w.limiter.Peek(requestOf("ann")); err != nil || len(d.Results) != tt.want {
				t.Errorf("%q: got %+v, %v; want %d results", tt.skip, d.Results, err, tt.want)
			}
		}
	}, own)
}

func TestPreflightsAreSkippedOnlyIfTheFileSaysSo(t *testing.T) {
	for skip, skipped := range map[string]bool{"{routes: [/other], preflight: true}": true, "{routes: [/other], preflight: false}": false, "{routes: [/other]}": false} {
		file := mustParse(t, "skip: "+skip+"\nrules: [{key: ip, limits: 1/d}]\n")
		r := httptest.NewRequest(http.MethodOptions, "/", nil)
		r.Header = http.Header{"Origin": {"https://a.example"}, "Access-Control-Request-Method": {"PUT"}}
		d, err := core.Must(core.New(file.Rules)).Peek(r)
		expect.True(t, err == nil && (len(d.Results) == 0) == skipped, "%s: got %+v, %v; want skipped %v", skip, d.Results, err, skipped)
	}
}

// fromCode are rules of a program: one for jobs, one for requests.
func fromCode() []core.Rule {
	return []core.Rule{
		{Name: "jobs", Limits: []core.Limit{core.PerHour(3)}, Routes: []string{"/jobs/{id}"}},
		{Name: "files", Key: keyfunc.RemoteIP, Limits: []core.Limit{core.PerHour(7)}, Routes: []string{"/files/"}},
	}
}

func (w *watched) names() string {
	var names []string
	for _, r := range w.limiter.Rules() {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func TestRulesOfTheProgramStayWhenTheFileChanges(t *testing.T) {
	watch(t, func(w *watched) {
		take := func() (remaining int) {
			d := must.Get(w.limiter.Take(t.Context(), core.Claim{Rule: "jobs", Key: "k"}))(t)
			return d.Results[0].Remaining
		}
		expect.Equal(t, take(), 2, "left")
		w.write(w.path, rate(20)+"  - {name: n, key: ip, limits: 1/s}\n")
		w.wait(3 * time.Second)
		expect.Equal(t, w.names(), "api n jobs files", "rules\n%s", &w.log)
		expect.Equal(t, take(), 1, "left (what was used stays used)")
		want := `changes="api: 10/1h → 20/1h; n: new, 1/1s"`
		expect.True(t, strings.Contains(w.log.String(), want), "the log does not say %s:\n%s", want, &w.log)
		w.write(w.path, rate(30))
		w.wait(3 * time.Second)
		if want := `changes="api: 20/1h → 30/1h; n: removed"`; w.names() != "api jobs files" || !strings.Contains(w.log.String(), want) {
			t.Errorf("got rules %s, and the log does not say %s:\n%s", w.names(), want, &w.log)
		}
	}, fromCode()...)
}

func TestConflictsWithTheProgramsRulesAreMistakes(t *testing.T) {
	for why, row := range map[string]struct{ rule, at, text string }{
		"a name":    {"  - {name: jobs, key: ip, limits: 1/s}\n", "5:12", "there is another rule named jobs, in Options.Also of the program"},
		"a pattern": {"  - {name: n, key: ip, limits: 1/s, match: '/{kind}/new'}\n", "5:44", `Pattern \"/files/\" belongs to rule files in Options.Also.`},
	} {
		t.Run(why, func(t *testing.T) {
			watch(t, func(w *watched) {
				w.write(w.path, rate(20)+row.rule)
				w.wait(3 * time.Second)
				w.wantRate(10, "with a mistake")
				if log := w.log.String(); !strings.Contains(log, "spillgate.yaml:"+row.at) || !strings.Contains(log, row.text) || w.names() != "api jobs files" {
					t.Errorf("rules %s; want %s, %s in the log:\n%s", w.names(), row.at, row.text, log)
				}
			}, fromCode()...)
		})
	}
}

func TestWatchReportsMistakesInRulesOfTheProgram(t *testing.T) {
	l := core.Must(core.New(mustParse(t, rate(1)).Rules))
	err := rulefile.Watch(t.Context(), "f", l, program, rulefile.Options{Also: []core.Rule{{Name: "jobs"}, {Name: "jobs", Limits: core.MustParseLimits("1/s")}}})
	for _, want := range []string{"Options.Also", `rule "jobs": a rule needs at least one limit`, `rule "jobs": name is not unique`} {
		expect.True(t, errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), want), "got %v, want %s in it", err, want)
	}
}
