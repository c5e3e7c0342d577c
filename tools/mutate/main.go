// Command mutate is a mutation tester for Go and Lua. It makes one small change after another in the algorithms, the scripts
// and the encoding of keys, each in a copy of the module, and runs the tests that should fail. A mutant that passes them
// survives, which is an error unless accepted.txt says why no test can kill it.
//
//	go run .                              every file
//	go run . -files internal/algorithm/sliding.go  some files, separated by commas
//	go run . -run 'level <= target'       the mutants whose description matches
//	go run . -resume /tmp/progress        skip the mutants that the file lists as killed, and add to it
//	go run . -list                        print the mutants and run nothing
//
// It runs in its own directory, and mutates the module two directories above unless -root names another.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// A job is one run of the command.
type job struct {
	root     string // of the module
	targets  []target
	accepted accepted
	match    *regexp.Regexp // of descriptions
	list     bool           // print the mutants and run nothing
	workers  int
	timeout  time.Duration // of a build, and of a run of tests
	progress *progress

	built  map[string][]byte        // by package: the test binary of the original
	took   map[string]time.Duration // by package and flag: processor time of the tests of the original
	recent recent
}

func main() {
	if err := mutate(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// mutate runs the command line.
func mutate() (err error) {
	var j job
	files := flag.String("files", "", "the files to mutate, separated by commas; all targets if empty")
	match := flag.String("run", "", "only mutants whose description matches this regular expression")
	resume := flag.String("resume", "", "a file that keeps the mutants that were killed")
	flag.StringVar(&j.root, "root", "../..", "the module to mutate")
	flag.BoolVar(&j.list, "list", false, "print the mutants and run nothing")
	flag.DurationVar(&j.timeout, "timeout", 3*time.Minute, "how long a build or a run of tests may take")
	flag.IntVar(&j.workers, "workers", runtime.GOMAXPROCS(0), "how many mutants to try at once")
	flag.Parse()
	if j.match, err = regexp.Compile(*match); err != nil {
		return err
	}
	all, err := expand(j.root, patterns)
	if err != nil {
		return err
	}
	j.targets = choose(all, *files)
	text, err := os.ReadFile("accepted.txt")
	if err != nil {
		return err
	}
	if j.accepted, err = readAccepted(string(text)); err != nil {
		return err
	}
	if j.progress, err = openProgress(*resume); err != nil {
		return err
	}
	return j.run(os.Stdout)
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
