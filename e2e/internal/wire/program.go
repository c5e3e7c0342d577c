package wire

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// Skip skips a test whose program is not installed, except in CI.
func Skip(t testing.TB, err error) {
	t.Helper()
	must.True(t, os.Getenv("CI") != "true", "%v, and CI is set", err)
	t.Skipf("SKIPPED: the program is not installed: %v", err)
}

// Node returns a copy of a directory with the packages of its lock file. They are installed once, and kept in the user's cache directory.
// If they cannot be installed, Node skips the test, except in CI.
func Node(t testing.TB, source string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		Skip(t, err)
	}
	dir = t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(source)))
	lock := must.Get(os.ReadFile(filepath.Join(source, "package-lock.json")))(t)
	caches := must.Get(os.UserCacheDir())(t)
	cache := filepath.Join(caches, "spillgate", fmt.Sprintf("node-%x", sha256.Sum256(lock)))
	if _, err := os.Stat(cache); err != nil {
		must.Do(t, os.MkdirAll(filepath.Dir(cache), 0o755))
		installed := must.Get(os.MkdirTemp(filepath.Dir(cache), "install"))(t)
		defer os.RemoveAll(installed)
		must.Do(t, os.CopyFS(installed, os.DirFS(source)))
		if _, err := Run(t, installed, nil, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--loglevel=error"); err != nil {
			Skip(t, err)
		}
		err := os.Rename(installed, cache)
		must.True(t, err == nil || errors.Is(err, fs.ErrExist), "%v", err) // another process may have been faster
	}
	must.Do(t, os.Symlink(filepath.Join(cache, "node_modules"), filepath.Join(dir, "node_modules")))
	return dir
}

// Run runs a program for at most two minutes, with additional variables of the environment, and returns its output.
func Run(t testing.TB, dir string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, problems.String())
	}
	return out.String(), nil
}

// Decode decodes the objects that a program prints in JSON.
func Decode[Line any](t testing.TB, out string) (lines []Line) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var line Line
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%v in the output\n%s", err, out)
		}
		lines = append(lines, line)
	}
	return lines
}
