package main

import (
	"slices"
	"sync"
)

// recent knows, by packages, which tests noticed a mistake lately: they are likely to notice the next one, and few take
// less time than all. It is safe for concurrent use.
type recent struct {
	mu    sync.Mutex
	names map[string][]string
}

// remembered is how many tests run before the others.
const remembered = 3

// note puts a test in front.
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

// tests returns a flag for each, to be run on their own.
func (r *recent) tests(pkg string) (flags []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.names[pkg] {
		flags = append(flags, "-test.run=^"+name+"$")
	}
	return flags
}
