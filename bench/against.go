package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A since bounds an entry of a row by the same entry of an earlier commit, which the flag -against names: the value is
// at most factor times the earlier one, or at least, where more is better.
type since struct {
	entry  string
	factor float64
}

// before returns the name that an entry gets if it belongs to the earlier commit.
func before(name string) string { return name + " before" }

// against runs rows in turns with this program and with a program that has the library at a commit. It runs the rows whose
// name matches; if every name matches, only the rows with a bound for this. For each entry of Spillgate it prints both numbers.
func (e *env) against(commit string, match *regexp.Regexp, out io.Writer) error {
	now, err := thisProgram()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "spillgate-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	then, err := build(e.ctx, commit, dir)
	if err != nil {
		return err
	}
	var c chapter
	for _, s := range sections() {
		for _, r := range s.rows {
			if !match.MatchString(r.name) || match.String() == "" && r.since.entry == "" {
				continue
			}
			o, err := e.run(twice(r, now, then))
			if err != nil {
				return err
			}
			c.outcomes = append(c.outcomes, o)
			if _, err := io.WriteString(out, turns(o)); err != nil {
				return err
			}
		}
	}
	if len(c.outcomes) == 0 {
		return fmt.Errorf("no row matches %q", match)
	}
	_, err = io.WriteString(out, boundsTable([]chapter{c}))
	return err
}

// build builds this program in dir, with the library at a commit and the current sources of the bench. It sets the build tag
// before, so that a file can adapt the sources, and nocalls if the library has no package grpclimit yet.
func build(ctx context.Context, commit, dir string) (program, error) {
	if err := sources(ctx, commit, dir); err != nil {
		return program{}, err
	}
	p := program{path: filepath.Join(dir, "before"), dir: filepath.Join(dir, "bench")}
	tags := "before"
	if _, err := os.Stat(filepath.Join(dir, "middleware", "grpc")); err != nil {
		tags += ",nocalls"
	}
	_, err := gotool(ctx, p.dir, "build", "-mod=mod", "-tags="+tags, "-o", p.path, ".")
	return p, err
}

// gotool runs a go command in a directory and returns what it prints.
func gotool(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env, command.Stderr = dir, append(os.Environ(), "GOWORK=off"), &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return out, nil
}

// sources copies to dir the files of a commit, and the current files of the bench.
func sources(ctx context.Context, commit, dir string) error {
	archive, err := exec.CommandContext(ctx, "git", "-C", "..", "archive", "--format=zip", commit).Output()
	if err != nil {
		return fmt.Errorf("git archive %s: %w", commit, err)
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	bench := filepath.Join(dir, "bench")
	return errors.Join(os.CopyFS(dir, files), os.RemoveAll(bench), os.CopyFS(bench, os.DirFS(".")), dropMissing(ctx, bench))
}

// dropMissing removes from the go.mod in dir the modules whose replacements do not exist: what is a module now was a package of
// another one at an earlier commit.
func dropMissing(ctx context.Context, dir string) error {
	text, err := gotool(ctx, dir, "mod", "edit", "-json")
	if err != nil {
		return err
	}
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(text, &mod); err != nil {
		return err
	}
	edit := []string{"mod", "edit"}
	for _, r := range mod.Replace {
		if _, err := os.Stat(filepath.Join(dir, r.New.Path, "go.mod")); err != nil {
			edit = append(edit, "-dropreplace="+r.Old.Path, "-droprequire="+r.Old.Path)
		}
	}
	if len(edit) > 2 {
		_, err = gotool(ctx, dir, edit...)
	}
	return err
}

// twice returns a row of the entries of ours in r, each measured by two programs.
func twice(r *row, now, then program) *row {
	both := &row{name: r.name, task: r.task, unit: r.unit, maxRounds: r.maxRounds}
	both.open = func(e *env, f *setup) error {
		for turn, program := range []program{now, then} {
			var entries []string
			p, err := start(e.ctx, program, "row", measuring{Row: r.name, Quick: e.quick, Busy: e.busy}, &entries)
			if err != nil {
				return err
			}
			f.onClose(p.stop)
			for i, name := range entries {
				role := ours
				if turn == 1 {
					name, role = before(name), note
				}
				f.add(name, role, p.entry(i))
			}
		}
		return nil
	}
	if s := r.since; s.entry != "" {
		limit := atMost
		if r.unit.more {
			limit = atLeast
		}
		both.bounds = []bound{limit(s.entry, before(s.entry), s.factor)}
	}
	return both
}

// turns renders the outcome of a row that two programs ran.
func turns(o *outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| | | now | before | ratio |\n|---|---|--:|--:|--:|\n", o.row.name)
	for _, r := range o.results {
		if r.role != ours {
			continue
		}
		earlier := o.get(before(r.name))
		for i, column := range o.row.unit.columns {
			ratio := ""
			if earlier[i] > 0 {
				ratio = fmt.Sprintf("%.2f", r.sample[i]/earlier[i])
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.name, column, number(r.sample[i]), number(earlier[i]), ratio)
		}
	}
	return b.String() + "\n"
}

// measuring is the argument of measureRow.
type measuring struct {
	Row         string
	Entry       string // empty: all of Spillgate's
	Operations  int    // how many decisions a slice makes; 0: as many as fill it
	Quick, Busy bool
}

// measureRow opens one entry of a row, or all of Spillgate's, and first prints the names of the entries. Then it reads lines, each
// the index of an entry among these names, and prints a sample for each.
func measureRow(ctx context.Context, argument []byte) (session, error) {
	var arg measuring
	if err := json.Unmarshal(argument, &arg); err != nil {
		return session{}, err
	}
	e := newEnv(ctx, 1, arg.Quick, io.Discard)
	e.operations = arg.Operations
	if arg.Busy {
		e.clock, e.busy = processor(), true
	}
	r, ok := find(arg.Row)
	if !ok {
		return session{close: e.close}, fmt.Errorf("no row is called %q", arg.Row)
	}
	f, err := e.open(r, func(c entry) bool {
		return c.name == arg.Entry || arg.Entry == "" && c.role == ours
	})
	if err != nil {
		return session{close: e.close}, err
	}
	if len(f.entries) == 0 {
		f.close()
		return session{close: e.close}, fmt.Errorf("row %q has no entry %q", arg.Row, arg.Entry)
	}
	names := []string{}
	for _, e := range f.entries {
		names = append(names, e.name)
	}
	return session{
		first: names,
		answer: func(line []byte) (any, error) {
			var n int
			if err := json.Unmarshal(line, &n); err != nil {
				return nil, err
			}
			return f.measure(n)
		},
		close: func() {
			f.close()
			e.close()
		},
	}, nil
}
