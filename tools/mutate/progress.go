package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
)

// progress keeps the results of mutants in a file, so that an interrupted run can be resumed. A mutant is identified by the
// whole text of its file.
type progress struct {
	file    *os.File // nil: keep nothing
	results map[string]string
}

// openProgress reads the file at path, which need not exist. Without a path nothing is kept.
func openProgress(path string) (*progress, error) {
	m := &progress{results: make(map[string]string)}
	if path == "" {
		return m, nil
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if digest, result, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			m.results[digest] = result
		}
	}
	m.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return m, err
}

func digestOf(m mutant) string {
	return fmt.Sprintf("%.16x", sha256.Sum256([]byte(m.file+"\n"+m.text)))
}

// result returns the result of an earlier run: "" if t was not tried or survived, because tests may be better now.
func (m *progress) result(t mutant) string { return m.results[digestOf(t)] }

// note adds the result of t to the file.
func (m *progress) note(t mutant, result string) {
	if m.file != nil && result != "survived" && result != "accepted" && m.results[digestOf(t)] == "" {
		fmt.Fprintln(m.file, digestOf(t), result)
	}
}
