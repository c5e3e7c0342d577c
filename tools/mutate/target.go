package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A target is a file and the tests that should fail when it is changed.
type target struct {
	file  string // or, before expand, a pattern of filepath.Match
	pkg   string
	first string // fast tests that kill most mutants; they run before the others
	skip  string // tests that do not depend on the file, or take too long
}

// stages returns the flags of the test runs of t, in order.
func (t target) stages() (flags []string) {
	if t.first != "" {
		flags = append(flags, "-test.run="+t.first)
	}
	return append(flags, "-test.skip="+t.skip)
}

// expand returns a target for each file that a pattern matches, apart from tests; a file belongs to the first pattern that
// matches it. A pattern without a file is an error.
func expand(root string, patterns []target) (all []target, err error) {
	seen := make(map[string]bool)
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, p.file))
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("no file matches %s", p.file)
		}
		for _, path := range paths {
			t := p
			if t.file, err = filepath.Rel(root, path); err != nil {
				return nil, err
			}
			if !seen[t.file] && !strings.HasSuffix(path, "_test.go") {
				seen[t.file] = true
				all = append(all, t)
			}
		}
	}
	return all, nil
}

// choose returns the targets of these files, separated by commas, or all.
func choose(all []target, files string) []target {
	names := strings.Split(files, ",")
	return slices.DeleteFunc(slices.Clone(all), func(t target) bool { return files != "" && !slices.Contains(names, t.file) })
}

const (
	coreFirst = "Model|Contract|Rare|Exact"
	coreSlow  = "ManyCallers|Flapping|Probe|Breaker|Allocates|Links|NeverLate"
	inHeap    = "Flood|Heap|" + coreSlow // for files that have nothing to do with the bound on memory

	redisFirst = "Model|FuzzKey|TestKeys|Expir|Corrupt|Plain|Stored"
	redisSlow  = "Cluster|Failover|Processes|NewMaster|Migrates|Ring|TestMiniredis$|Deadline|Bounded|Remembered|Warned|ScriptFlush|" +
		"OtherRequests|AtOnce|ErrorOfTheServer|LostReply|Abandoned|SeveralSlots|CallThatHangs|ManyKeys"
)

// patterns are the targets of this module.
var patterns = []target{
	{"internal/algorithm/*.go", "core", coreFirst, inHeap},
	{"internal/memory/*.go", "core", coreFirst, coreSlow},
	{"internal/redisx/key.go", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/reply.go", "internal/redisx", redisFirst, redisSlow},
	{"internal/redisx/lua/number.lua", "internal/redisx", "Lua", redisSlow},
	{"internal/redisx/lua/*.lua", "internal/redisx", redisFirst, redisSlow},
}
