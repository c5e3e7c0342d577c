package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// countedDecisions is how many decisions callgrind counts the instructions of.
const countedDecisions = 1000

// Callgrind starts to count when a process calls countFromHere, and stops when it calls countToHere.
//
//go:noinline
func countFromHere() {}

//go:noinline
func countToHere() {}

// count appends the instructions of a decision to the samples of each entry, and returns r with a column for them. Other load
// on the machine does not change these numbers, so several entries run at a time.
func (e *env) count(r *row, entries []entry, samples [][]sample) (*row, error) {
	program, err := e.withSymbols()
	if err != nil {
		return nil, err
	}
	counts, failed := make([]float64, len(entries)), make([]error, len(entries))
	free := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, c := range entries {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			counts[i], failed[i] = e.instructions(program, r, c)
		})
	}
	wg.Wait()
	for i, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("row %q: instructions of %s: %w", r.name, entries[i].name, err)
		}
		for round := range samples[i] {
			samples[i][round] = append(samples[i][round], counts[i])
		}
	}
	counted := *r
	counted.unit.columns = append(slices.Clone(r.unit.columns), "instructions")
	return &counted, nil
}

// withSymbols returns this program with its symbols, which "go run" and "go test" strip and callgrind needs.
func (e *env) withSymbols() (program, error) {
	if e.symbols != "" {
		return program{path: filepath.Join(e.symbols, "bench")}, nil
	}
	dir, err := os.MkdirTemp("", "spillgate-bench-")
	if err != nil {
		return program{}, err
	}
	e.symbols = dir
	_, err = gotool(e.ctx, ".", "build", "-o", filepath.Join(dir, "bench"), ".")
	return program{path: filepath.Join(dir, "bench")}, err
}

// instructions returns how many instructions a decision of an entry takes, after as many decisions that warm it up. The entry
// has few keys, because callgrind is slow. Callgrind cannot handle the signals by which Go preempts goroutines, and a garbage
// collection would be charged to the decisions that it happens to meet.
func (e *env) instructions(program program, r *row, c entry) (float64, error) {
	dir, err := os.MkdirTemp("", "spillgate-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "counts")
	program.under = []string{
		e.valgrind, "-q", "--tool=callgrind", "--callgrind-out-file=" + file,
		"--zero-before=*.countFromHere", "--dump-before=*.countToHere",
	}
	program.env = []string{"GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1", "GOGC=off"}
	p, err := start(e.ctx, program, "row", measuring{Row: r.name, Entry: c.name, Operations: countedDecisions, Quick: true}, nil)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	for range 2 {
		if err := p.call(0, nil); err != nil {
			return 0, err
		}
	}
	text, err := os.ReadFile(file + ".2") // callgrind numbers the files that it writes
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if total, ok := strings.CutPrefix(line, "totals: "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(total), 64)
			return n / countedDecisions, err
		}
	}
	return 0, fmt.Errorf("callgrind wrote no total")
}
