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
