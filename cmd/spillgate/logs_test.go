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
		_, _ = io.WriteString(feed, "\n") // is read once the replay has the lines before
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

// An empty log, such as one that was rotated just now, changes nothing about the others, wherever it stands.
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
