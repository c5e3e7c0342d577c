package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestOctokit checks that Octokit's throttling plugin treats a denial as a primary rate limit, waits until Reset and
// succeeds at its first retry.
func TestOctokit(t *testing.T) {
	dir := installOctokit(t)
	atOnce(t, func(t *testing.T, s *wire.Server, _ <-chan bool) { checkOctokit(t, drive(t, dir, s.URL, "3")) })
}

// An event is a line that the script prints.
type event struct {
	Event      string
	Status     int
	Remaining  string
	RetryAfter float64
	RetryCount int
	Message    string
}

// checkOctokit allows for the plugin's extra second after Reset, and for the rounding of Reset.
func checkOctokit(t *testing.T, got []event) {
	var limited, passed int
	for _, e := range got {
		switch {
		case e.Event == "rate limit" && e.RetryCount == 0 && e.RetryAfter >= 1 && e.RetryAfter <= period.Seconds()+2:
			limited++
		case e.Event == "response" && e.Status == 200:
			passed++
		default:
			t.Errorf("event %+v", e)
		}
	}
	expect.True(t, limited == 1 && passed == 3,
		"rate limited %d times, %d passed; want 3 to pass, the last after one retry: %+v", limited, passed, got)
}

// installOctokit installs what the lock file names, in a temporary directory.
func installOctokit(t *testing.T) (dir string) {
	dir = t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "octokit"))))
	_, err := run(t, dir, time.Minute, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--loglevel=error")
	switch {
	case err != nil && os.Getenv("CI") == "true":
		t.Fatalf("%v, and CI is set", err)
	case err != nil:
		t.Skipf("SKIPPED: Octokit cannot be installed: %v", err)
	}
	return dir
}

// drive runs the script and returns what it saw.
func drive(t *testing.T, dir string, args ...string) (events []event) {
	out := must.Get(run(t, dir, time.Minute, "node", append([]string{"drive.mjs"}, args...)...))(t)
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var e event
		if err := d.Decode(&e); err != nil {
			t.Fatalf("%v in the output\n%s", err, out)
		}
		events = append(events, e)
	}
	return events
}

// run runs a program for at most the given time, and returns its output.
func run(t *testing.T, dir string, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, problems.String())
	}
	return out.String(), nil
}
