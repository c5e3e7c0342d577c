package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
)

// A memory is a file of what was noticed, so that a run that was interrupted can go on. A mutant is known by its text: if
// the file that it is one of has changed, it is another.
type memory struct {
	file  *os.File // nil: remember nothing
	fates map[string]string
}

// openMemory reads the file at path, which need not exist; "" stands for none.
func openMemory(path string) (*memory, error) {
	m := &memory{fates: make(map[string]string)}
	if path == "" {
		return m, nil
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if digest, fate, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			m.fates[digest] = fate
		}
	}
	m.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return m, err
}

func digestOf(m mutant) string {
	return fmt.Sprintf("%.16x", sha256.Sum256([]byte(m.file+"\n"+m.text)))
}

// fate returns what became of t before: "" if it was not tried, or survived, since there may be better tests by now.
func (m *memory) fate(t mutant) string { return m.fates[digestOf(t)] }

// note remembers the fate of t.
func (m *memory) note(t mutant, fate string) {
	if m.file != nil && fate != "survived" && fate != "accepted" && m.fates[digestOf(t)] == "" {
		fmt.Fprintln(m.file, digestOf(t), fate)
	}
}
