package clients

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
)

// TestOctokit checks that Octokit's throttling plugin takes a denial for a primary rate limit, waits until Reset and passes
// at its first retry.
func TestOctokit(t *testing.T) {
	t.Parallel()
	dir := installOctokit(t)
	var all sync.WaitGroup
	for _, f := range apps.Frameworks {
		all.Go(func() {
			s := wire.Serve(t, f.Build(apps.Limited(everyTwoSeconds(), wire.OK)), false)
			checkOctokit(t, f.Name, drive(t, dir, s.URL, "3"))
		})
	}
	all.Wait()
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

func checkOctokit(t *testing.T, name string, got []event) {
	var limited, passed int
	for _, e := range got {
		switch {
		case e.Event == "rate limit" && e.RetryCount == 0 && e.RetryAfter >= 1 && e.RetryAfter <= 4:
			limited++
		case e.Event == "response" && e.Status == 200:
			passed++
		default:
			t.Errorf("%s: event %+v", name, e)
		}
	}
	if limited != 1 || passed != 3 {
		t.Errorf("%s: rate limited %d times, %d passed; want 3 to pass, the last after one retry: %+v", name, limited, passed, got)
	}
}

// installOctokit installs what the lock file names, in a temporary directory.
func installOctokit(t *testing.T) (dir string) {
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no npm in PATH, and CI is set")
		}
		t.Skip("SKIPPED: there is no npm in PATH; install it to run this test")
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "octokit"))); err != nil {
		t.Fatal(err)
	}
	run(t, dir, time.Minute, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
	return dir
}

// drive runs the script and returns what it saw.
func drive(t *testing.T, dir string, args ...string) (events []event) {
	out := run(t, dir, wire.Patience, "node", append([]string{"drive.mjs"}, args...)...)
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var e event
		if err := d.Decode(&e); err != nil {
			t.Errorf("%v in the output\n%s", err, out)
			return nil
		}
		events = append(events, e)
	}
	return events
}

// run runs a program for as long as it may take, and returns its output.
func run(t *testing.T, dir string, limit time.Duration, name string, args ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, problems.String())
	}
	return out.String()
}
