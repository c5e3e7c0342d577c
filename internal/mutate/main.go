// Command mutate asks whether the tests would notice a mistake. It makes one small mistake after the other in the
// algorithms, the scripts and the encoding of keys, each in a copy of the module, and runs the tests that ought to fail.
// A mutant that none of them notices survives; unless accepted.txt says why nobody could notice it, that is an error.
//
//	go run ./internal/mutate                             every file
//	go run ./internal/mutate -files core/sliding.go      some, separated by commas
//	go run ./internal/mutate -run 'level <= target'      the mutants whose description matches
//	go run ./internal/mutate -resume /tmp/noticed        skip what the file says was noticed, and add to it
//	go run ./internal/mutate -list                       show the mutants and run nothing
//
// It runs from the root of the module.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A job is what to do.
type job struct {
	root     string // of the module
	targets  []target
	accepted accepted
	match    *regexp.Regexp // of descriptions
	list     bool           // only show the mutants
	args     []string       // of the tests
	workers  int
	timeout  time.Duration // of a build, and of a run of tests
	memory   *memory

	built  map[string][]byte        // by package: the test binary without a mistake
	took   map[string]time.Duration // by package and flag: of a processor, by the tests without a mistake
	recent recent
}

func main() {
	j := job{args: []string{"-test.failfast", "-rapid.shrinktime=0s", "-rapid.nofailfile"}}
	files := flag.String("files", "", "the files to mutate, separated by commas; all targets if empty")
	match := flag.String("run", "", "only mutants whose description matches this regular expression")
	flag.BoolVar(&j.list, "list", false, "show the mutants and run nothing")
	flag.DurationVar(&j.timeout, "timeout", 3*time.Minute, "how long a build or a run of tests may take")
	resume := flag.String("resume", "", "a file that remembers what was noticed")
	flag.IntVar(&j.workers, "workers", runtime.GOMAXPROCS(0), "how many mutants to try at once")
	flag.Parse()
	j.root, j.targets, j.match = ".", choose(targets, *files), regexp.MustCompile(*match)
	text, err := os.ReadFile("internal/mutate/accepted.txt")
	if err == nil {
		j.accepted, err = readAccepted(string(text))
	}
	if err == nil {
		j.memory, err = openMemory(*resume)
	}
	if err == nil {
		err = j.run(os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// choose returns the targets of these files, separated by commas, or all.
func choose(all []target, files string) []target {
	names := strings.Split(files, ",")
	return slices.DeleteFunc(slices.Clone(all), func(t target) bool { return files != "" && !slices.Contains(names, t.file) })
}

// mutants returns the mutants of the targets.
func (j *job) mutants() (all []mutant, err error) {
	for _, t := range j.targets {
		text, err := os.ReadFile(filepath.Join(j.root, t.file))
		if err != nil {
			return nil, err
		}
		some, err := mutantsOf(t, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		err = errors.New("no mutants: is the file among the targets?")
	}
	return all, err
}
