package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

func TestReadNumbers(t *testing.T) {
	for _, tt := range []struct {
		why    string
		header map[string]string
		want   numbers
		ok     bool
	}{
		{"GitHub's form", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "1772366404"},
			numbers{"5", "3", "1772366404 (in 3.8s)"}, true},
		{"GitHub's form is preferred", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3",
			"X-RateLimit-Reset": "1772366404", "RateLimit": `"a";r=1;t=2`, "RateLimit-Policy": `"a";q=9;w=9`},
			numbers{"5", "3", "1772366404 (in 3.8s)"}, true},
		{"a reset that is a date", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "noon"},
			numbers{"5", "3", "noon"}, false},
		{"no remaining", map[string]string{"X-RateLimit-Limit": "5", "X-RateLimit-Reset": "1772366404"},
			numbers{"5", "", "1772366404 (in 3.8s)"}, false},
		{"the draft's form", map[string]string{"RateLimit": `"chi";r=3;t=2`, "RateLimit-Policy": `"chi";q=5;w=10`},
			numbers{"5", "3", "in 2s"}, true},
		{"the tightest of several", map[string]string{"RateLimit": `"a-1s";r=8;t=1,"a-1m";r=9;t=3,"a-1h";r=99`,
			"RateLimit-Policy": `"a-1s";q=10;w=1,"a-1m";q=60;w=60,"a-1h";q=100;w=3600`}, numbers{"60", "9", "in 3s"}, true},
		{"nothing to come back", map[string]string{"RateLimit": `"a";r=0`, "RateLimit-Policy": `"a";q=0;w=1`}, numbers{"0", "0", ""}, true},
		{"a limit without its policy", map[string]string{"RateLimit": `"a";r=1`, "RateLimit-Policy": `"b";q=2;w=1`}, numbers{}, false},
		{"no headers", nil, numbers{}, false},
	} {
		h := http.Header{}
		for name, value := range tt.header {
			h.Set(name, value)
		}
		got, ok := readNumbers(reply{header: h, at: noon.Add(200 * time.Millisecond)})
		expect.True(t, got == tt.want && ok == tt.ok, "%s: %+v, %t, want %+v, %t", tt.why, got, ok, tt.want, tt.ok)
	}
}

func TestTable(t *testing.T) {
	long := visit{router: "chi"}
	for i := range 99 {
		long.replies = append(long.replies, replied(200, fmt.Sprint(99-i), ""))
	}
	long.replies = append(long.replies, replied(429, "0", "5"))
	last := replied(200, "7", "")
	long.later = &last
	broken := visit{router: "gin", replies: []reply{replied(400, "", "")}}
	unlimited := visit{router: "echo", replies: []reply{replied(200, "1", "")}}

	var b strings.Builder
	(&report{w: &b}).table([]visit{long, broken, unlimited, {router: "echov5"}})
	want := `
ROUTER   ADMITTED   THEN                    LIMIT   REMAINING   RESET                RETRY-AFTER   AFTER THE WAIT
chi      99         429 Too Many Requests   2       0           1772366405 (in 5s)   5             200 OK
gin      0          400 Bad Request         -       -           -                    -             -
echo     1          -                       2       1           1772366405 (in 5s)   -             -
echov5   0          no reply                -       -           -                    -             -

`
	expect.Equal(t, "\n"+b.String(), want, "table:\n%s", b.String())
}

// The counts show which clients are served and which are denied.
func TestTraffic(t *testing.T) {
	p := must.Get(options{addr: "127.0.0.1:0", limits: "2/1h", key: "ip", headers: "github"}.plan())(t)
	h := must.Get(newApp(p))(t)
	s := httptest.NewServer(h)
	defer s.Close()
	callers := newCallers()
	for range 40 { // each at its rate, without the pauses
		for _, c := range callers {
			for n := range c.perSecond {
				c.request(t.Context(), s.Client(), s.URL, n)
			}
		}
	}
	table := trafficTable(callers)
	good, abuser, forger, pro, free := callers[0], callers[1], callers[2], callers[3], callers[4]
	guesser, knower := callers[5], callers[6]
	for _, c := range callers {
		expect.True(t, c.failed.Load() == 0 && strings.Contains(table, c.name),
			"%s: %d were not decided:\n%s", c.name, c.failed.Load(), table)
	}
	expect.AtLeast(t, abuser.denied.Load(), abuser.served.Load(), "the abuser is not limited:\n%s", table)
	expect.True(t, guesser.served.Load() == 5 && guesser.denied.Load() == 75 && knower.served.Load() == 80,
		"want 5 wrong passwords and then denials, and 80 right ones served:\n%s", table)
	expect.True(t, forger.denied.Load() != 0 && good.served.Load() != 0, "the forger evades, or the good client is denied:\n%s", table)
	expect.True(t, pro.served.Load() > free.served.Load(), "the paid plan makes no difference:\n%s", table)
	if got := httptest.NewRecorder(); true {
		h.ServeHTTP(got, httptest.NewRequest("GET", "http://localhost/", nil))
		expect.Contains(t, got.Body.String(), "<title>Rate limits", "the page is not at /: %d", got.Code)
	}
}

// Output that is no terminal gets the table once, at the end.
func TestShowTrafficOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var b expect.Buffer
	showTraffic(ctx, &b, newCallers())
	got := b.String()
	expect.True(t, strings.Count(got, "SERVED") == 1 && !strings.Contains(got, "\x1b"), "got %q", got)
}

// The interrupt ends a replay whose standard input does not end.
func TestInterruptedStandardInputIsReported(t *testing.T) {
	for log, want := range map[string]string{accessLog(): "8 requests", "": "No request was decided."} {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		stdin, feed := io.Pipe()
		go func() {
			_, _ = io.WriteString(feed, log)
			_, _ = io.WriteString(feed, "\n") // the replay reads it after the lines before it
			cancel()
		}()
		root := newRoot()
		var out strings.Builder
		root.SetIn(stdin)
		root.SetOut(&out)
		root.SetArgs([]string{"replay", "--rules", fileWith(t, replayRules), "-"})
		err := root.ExecuteContext(ctx)
		expect.True(t, err == nil && errors.Is(ctx.Err(), context.Canceled), "got %v, %v", err, ctx.Err())
		expect.Contains(t, out.String(), "interrupted; the report covers the requests up to then", "%s", want)
		expect.Contains(t, out.String(), want, "interrupted")
	}
}

func TestHeadersAreReadIfARuleNeedsThem(t *testing.T) {
	rules := fileWith(t, "rules: [{name: agent, key: header(User-Agent), limits: 3/h}, {name: plan, key: ip, headers: {Referer: x}, limits: 1/h}]")
	code, stdout, stderr := execute(t, "replay", "--rules", rules, fileWith(t, accessLog()))
	expect.True(t, code == 0 && strings.Contains(stdout, "agent         8       5") && strings.Contains(stdout, "plan         0"),
		"exit code %d, stderr %q\n%s", code, stderr, stdout)
}

func TestSkipsReadTheHeadersOfTheLog(t *testing.T) {
	rules := fileWith(t, "skip: {preflight: true}\nrules: [{name: login, key: ip, limits: 1/h}]")
	const line = `{"ts":1790000000.5,"request":{"client_ip":"192.0.2.1","method":%q,"uri":"/login","headers":{%q:["POST"],"Origin":["https://x"]}},"duration":0.1,"status":200}` + "\n"
	log := fmt.Sprintf(line+line, "OPTIONS", "Access-Control-Request-Method", "POST", "X-Other")
	_, stdout, stderr := execute(t, "replay", "--rules", rules, fileWith(t, log))
	expect.True(t, strings.Contains(stdout, "login         1       0") && !strings.Contains(stdout, "Left out"), "stderr %q\n%s", stderr, stdout)
	_, stdout, stderr = execute(t, "replay", "--rules", rules, fileWith(t, accessLog()))
	expect.True(t, strings.Contains(stdout, "lack what they need:\n  skip.preflight: header Access-Control-Request-Method, header Origin\n"),
		"stderr %q\n%s", stderr, stdout)
	rules = fileWith(t, "skip: {addresses: [192.0.2.0/24]}\nrules: [{name: login, key: ip, limits: 1/h}]") // nobody behind a proxy
	_, stdout, stderr = execute(t, "replay", "--rules", rules, fileWith(t, fmt.Sprintf(line+line, "POST", "X-Forwarded-For", "POST", "X-Other")))
	expect.True(t, strings.Contains(stdout, "login         1       0"), "stderr %q\n%s", stderr, stdout)
}

// An empty log, such as a freshly rotated one, does not affect the other logs, whatever its position.
func TestEmptyLogs(t *testing.T) {
	rules := fileWith(t, "rules: [{name: login, key: ip, limits: 4/h, cost_after: failures}, {name: agent, key: header(User-Agent), limits: 3/h}]")
	log, empty := fileWith(t, "\ufeff"+accessLog()), fileWith(t, "")
	for _, logs := range [][]string{{log, empty}, {empty, log}} {
		code, stdout, stderr := execute(t, append([]string{"replay", "--rules", rules}, logs...)...)
		for _, want := range []string{log + ": 8 lines of combined\n", empty + ": empty\n", "login         8  ", "agent         8  "} {
			expect.True(t, strings.Contains(stdout, want) && !strings.Contains(stdout, "Left out") && code == 0 && stderr == "",
				"exit code %d, stderr %q; want %q in\n%s", code, stderr, want, stdout)
		}
	}
	code, stdout, _ := execute(t, "replay", "--rules", fileWith(t, "funcs: [user]\nrules: [{name: api, key: user, limits: 1/h}]"), empty)
	expect.True(t, code == 0 && strings.Contains(stdout, "No request was decided.") && strings.Contains(stdout, "api: function user"), "exit code %d\n%s", code, stdout)
}

// A rule that settles by status is left out unless all logs have statuses.
func TestStatusesThatLogsLack(t *testing.T) {
	rules := fileWith(t, "rules: [{name: login, key: ip, limits: 1/h, cost_after: failures}, {name: all, key: ip, limits: 9/h}]")
	line := func(more string) string {
		return strings.Repeat(`{"time":1760104536,"client":"203.0.113.7","method":"POST","path":"/login"`+more+"}\n", 3)
	}
	const left, counted = "login: status codes\n", "login         3  "
	for _, tt := range []struct {
		logs []string
		want string
	}{
		{[]string{line(``)}, left},
		{[]string{line(`,"status":0`)}, left},
		{[]string{line(`,"status":"-"`)}, left},
		{[]string{line(`,"status":""`)}, left},
		{[]string{line(`,"status":null`)}, left},
		{[]string{line(`,"state":401`)}, left},
		{[]string{"time,client,method,path\n1760104536,203.0.113.7,GET,/\n"}, left},
		{[]string{strings.Repeat("203.0.113.7 - - [10/Oct/2025:13:55:36 +0000] \"POST /login HTTP/1.1\" - 9\n", 3)}, left},
		{[]string{line(`,"status":"401"`), line(``)}, left},
		{[]string{line(`,"status":"401"`), ""}, counted + "     2"},
		{[]string{line(`,"status":401.0`)}, counted + "     2"},
		{[]string{line(`,"status":"401 Unauthorized"`)}, counted + "     2"},
		{[]string{line(`,"response_code":401`)}, counted + "     2"},
		{[]string{line(`,"status":200`)}, counted + "     0"},
		{[]string{line(`,"status":200`) + line(`,"status":0`)}, "login         6       2"}, // clients that disconnected
	} {
		args := []string{"replay", "--rules", rules}
		for _, text := range tt.logs {
			args = append(args, fileWith(t, text))
		}
		code, stdout, stderr := execute(t, args...)
		expect.True(t, code == 0 && stderr == "" && strings.Contains(stdout, tt.want) && strings.Contains(stdout, left) == (tt.want == left),
			"%q: exit code %d, stderr %q; want %q in\n%s", tt.logs, code, stderr, tt.want, stdout)
	}
}

// accessLog returns lines of a combined log: 8 requests for /login, a second apart, 6 of one client and 2 of another.
func accessLog() string {
	var b strings.Builder
	for i := range 8 {
		fmt.Fprintf(&b, "203.0.113.%d - - [10/Oct/2025:13:55:%02d +0000] \"POST /login HTTP/1.1\" %d 9 \"-\" \"curl\"\n", i/6, i, 401-i%2*201)
	}
	return b.String()
}

const replayRules = `funcs: [user]
rules:
  - {name: login, match: POST /login, key: ip, limits: 4/h}
  - {name: api, key: user, limits: 1/s}
`

func TestReplay(t *testing.T) {
	dir := t.TempDir()
	rules, plain, packed := fileWith(t, replayRules), filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.gz")
	must.Do(t, os.WriteFile(plain, []byte(accessLog()+"nonsense\x1b[2J\n"), 0o600))
	z := gzip.NewWriter(must.Get(os.Create(packed))(t))
	_, _ = z.Write([]byte(strings.ReplaceAll(accessLog(), "13:55:", "13:59:")))
	must.Do(t, z.Close())
	code, stdout, stderr := execute(t, "replay", "--rules", rules, packed, plain)
	for _, want := range []string{
		packed + ": 8 lines of combined\n", plain + ": 9 lines of combined, 1 could not be read:\n  line 9: want HOST IDENT USER",
		"From 2025-10-10 13:55:00 to 2025-10-10 13:59:07 UTC, 16 requests.\nDenied: 8 (50.0%).\n",
		"RULE  REQUESTS  DENIED  SHARE  KEYS  HIT LIMITS\n", "login        16       8  50.0%     2    1 4/1h\n",
		"Hit most by login:\n  8 of 12 requests  ip:203.0.113.0\n", "Denied most:\n  8  POST /login\n", "Over time, a bar is 8s:\n", "  api: function user\n",
	} {
		expect.True(t, strings.Contains(stdout, want), "the report does not say %q", want)
	}
	expect.True(t, code == 0 && stderr == "" && !strings.Contains(stdout, "\x1b"),
		"exit code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	code, stdout, _ = execute(t, "replay", "--rules", rules, "--json", "--skip-status", "401,429", plain)
	var rep struct {
		replay.Report
		Logs []logReport
	}
	if err := json.Unmarshal([]byte(stdout), &rep); err != nil || code != 0 || rep.Requests != 4 || rep.Skipped != 4 || rep.Denied != 0 ||
		rep.Logs[0].BadLines != 1 || rep.Rules[0].Name != "login" || rep.LeftOut["api"] != "function user" {
		t.Errorf("--json: %v, exit code %d\n%s", err, code, stdout)
	}
	_, stdout, _ = execute(t, "replay", "--rules", rules, "--skip-status", "200,401,429", plain)
	expect.Contains(t, stdout, "No request was decided; 8 were left out because of their status.", "with every status skipped")
}

// TestUnsortedLogs checks that each report on a log with the newest line first says so, and on no other log.
func TestUnsortedLogs(t *testing.T) {
	rules, dir := fileWith(t, "rules: [{key: ip, limits: 9/s}]"), t.TempDir()
	page := filepath.Join(dir, "report.html")
	sorted := slices.Collect(strings.Lines(regexp.MustCompile(`55:0(.)`).ReplaceAllString(accessLog(), "5$1:00")))
	newestFirst := slices.Clone(sorted)
	slices.Reverse(newestFirst)
	for lines, older := range map[*[]string]int{&newestFirst: 6, {sorted[0], sorted[2], sorted[0], sorted[1], sorted[3]}: 1} {
		log := fileWith(t, strings.Join(*lines, ""))
		_, text, _ := execute(t, "replay", "--rules", rules, "--html", page, log)
		_, data, _ := execute(t, "replay", "--rules", rules, "--json", log)
		_, suggested, _ := execute(t, "suggest", log)
		unsorted := older > 1
		for _, got := range []string{text, string(must.Get(os.ReadFile(page))(t)), suggested} {
			expect.Equal(t, strings.Contains(got, "6 requests are more than a minute older than one before them"), unsorted, "in\n%s", got)
		}
		expect.Contains(t, data, fmt.Sprintf("\"older\": %d,\n      \"unsorted\": %t,", older, unsorted), "--json")
	}
}

func TestReplayReportsWhoWouldWait(t *testing.T) {
	rules := fileWith(t, "rules:\n  - {name: hooks, key: ip, limits: 30/m;burst=1, max_wait: 5s}\n  - {name: calm, key: ip, limits: 9/s, max_wait: 5s}\n")
	log, page := fileWith(t, accessLog()), filepath.Join(t.TempDir(), "report.html")
	_, text, _ := execute(t, "replay", "--rules", rules, "--html", page, log)
	_, data, _ := execute(t, "replay", "--rules", rules, "--json", log)
	html := must.Get(os.ReadFile(page))(t)
	for in, wants := range map[string][]string{
		text: {"\nWould wait for hooks: 6 of 8 requests, 2.667s on average and 5s at most:\n  5 requests, 5s at most  ip:203.0.113.0\n  1 requests, 1s at most  ip:203.0.113.1\n"},
		string(html): {
			">Would wait for hooks<", ">6 of 8 requests, 2.667s on average and 5s at most<",
			">ip:203.0.113.0</td><td>5</td><td>5s<", ">ip:203.0.113.1</td><td>1</td><td>1s<",
		},
	} {
		for _, want := range wants {
			expect.True(t, strings.Contains(in, want) && !strings.Contains(in, "wait for calm"),
				"want %q, and nothing of a rule for which nobody waits, in\n%s", want, in)
		}
	}
	var rep replay.Report
	err := json.Unmarshal([]byte(data), &rep)
	must.True(t, err == nil && rep.Rules[1].Waits == nil, "%v, %+v", err, rep.Rules)
	first := replay.ClientWaits{Key: "ip:203.0.113.0", Waited: 5, Longest: 5 * time.Second}
	if w := rep.Rules[0].Waits; w == nil || w.Waited != 6 || w.Longest != 5*time.Second || len(w.Clients) != 2 || w.Clients[0] != first {
		t.Errorf("--json: %+v", w)
	}
}

func TestReplayMistakes(t *testing.T) {
	rules, bad, log := fileWith(t, replayRules), fileWith(t, "rules: x\n"), fileWith(t, accessLog())
	page := filepath.Join(t.TempDir(), "report.html")
	checkBadCalls(t, "replay", []badCall{
		{[]string{"--rules", rules}, 2, "replay wants at least one LOG"},
		{[]string{log}, 2, "replay wants --rules FILE"},
		{[]string{"--rules", rules + "x", log}, 2, "no such file"},
		{[]string{"--rules", rules, log + "x"}, 2, "no such file"},
		{[]string{"--rules", bad, "--html", page, log}, 1, "1:8: rules: want a list"},
		{[]string{"--rules", rules, "--at", "noon", log}, 2, `--at is "noon", want start or end`},
		{[]string{"--rules", rules, "--format", "iis", log}, 2, `--format: unknown format "iis"; want combined`},
		{[]string{"--rules", rules, "--field", "clinet=peer", log}, 2, `--field: unknown part "clinet"; want client, duration, host`},
		{[]string{"--rules", rules, "--field", "header:=peer", log}, 2, `--field: unknown part "header:"`},
		{[]string{"--rules", rules, t.TempDir()}, 2, "is a directory"},
		{[]string{"--rules", rules, "-", log, "-"}, 2, "replay can read standard input only once"},
		{[]string{"--rules", rules, "--html", page, rules}, 1, "the first lines are in none of the formats"},
		{[]string{"--rules", rules, "--html", log, log}, 2, "--html: the page would overwrite " + log},
		{[]string{"--rules", rules, "--html", rules, log}, 2, "--html: the page would overwrite " + rules},
	})
	_, err := os.Stat(page)
	expect.True(t, errors.Is(err, fs.ErrNotExist), "a failed replay leaves a page: %v", err)
}

func TestBars(t *testing.T) {
	expect.Equal(t, bars([]int{0, 1, 4, 8, 0, 0}, 2), "▁█   up to 12", "bars([]int{0, 1, 4, 8, 0, 0}, 2)")
	got := timelineText(replay.Timeline{Width: time.Second, Asked: make([]int, 120), Denied: make([]int, 120)})
	expect.True(t, strings.Contains(got, "a bar is 2s") && strings.Count(got, " ") >= 120, "got %q", got)
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		expect.Equal(t, grouped(n), want, "%d", n)
	}
	for _, tt := range []struct {
		n, all int
		want   string
	}{{0, 0, "-"}, {0, 5, "0.0%"}, {1, 2, "50.0%"}, {1, 100_000, "<0.1%"}} {
		expect.Equal(t, percent(tt.n, tt.all), tt.want, "%d of %d", tt.n, tt.all)
	}
}

func TestReplayWritesAPage(t *testing.T) {
	dir := t.TempDir()
	rules, log, page := fileWith(t, replayRules), filepath.Join(dir, "access.log"), filepath.Join(dir, "report.html")
	must.Do(t, os.WriteFile(log, []byte(accessLog()), 0o600))
	if code, stdout, stderr := execute(t, "replay", "--rules", rules, "--html", page, log); code != 0 || stderr != "" || !strings.Contains(stdout, "Denied: 2") {
		t.Errorf("exit code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	text := must.Get(os.ReadFile(page))(t)
	for _, want := range []string{"<h1>Replay of access.log</h1>", "2025-10-10 13:55:00 to 2025-10-10 13:55:07 UTC", "<b>2</b>", "25.0% of requests", "function user", "ip:203.0.113.0"} {
		expect.True(t, strings.Contains(string(text), want), "the page does not say %q", want)
	}
	for _, must := range []string{"http:", "https:", "src=", "@import", "url("} {
		rest := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		expect.True(t, !strings.Contains(rest, must), "the page may load something: it has %q", must)
	}
	if code, _, stderr := execute(t, "replay", "--rules", rules, "--html", filepath.Join(dir, "none", "report.html"), log); code != 2 || !strings.Contains(stderr, "--html") {
		t.Errorf("a page in a directory that is not there: exit code %d, %q", code, stderr)
	}
}
