package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// A tally prints and counts the results of mutants. Its methods may be called concurrently.
type tally struct {
	w        io.Writer
	progress *progress

	mu     sync.Mutex
	counts map[string]int // by result
	err    error          // of mutants that survived or could not be tried
}

// add adds the result of m. Err says why m could not be tried.
func (t *tally) add(m mutant, result string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if result == "survived" {
		err = fmt.Errorf("survived: %v", m)
	}
	t.err = errors.Join(t.err, err)
	t.counts[result]++
	fmt.Fprintf(t.w, "%-8s %s:%d: %s\n", result, m.file, m.line, m.edit)
	t.progress.note(m, result)
}
