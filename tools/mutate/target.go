package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A target is a file and the tests that should fail when it is changed.
type target struct {
	file   string // or, before expand, a pattern of filepath.Match
	suites []suite
}

// A suite is a part of the tests of a package.
type suite struct {
	pkg   string
	first string // fast tests that kill most mutants; they run before the others
	skip  string // tests that do not depend on the file, or take too long
	rapid bool   // the package links rapid, which has flags of its own
}

// flags returns the flags of each run of s.
func (s suite) flags() []string {
	flags := []string{"-test.failfast"}
	if s.rapid {
		flags = append(flags, "-rapid.shrinktime=0s", "-rapid.nofailfile")
	}
	return flags
}

// stages returns the flags of the test runs of s, in order.
func (s suite) stages() (flags []string) {
	if s.first != "" {
		flags = append(flags, "-test.run="+s.first)
	}
	if s.skip != "" {
		return append(flags, "-test.skip="+s.skip)
	}
	return append(flags, "-test.run=.")
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
	coreFirst = "KeepsTheContract|RareTimelines|Waits|BanFollows|CostEquals|IdleKeys|Share"
	coreRest  = "ManyCallers|Flapping|Probe|Breaker|Links|NeverLate"
	coreSlow  = coreRest + "|Allocates"
	inHeap    = "Flood|Heap|" + coreSlow // for files that have nothing to do with the bound on memory

	redisFirst = "Timelines|FuzzKey|TestKeys|Expir|Corrupt|Stored|Exactly"
	redisSlow  = "Cluster|Processes|NewMaster|Migrates|Ring|TestMiniredis$|Deadline|Bounded|Remembered|Warned|" +
		"AtOnce|ErrorOfTheServer|LostReply|Abandoned|SeveralSlots|CallThatHangs"
)

// patterns are the targets of this module.
var patterns = []target{
	{"internal/algorithm/*.go", []suite{{pkg: "internal/algorithm"}, {"core", coreFirst, inHeap, true}}},
	{"internal/memory/*.go", []suite{{pkg: "internal/memory"}, {"core", coreFirst, coreSlow, true}}},
	{"core/result.go", []suite{{"core", "Join|Decision|RetryAfter", coreSlow, true}}},
	{"core/decision.go", []suite{{"core", "Join|Decision|RetryAfter", coreSlow, true}}},
	{"core/check.go", []suite{{"core", "OneLimit|Tier|Cost|Allocates", coreRest, true}}},
	{"core/receipt.go", []suite{{"core", "OneLimit|Tier|Cost|Allocates", coreRest, true}}},
	{"core/store_client.go", []suite{{"core", "OneLimit|Allocates", coreRest, true}}},
	{"core/take.go", []suite{{"core", "OneLimit|Allocates", coreRest, true}}},
	{"core/memory.go", []suite{{"core", "OneLimit|Known|Allocates", coreRest, true}}},
	{"core/grant.go", []suite{{"core", "Grant|Usage", inHeap, true}}},
	{"core/keys.go", []suite{{"core", "Grant|Usage", inHeap, true}}},
	{"core/usage.go", []suite{{"core", "Grant|Usage", inHeap, true}}},
	{"core/wait.go", []suite{{"core", "Wait", inHeap, true}}},
	{"client/*.go", []suite{{pkg: "client", skip: "Goroutine|Bound"}}},
	{"internal/redisx/key.go", []suite{{"internal/redisx", redisFirst, redisSlow, true}}},
	{"internal/redisx/reply.go", []suite{{"internal/redisx", redisFirst, redisSlow, true}}},
	{"internal/lease/*.go", []suite{{pkg: "internal/lease"}}},
	{"internal/redisx/lua/number.lua", []suite{{"internal/redisx", "Lua", redisSlow, true}}},
	{"internal/redisx/lua/*.lua", []suite{{"internal/redisx", redisFirst, redisSlow, true}}},
}
