package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// An env is the environment of a run: how much to measure, by which clock, on which server.
type env struct {
	rounds int
	quick  bool          // just enough to see that everything works
	slice  time.Duration // how long one entry is measured at a time
	clock  clock         // of decisions in memory
	busy   bool          // clock counts processor time
	server *server       // Redis; nil until a row asks
	single bool          // all contestants run in this process

	valgrind   string      // the path of the command; empty: no instructions are counted
	symbols    string      // the directory of this program with its symbols; empty: not built yet
	operations int         // how many decisions a slice makes; 0: as many as fill it
	log        *log.Logger // of progress
	began      time.Time
	load0      string // the load average then
	ctx        context.Context
}

// newEnv returns an env that stops measuring when ctx is done.
func newEnv(ctx context.Context, rounds int, quick bool, progress io.Writer) *env {
	e := &env{
		rounds: max(1, rounds), quick: quick, slice: 40 * time.Millisecond, clock: elapsed(), log: log.New(progress, "", 0),
		began: time.Now(), load0: loadAverage(), ctx: ctx,
	}
	if quick {
		e.rounds, e.slice = 1, time.Millisecond
	} else {
		e.valgrind, _ = exec.LookPath("valgrind")
	}
	return e
}

// scale returns n, or much less if e is quick.
func (e *env) scale(n int) int {
	if e.quick {
		return max(1, n/1000)
	}
	return n
}

// close stops the server, if a row has started it, and removes files.
func (e *env) close() {
	if e.symbols != "" {
		_ = os.RemoveAll(e.symbols)
	}
	if e.server != nil {
		e.server.stop()
	}
}

// open prepares the entries of r that keep accepts.
func (e *env) open(r *row, keep func(entry) bool) (*setup, error) {
	f := &setup{gc: r.gc}
	f.onClose(runtime.GC)
	if r.gc != gcRuns {
		percent := debug.SetGCPercent(-1)
		f.onClose(func() { debug.SetGCPercent(percent) })
	}
	if err := r.open(e, f); err != nil {
		f.close()
		return nil, fmt.Errorf("row %q: %w", r.name, err)
	}
	f.entries = slices.DeleteFunc(f.entries, func(c entry) bool { return !keep(c) })
	for i := range f.entries {
		if c := &f.entries[i]; c.measure == nil {
			c.measure = c.open()
		}
	}
	runtime.GC()
	return f, nil
}

// openApart starts a process for each entry of r, which measures the entry.
func (e *env) openApart(r *row) (_ *setup, err error) {
	f := &setup{}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	program, err := thisProgram()
	if err != nil {
		return nil, err
	}
	if err := r.open(e, f); err != nil {
		return nil, fmt.Errorf("row %q: %w", r.name, err)
	}
	for i := range f.entries {
		c := &f.entries[i]
		p, err := start(e.ctx, program, "row", measuring{Row: r.name, Entry: c.name, Quick: e.quick, Busy: e.busy}, nil)
		if err != nil {
			return nil, err
		}
		f.onClose(p.stop)
		c.measure = p.entry(0)
	}
	return f, nil
}

// run measures the entries of r in turns, so that other load on the machine affects all of them alike: each round takes
// a slice of every entry, and begins with another one.
func (e *env) run(r *row) (*outcome, error) {
	began := time.Now()
	open := func(r *row) (*setup, error) { return e.open(r, func(entry) bool { return true }) }
	if r.apart && !e.single {
		open = e.openApart
	}
	f, err := open(r)
	if err != nil {
		return nil, err
	}
	defer f.close()
	rounds := max(e.rounds, r.minRounds)
	if e.quick {
		rounds = e.rounds
	}
	if r.maxRounds > 0 {
		rounds = min(rounds, r.maxRounds)
	}
	samples := make([][]sample, len(f.entries))
	for round := range rounds {
		for i := range f.entries {
			n := (i + round) % len(f.entries)
			s, err := f.measure(n)
			err = errors.Join(err, e.ctx.Err())
			if err != nil {
				return nil, fmt.Errorf("row %q: %s: %w", r.name, f.entries[n].name, err)
			}
			samples[n] = append(samples[n], s)
		}
	}
	if r.counted && e.valgrind != "" {
		if r, err = e.count(r, f.entries, samples); err != nil {
			return nil, err
		}
	}
	e.log.Printf("%-55s %5.1fs", r.name, time.Since(began).Seconds())
	return evaluate(r, f.entries, samples), nil
}

// evaluate takes medians and applies the bounds of r.
func evaluate(r *row, entries []entry, samples [][]sample) *outcome {
	o := &outcome{row: r}
	for i, e := range entries {
		o.results = append(o.results, result{name: e.name, role: e.role, sample: medians(samples[i])})
	}
	slices.SortStableFunc(o.results, func(a, b result) int { return cmp.Compare(group(a.role), group(b.role)) })
	for _, b := range r.bounds {
		o.checks = append(o.checks, b(o))
	}
	return o
}

// group puts Spillgate first, then its notes, peers and baselines.
func group(r role) int { return [...]int{ours: 0, note: 1, peer: 2, baseline: 3}[r] }

// medians returns the median of each column of samples, of which there is at least one.
func medians(samples []sample) (m sample) {
	for column := range samples[0] {
		var v []float64
		for _, s := range samples {
			v = append(v, s[column])
		}
		slices.Sort(v)
		m = append(m, (v[(len(v)-1)/2]+v[len(v)/2])/2)
	}
	return m
}
