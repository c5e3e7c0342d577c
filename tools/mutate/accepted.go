package main

import (
	"fmt"
	"slices"
	"strings"
)

// accepted maps the descriptions of mutants that no test can kill to the reasons.
type accepted map[string]string

// readAccepted reads a file in which a description begins a line, and the reason follows on indented lines. A line that
// starts with # is a comment.
func readAccepted(text string) (accepted, error) {
	all, last := make(accepted), ""
	for n, line := range strings.Split(text, "\n") {
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case line[0] != ' ' && line[0] != '\t':
			if last = line; all[last] != "" {
				return nil, fmt.Errorf("accepted, line %d: there twice", n+1)
			}
			all[last] = ""
		case last == "":
			return nil, fmt.Errorf("accepted, line %d: a reason without a mutant", n+1)
		default:
			all[last] += strings.TrimSpace(line) + " "
		}
	}
	for mutant, reason := range all {
		if reason == "" {
			return nil, fmt.Errorf("accepted without a reason: %s", mutant)
		}
	}
	return all, nil
}

// stale returns the accepted descriptions of targets that no mutant has.
func (a accepted) stale(targets []target, all []mutant) (names []string) {
	for name := range a {
		file, _, _ := strings.Cut(name, ": ")
		isTarget := slices.ContainsFunc(targets, func(t target) bool { return t.file == file })
		if isTarget && !slices.ContainsFunc(all, func(m mutant) bool { return m.String() == name }) {
			names = append(names, name)
		}
	}
	return names
}
