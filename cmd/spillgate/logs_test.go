package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// The interrupt ends a replay whose standard input does not end.
func TestInterruptedStandardInputIsReported(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	stdin, feed := io.Pipe()
	go func() {
		_, _ = io.WriteString(feed, accessLog())
		_, _ = io.WriteString(feed, "\n") // the replay reads it after the lines before it
		cancel()
	}()
	root := newRoot()
	var out strings.Builder
	root.SetIn(stdin)
	root.SetOut(&out)
	root.SetArgs([]string{"replay", "--rules", fileWith(t, replayRules), "-"})
	err := root.ExecuteContext(ctx)
	if want := "interrupted; the report covers the requests up to then"; err != nil || !errors.Is(ctx.Err(), context.Canceled) || !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "8 requests") {
		t.Errorf("got %v, %v\n%s", err, ctx.Err(), out.String())
	}
}

func TestHeadersAreReadIfARuleNeedsThem(t *testing.T) {
	rules := fileWith(t, "rules: [{name: agent, key: header(User-Agent), limits: 3/h}, {name: plan, key: ip, headers: {Referer: x}, limits: 1/h}]")
	code, stdout, stderr := execute(t, "replay", "--rules", rules, fileWith(t, accessLog()))
	if code != 0 || !strings.Contains(stdout, "agent         8       5") || !strings.Contains(stdout, "plan         0") {
		t.Errorf("exit code %d, stderr %q\n%s", code, stderr, stdout)
	}
}

// An empty log, such as a freshly rotated one, does not affect the other logs, whatever its position.
func TestEmptyLogs(t *testing.T) {
	rules := fileWith(t, "rules: [{name: login, key: ip, limits: 4/h, cost_after: failures}, {name: agent, key: header(User-Agent), limits: 3/h}]")
	log, empty := fileWith(t, "\ufeff"+accessLog()), fileWith(t, "")
	for _, logs := range [][]string{{log, empty}, {empty, log}} {
		code, stdout, stderr := execute(t, append([]string{"replay", "--rules", rules}, logs...)...)
		for _, want := range []string{log + ": 8 lines of combined\n", empty + ": empty\n", "login         8  ", "agent         8  "} {
			if !strings.Contains(stdout, want) || strings.Contains(stdout, "Left out") || code != 0 || stderr != "" {
				t.Errorf("exit code %d, stderr %q; want %q in\n%s", code, stderr, want, stdout)
			}
		}
	}
	if code, stdout, _ := execute(t, "replay", "--rules", rules, empty); code != 0 || !strings.Contains(stdout, "No request was decided.") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
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
		if code != 0 || stderr != "" || !strings.Contains(stdout, tt.want) || strings.Contains(stdout, left) != (tt.want == left) {
			t.Errorf("%q: exit code %d, stderr %q; want %q in\n%s", tt.logs, code, stderr, tt.want, stdout)
		}
	}
}
