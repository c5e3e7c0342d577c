package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spillgate/spillgate/bench/peers"
)

// countedDecisions is how many decisions callgrind counts the instructions of.
const countedDecisions = 1000

// instructions is the column of what callgrind counts.
const instructions = "instructions"

// Callgrind starts to count when a process calls countFromHere, and stops when it calls countToHere.
//
//go:noinline
func countFromHere() {}

//go:noinline
func countToHere() {}

// count appends the instructions of a decision to the samples of each entry, and returns r with a column for them. Other load
// on the machine does not change these numbers, so several entries run at a time.
func (e *env) count(r *row, entries []entry, samples [][]sample) (*row, error) {
	built, err := e.withSymbols()
	if err != nil {
		return nil, err
	}
	count := r.count
	if count == nil {
		count = func(e *env, program program, name string) (float64, error) { return e.instructions(program, r, name) }
	}
	counts, failed := make([]float64, len(entries)), make([]error, len(entries))
	free := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, c := range entries {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			counts[i], failed[i] = count(e, built, c.name)
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
	counted.unit.columns = append(slices.Clone(r.unit.columns), instructions)
	counted.bounds = append(slices.Clone(r.bounds), r.counts...)
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
func (e *env) instructions(program program, r *row, name string) (float64, error) {
	return e.counted(program, "row", measuring{Row: r.name, Entry: name, Operations: countedDecisions, Quick: true}, nil, func(p *process) error {
		for range 2 {
			if err := p.call(0, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// counted starts a task and returns how many instructions a decision takes of the second of the parts, of countedDecisions each,
// that the process counts while decide runs.
func (e *env) counted(program program, task string, argument, first any, decide func(*process) error) (float64, error) {
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
	p, err := start(e.ctx, program, task, argument, first)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	if err := decide(p); err != nil {
		return 0, err
	}
	n, err := total(file + ".2") // callgrind numbers the files that it writes
	return n / countedDecisions, err
}

// total returns how many instructions a file of callgrind says.
func total(file string) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "totals: "); ok {
			return strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return 0, fmt.Errorf("callgrind wrote no total")
}

// inServer returns how many instructions a Redis server takes for a decision of a store: the difference between two servers, one
// of which makes more decisions.
func (e *env) inServer(open inRedis) (float64, error) {
	few, err := e.inServerAfter(countedDecisions, open)
	if err != nil {
		return 0, err
	}
	more, err := e.inServerAfter(2*countedDecisions, open)
	return (more - few) / countedDecisions, err
}

// inServerAfter returns how many instructions a server takes from its start to its end, with n decisions in between.
func (e *env) inServerAfter(n int, open inRedis) (float64, error) {
	dir, err := os.MkdirTemp("", "spillgate-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "counts")
	server, err := startServer(e.ctx, e.valgrind, "-q", "--tool=callgrind", "--callgrind-out-file="+file)
	if err != nil {
		return 0, err
	}
	defer server.stop()
	client := server.client()
	defer func() { _ = client.Close() }()
	take := open(plenty, client).Worker()
	for i := range n {
		if !take(peers.Key(i % 100)) {
			return 0, errors.New("a request was denied")
		}
	}
	if err := server.process.Process.Signal(os.Interrupt); err != nil {
		return 0, err
	}
	_ = server.process.Wait()
	return total(file)
}
