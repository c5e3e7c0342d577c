package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/suggest"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

// clientsLog returns lines of a log of 100 clients. Each sends a burst twice a day, and later clients send larger ones.
func clientsLog() string {
	var b strings.Builder
	start := time.Date(2025, 10, 10, 0, 0, 0, 0, time.UTC)
	for hour := range 24 {
		for c := range 100 {
			for i := range 1 + c/10 {
				if c%12 == hour%12 {
					at := start.Add(time.Duration(hour)*time.Hour + time.Duration(i)*time.Second)
					fmt.Fprintf(&b, "203.0.113.%d - - [%s] \"GET /%d HTTP/1.1\" 200 9 \"-\" \"curl\"\n", c, at.Format("02/Jan/2006:15:04:05 -0700"), i%2)
				}
			}
		}
	}
	return b.String()
}

func TestSuggestPrintsARulesFile(t *testing.T) {
	log := fileWith(t, clientsLog())
	for _, args := range [][]string{nil, {"--key", "first(header(User-Agent), ip)", "--match", "GET /0", "--match", "/1", "--name", "it's"}, {"--keep", "80", "--name", "null"}} {
		code, stdout, stderr := execute(t, append([]string{"suggest", log}, args...)...)
		must.True(t, code == 0 && stderr == "" && !strings.Contains(stdout, "\x1b"), "exit code %d, stderr %q\n%s", code, stderr, stdout)
		file := fileWith(t, stdout)
		if code, stdout, stderr := execute(t, "check", file); code != 0 {
			t.Errorf("check does not take it: %s%s", stdout, stderr)
		}
		keys, hit, report := replayed(t, file, log)
		expect.True(t, hit*5 <= keys && (args != nil || hit == 0), "%v: a replay of the rule:\n%s\n%s", args, report, stdout)
	}
}

// replayed replays a log with the rule in file, and returns how many keys the rule has, how many of them it hits, and the report.
func replayed(t *testing.T, file, log string) (keys, hit int, report string) {
	t.Helper()
	code, report, _ := execute(t, "replay", "--rules", file, "--json", log)
	var rep struct {
		Rules []struct {
			Keys int
			Hit  int `json:"keys_hit"`
		}
	}
	err := json.Unmarshal([]byte(report), &rep)
	must.True(t, err == nil && code == 0, "%v, exit code %d\n%s", err, code, report)
	return rep.Rules[0].Keys, rep.Rules[0].Hit, report
}

func TestSuggestReport(t *testing.T) {
	log := fileWith(t, clientsLog()+"nonsense\n")
	code, stdout, stderr := execute(t, "suggest", "--keep", "80", log)
	for _, want := range []string{
		"# " + log + ": 1,101 lines of combined, 1 could not be read:\n#   line 1101: want HOST",
		"# From 2025-10-10 00:00:00 to 2025-10-10 23:00:", "1,100 requests of 100 clients.\n",
		"RATE \\ BURST", " 10*", "2/h;burst=9 hits 10 of 100 clients (10.0%).\n", "If a limit hits at most 13 of these clients, it is 95% certain that it leaves 80% of all clients like them untouched.",
		"The first half of the log alone suggests 2/h;burst=9. In the second half, that limit hits 10 of 100 clients (10.0%);", "at most 20% were promised.\n", "# At 2/h, these clients need the largest bursts:\n#   a burst of 10  ip:203.0.113.90 with 20 requests\n",
		"requests\nrules:\n  - name: suggested\n    key: ip\n    limits: 2/h;burst=9\n",
	} {
		expect.True(t, strings.Contains(stdout, want), "the report does not say %q", want)
	}
	expect.True(t, code == 0 && stderr == "", "exit code %d, stderr %q", code, stderr)
	if t.Failed() {
		t.Log(stdout)
	}
	code, stdout, _ = execute(t, "suggest", "--json", log)
	var rep struct {
		suggest.Report
		Rule string
		Logs []logReport
	}
	if err := json.Unmarshal([]byte(stdout), &rep); err != nil || code != 0 || rep.Clients != 100 || rep.TooFew != 2995 || len(rep.Rates) != 22 || rep.Logs[0].BadLines != 1 {
		t.Errorf("--json: %v, exit code %d\n%s", err, code, stdout)
	}
	_, err := rulefile.Check("f", []byte(rep.Rule))
	expect.True(t, err == nil && rep.Chosen.Hit == 0, "the rule is %q: %v", rep.Rule, err)
}

// scannedLog returns lines of a log of 181 clients. 180 load pages of up to nine files all day, and a scanner sends 15%
// of all requests within minutes.
func scannedLog() string {
	var lines []string
	add := func(second int, client string) {
		at := time.Date(2025, 10, 10, 0, 0, second, 0, time.UTC)
		lines = append(lines, fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 9 \"-\" \"curl\"\n", client, at.Format("02/Jan/2006:15:04:05 -0700")))
	}
	for second := range 86_400 {
		if c := second % 180; second/180*7%180 == c || second/180*13%180 == c {
			for range 1 + (c+second)%9 {
				add(second, fmt.Sprintf("203.0.113.%d", c))
			}
		}
		if second >= 60_000 && second < 60_209 {
			for range 4 {
				add(second, "198.51.100.66")
			}
		}
	}
	return strings.Join(lines, "")
}

// Of 181 clients, 0.1% is less than one: the limit denies the scanner, which sends 15% of all requests, and nobody else.
func TestSuggestLeavesOutAScanner(t *testing.T) {
	text := scannedLog()
	if all, scanner := strings.Count(text, "\n"), strings.Count(text, "198.51.100.66"); float64(scanner)/float64(all) < 0.149 || float64(scanner)/float64(all) > 0.151 {
		t.Fatalf("the scanner sends %d of %d requests", scanner, all)
	}
	log := fileWith(t, text)
	code, stdout, stderr := execute(t, "suggest", log)
	for _, want := range []string{
		" hits 1 of 181 clients (0.6%).\n# --keep 99.9 was not used: 0.1% of 181 clients is less than one client, and it takes 2,995 clients to tell what burst 99.9% of them need.\n",
		"# Instead, the limit is in a gap: at ", ", 1 client needs a burst of ", " or more, and no other client more than ", "# The first half of the log alone suggests ", "ip:198.51.100.66 with 836 requests\n",
	} {
		expect.True(t, strings.Contains(stdout, want), "the report does not say %q", want)
	}
	expect.True(t, code == 0 && stderr == "" && !strings.Contains(stdout, "promised") && !t.Failed(),
		"exit code %d, stderr %q\n%s", code, stderr, stdout)
	keys, hit, report := replayed(t, fileWith(t, stdout), log)
	expect.True(t, keys == 181 && hit == 1 && strings.Contains(report, "198.51.100.66"), "a replay of the rule:\n%s", report)
}

func TestSuggestMistakes(t *testing.T) {
	log := fileWith(t, clientsLog())
	checkBadCalls(t, "suggest", []badCall{
		{nil, 2, "suggest wants at least one LOG"},
		{[]string{log + "x"}, 2, "no such file"},
		{[]string{"--keep", "0", log}, 2, "--keep is 0, want a share above 0, at most 100"},
		{[]string{"--keep", "NaN", log}, 2, "--keep is NaN"},
		{[]string{"--within", "-1s", log}, 2, "--within is -1s"},
		{[]string{"--at", "noon", log}, 2, `--at is "noon"`},
		{[]string{"--key", "user", log}, 2, `unknown key "user"`},
		{[]string{"--match", "POST login", log}, 2, "--key, --match or --name: "},
		{[]string{"--name", "a\nb: c", log}, 2, "--key, --match or --name: \"a\\nb: c\" has more than one line"},
		{[]string{"--key", "apikey(X-Key)", log}, 1, "the logs lack what the rule needs: header X-Key"},
		{[]string{"--match", "/nowhere", log}, 1, "nothing to suggest: no request of the logs counts"},
		{[]string{"--format", "common", fileWith(t, "")}, 1, "nothing to suggest"},
		{[]string{fileWith(t, "")}, 1, "nothing to suggest: no request of the logs counts"},
		{[]string{fileWith(t, "hello\n")}, 1, "the first lines are in none of the formats"},
	})
}

func TestSuggestOnATerminal(t *testing.T) {
	code, stdout, _ := execute(t, "suggest", "--keep", "80", "--json", fileWith(t, clientsLog()))
	var rep suggest.Report
	err := json.Unmarshal([]byte(stdout), &rep)
	must.True(t, err == nil && code == 0, "%v, %v", err, code)
	for _, width := range []int{1, 20, 40, 80, 300} {
		text := tableText(&rep, screen{terminal: true, width: width})
		for line := range strings.Lines(text) {
			expect.True(t, !strings.HasPrefix(line, "  ") || len(line) <= max(width, 30),
				"on %d columns, a line has %d: %s", width, len(line), line)
		}
		expect.True(t, strings.Count(text, "*") == 2 && !strings.Contains(text, "\x1b"),
			"on %d columns, want one cell with a star:\n%s", width, text)
	}
	text := tableText(&rep, screen{terminal: true, color: true, width: 80})
	expect.True(t, strings.Count(text, "\x1b[") == 2, "want the suggested cell in color:\n%q", text)
}

func TestOnlyTerminalsHaveColors(t *testing.T) {
	f := must.Get(os.Create(t.TempDir() + "/f"))(t)
	defer f.Close()
	s := screenOf(f)
	expect.True(t, !s.terminal && !s.color, "a file: got %+v", s)
}
