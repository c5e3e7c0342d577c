package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// A line is what the script prints: a denial, or the text of a call's result.
type line struct {
	Code    int
	Message string
	Data    struct {
		RetryAfterSeconds int
		Rules             []string
	}
}

// TestTypeScript checks that the client of the TypeScript SDK is denied, waits and succeeds.
func TestTypeScript(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "typescript"))))
	if _, err := run(t, dir, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--loglevel=error"); err != nil {
		must.True(t, os.Getenv("CI") != "true", "%v, and CI is set", err)
		t.Skipf("SKIPPED: the TypeScript SDK cannot be installed: %v", err)
	}
	for name, server := range map[string]func(*testing.T) string{
		"with sessions": func(t *testing.T) string { return serve(t, newServer(perTool()), false).URL },
		"stateless":     func(t *testing.T) string { return serve(t, newServer(perTool()), true).URL },
		"stdio":         func(*testing.T) string { return os.Args[0] },
	} {
		t.Run(name, func(t *testing.T) {
			out := must.Get(run(t, dir, "node", "drive.mjs", server(t)))(t)
			var got []line
			for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
				var l line
				if err := d.Decode(&l); err != nil {
					t.Fatalf("%v in the output\n%s", err, out)
				}
				got = append(got, l)
			}
			must.True(t, len(got) == 2 && got[1].Message == "found", "the client prints\n%s", out)
			d := got[0]
			if d.Code != -32029 || d.Data.RetryAfterSeconds < 1 || d.Data.RetryAfterSeconds > 2 || !slices.Equal(d.Data.Rules, []string{"search"}) ||
				!strings.Contains(d.Message, fmt.Sprintf("rate limit exceeded: retry in %d s", d.Data.RetryAfterSeconds)) {
				t.Errorf("the client gets %+v", d)
			}
		})
	}
}

// run runs a program for at most a minute, and returns its output. A program that is this test binary serves over stdio.
func run(t *testing.T, dir, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), stdio+"=1")
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, problems.String())
	}
	return out.String(), nil
}
