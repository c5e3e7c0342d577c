package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A worker tries mutants, one after the other, in a copy of the module.
type worker struct {
	*job
	dir string
}

func (w *worker) binary() string { return filepath.Join(w.dir, "mutant.test") }

// try returns the result of m: "killed", "timeout" if the tests use too much processor time, "survived", or "invalid"
// if m does not compile.
func (w *worker) try(m mutant) (result string, err error) {
	for _, s := range m.suites {
		if result, err = w.trySuite(m, s); result != "survived" {
			break
		}
	}
	return result, err
}

func (w *worker) trySuite(m mutant, s suite) (result string, err error) {
	if built, err := w.build(m, s.pkg); err != nil || !built {
		return "invalid", err
	}
	for _, tests := range append(w.recent.tests(s.pkg), s.stages()...) {
		switch out, _, err := w.runTests(s, tests, w.limit(s, tests)); {
		case errors.Is(err, errTimeout):
			return "timeout", nil
		case err != nil:
			if name := failure.FindSubmatch(out); name != nil {
				w.recent.note(s.pkg, string(name[1]))
			}
			return "killed", nil
		}
	}
	return "survived", nil
}

var failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// build makes the test binary of a package with m and reports whether m compiles.
func (w *worker) build(m mutant, pkg string) (ok bool, err error) {
	path := filepath.Join(w.dir, m.file)
	before, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if strings.HasSuffix(m.file, ".lua") && w.built[pkg] != nil {
		patched, err := patch(w.built[pkg], string(before), m.text)
		if err != nil {
			return false, err
		}
		return true, os.WriteFile(w.binary(), patched, 0o755)
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, before, 0o644)) }()
	if err := os.WriteFile(path, []byte(m.text), 0o644); err != nil {
		return false, err
	}
	_, _, err = w.do(w.dir, w.timeout, "go", "test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-o", w.binary(), "./"+pkg)
	return err == nil, nil
}

// runTests runs some tests of the binary, and returns their output and processor time.
func (w *worker) runTests(s suite, tests string, use time.Duration) (out []byte, used time.Duration, err error) {
	return w.do(filepath.Join(w.dir, s.pkg), use, w.binary(), append(s.flags(), tests)...)
}

// errTimeout is the error of a command that used too much time.
var errTimeout = errors.New("used too much time")

// do runs a command with a limit on its processor time, and returns its output.
func (w *worker) do(dir string, use time.Duration, name string, args ...string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	defer cancel()
	cmd, end := limited(ctx, use, name, args...)
	defer end()
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.WaitDelay = dir, &out, time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return nil, 0, err
	}
	if cmd.ProcessState.ExitCode() < 0 { // killed
		err = errTimeout
	}
	return out.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// copyModule returns the path of a copy of the Go module at root, without the directories that its tests do not need.
func copyModule(root string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "mutate-"); err != nil {
		return "", err
	}
	return dir, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && (rel == "e2e" || rel == "bench" || rel == "bin" || rel == "tools" || strings.HasPrefix(rel, ".") && rel != "."):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), text, 0o644)
	})
}
