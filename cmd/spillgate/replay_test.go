package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/replay"
	"github.com/spillgate/spillgate/internal/must"
)

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
	f := must.Get(os.Create(packed))(t)
	z := gzip.NewWriter(f)
	_, _ = z.Write([]byte(strings.ReplaceAll(accessLog(), "13:55:", "13:59:")))
	must.Do(t, z.Close())
	code, stdout, stderr := execute(t, "replay", "--rules", rules, packed, plain)
	for _, want := range []string{
		packed + ": 8 lines of combined\n", plain + ": 9 lines of combined, 1 could not be read:\n  line 9: want HOST IDENT USER",
		"From 2025-10-10 13:55:00 to 2025-10-10 13:59:07 UTC, 16 requests.\nDenied: 8 (50.0%).\n",
		"RULE  REQUESTS  DENIED  SHARE  KEYS  HIT LIMITS\n", "login        16       8  50.0%     2    1 4/1h\n",
		"Hit most by login:\n  8 of 12 requests  ip:203.0.113.0\n", "Denied most:\n  8  POST /login\n", "Over time, a bar is 8s:\n", "  api: function user\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if code != 0 || stderr != "" || strings.Contains(stdout, "\x1b") {
		t.Errorf("exit code %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	code, stdout, _ = execute(t, "replay", "--rules", rules, "--json", "--skip-status", "401,429", plain)
	var rep struct {
		replay.Report
		Logs []logReport
	}
	if err := json.Unmarshal([]byte(stdout), &rep); err != nil || code != 0 || rep.Requests != 4 || rep.Skipped != 4 || rep.Denied != 0 ||
		rep.Logs[0].BadLines != 1 || rep.Rules[0].Name != "login" || rep.LeftOut["api"] != "function user" {
		t.Errorf("--json: %v, exit code %d\n%s", err, code, stdout)
	}
}

// TestReplayReportsWhoWouldWait checks that each form of the report shows who would wait, and for how long.
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
			if !strings.Contains(in, want) || strings.Contains(in, "wait for calm") {
				t.Errorf("want %q, and nothing of a rule for which nobody waits, in\n%s", want, in)
			}
		}
	}
	var rep replay.Report
	if err := json.Unmarshal([]byte(data), &rep); err != nil || rep.Rules[1].Waits != nil {
		t.Fatalf("%v, %+v", err, rep.Rules)
	}
	first := replay.ClientWaits{Key: "ip:203.0.113.0", Waited: 5, Longest: 5 * time.Second}
	if w := rep.Rules[0].Waits; w == nil || w.Waited != 6 || w.Longest != 5*time.Second || len(w.Clients) != 2 || w.Clients[0] != first {
		t.Errorf("--json: %+v", w)
	}
}

func TestReplayMistakes(t *testing.T) {
	rules, bad, log := fileWith(t, replayRules), fileWith(t, "rules: x\n"), fileWith(t, accessLog())
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--rules", rules}, 2, "replay wants at least one LOG"},
		{[]string{log}, 2, "replay wants --rules FILE"},
		{[]string{"--rules", rules + "x", log}, 2, "no such file"},
		{[]string{"--rules", rules, log + "x"}, 2, "no such file"},
		{[]string{"--rules", bad, log}, 1, "1:8: rules: want a list"},
		{[]string{"--rules", rules, "--at", "noon", log}, 2, `--at is "noon", want start or end`},
		{[]string{"--rules", rules, "--format", "iis", log}, 1, `unknown format "iis"; want combined`},
		{[]string{"--rules", rules, rules}, 1, "the first lines are in none of the formats"},
	} {
		code, stdout, stderr := execute(t, append([]string{"replay"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("replay %q: exit code %d, stdout %q, stderr %q; want %d, %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

func TestBars(t *testing.T) {
	if got := bars([]int{0, 1, 4, 8, 0, 0}, 2); got != "▁█   up to 12" {
		t.Errorf("got %q", got)
	}
	line := replay.Timeline{Width: time.Second, Asked: make([]int, 120), Denied: make([]int, 120)}
	if got := timelineText(line); !strings.Contains(got, "a bar is 2s") || strings.Count(got, " ") < 120 {
		t.Errorf("got %q", got)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for _, tt := range []struct {
		n, all int
		want   string
	}{{0, 0, "-"}, {0, 5, "0.0%"}, {1, 2, "50.0%"}, {1, 100_000, "<0.1%"}} {
		if got := percent(tt.n, tt.all); got != tt.want {
			t.Errorf("%d of %d: got %q, want %q", tt.n, tt.all, got, tt.want)
		}
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
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, must := range []string{"http:", "https:", "src=", "@import", "url("} {
		if rest := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""); strings.Contains(rest, must) {
			t.Errorf("the page may load something: it has %q", must)
		}
	}
	if code, _, stderr := execute(t, "replay", "--rules", rules, "--html", filepath.Join(dir, "none", "report.html"), log); code != 2 || !strings.Contains(stderr, "--html") {
		t.Errorf("a page in a directory that is not there: exit code %d, %q", code, stderr)
	}
}
