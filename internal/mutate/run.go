package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// run tries the mutants and tells w their fates. It returns an error if one survives that is not accepted, or if one is
// accepted that there is not.
func (j *job) run(w io.Writer) error {
	all, err := j.mutants()
	for _, name := range j.accepted.stale(j.targets, all) {
		err = errors.Join(err, fmt.Errorf("accepted, but there is no such mutant: %s", name))
	}
	if err == nil && !j.list {
		err = j.passes()
	}
	if err != nil {
		return err
	}
	var mu sync.Mutex
	counts := make(map[string]int)
	tell := func(m mutant, fate string, tryErr error) {
		mu.Lock()
		defer mu.Unlock()
		if fate == "survived" {
			tryErr = fmt.Errorf("survived: %v", m)
		}
		err = errors.Join(err, tryErr)
		counts[fate]++
		fmt.Fprintf(w, "%-8s %s:%d: %s\n", fate, m.file, m.line, m.edit)
	}
	queue := make(chan mutant)
	var trying sync.WaitGroup
	for range j.workers {
		trying.Go(func() { j.work(queue, tell) })
	}
	for _, m := range all {
		switch {
		case !j.match.MatchString(m.String()):
		case j.list:
			fmt.Fprintln(w, m)
		case j.accepted[m.String()] != "":
			tell(m, "accepted", nil)
		default:
			queue <- m
		}
	}
	close(queue)
	trying.Wait()
	fmt.Fprintln(w, counts)
	return err
}

// passes returns an error if the tests of a target fail though there is no mistake.
func (j *job) passes() error {
	dir, err := copyModule(j.root)
	defer os.RemoveAll(dir)
	passed := make(map[string]bool)
	for _, t := range j.targets {
		if tests := t.pkg + t.first + t.skip; err == nil && !passed[tests] {
			passed[tests] = true
			text, readErr := os.ReadFile(filepath.Join(dir, t.file))
			fate, tryErr := j.try(dir, mutant{target: t, text: string(text)})
			if err = errors.Join(readErr, tryErr); err == nil && fate != "survived" {
				err = fmt.Errorf("the tests of %s fail even without a mistake", t.file)
			}
		}
	}
	return err
}

// work tries mutants, one after the other, in a copy of the module.
func (j *job) work(queue <-chan mutant, tell func(mutant, string, error)) {
	dir, copyErr := copyModule(j.root)
	defer os.RemoveAll(dir)
	for m := range queue {
		fate, err := "", copyErr
		if err == nil {
			fate, err = j.try(dir, m)
		}
		tell(m, fate, err)
	}
}

// try runs the tests of m in a copy of the module: "noticed", "survived", or "no code" if it does not compile.
func (j *job) try(dir string, m mutant) (fate string, err error) {
	path := filepath.Join(dir, m.file)
	before, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, before, 0o644)) }()
	if err := os.WriteFile(path, []byte(m.text), 0o644); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "mutant.test")
	if j.do(dir, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary, "./"+m.pkg) != nil {
		return "no code", nil
	}
	pkg := filepath.Join(dir, m.pkg)
	args := append([]string{"-test.timeout=" + j.timeout.String()}, j.args...)
	for _, tests := range []string{"-test.run=" + m.first, "-test.skip=" + m.skip} {
		if !strings.HasSuffix(tests, "=") && j.do(pkg, binary, append(args, tests)...) != nil {
			return "noticed", nil
		}
	}
	return "survived", nil
}

// do runs a command, which is given a bit longer than the tests give themselves.
func (j *job) do(dir, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), j.timeout+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

// copyModule returns the path of a copy of the Go module at root, without what its tests do not need.
func copyModule(root string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "mutate-"); err != nil {
		return "", err
	}
	return dir, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch {
		case d.IsDir() && (rel == "e2e" || rel == "bench" || rel == "bin" || strings.HasPrefix(rel, ".") && rel != "."):
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
