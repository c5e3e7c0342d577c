package main

import (
	"slices"
	"sync"
)

// recent keeps, for each package, the tests that killed a mutant last. They are likely to kill the next one and take less
// time than all tests. It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	names map[string][]string
}

// remembered is the number of tests that run before the others.
const remembered = 3

// note makes a test the first of its package.
func (r *recent) note(pkg, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = make(map[string][]string)
	}
	names := slices.DeleteFunc(r.names[pkg], func(other string) bool { return other == name })
	names = slices.Insert(names, 0, name)
	r.names[pkg] = names[:min(len(names), remembered)]
}

// tests returns a flag that runs it alone for each test.
func (r *recent) tests(pkg string) (flags []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.names[pkg] {
		flags = append(flags, "-test.run=^"+name+"$")
	}
	return flags
}
