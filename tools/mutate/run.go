package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// run tries the mutants and writes their results to w. It returns an error if a mutant survives that is not accepted, or if
// an accepted mutant does not exist.
func (j *job) run(w io.Writer) error {
	all, err := j.mutants()
	for _, name := range j.accepted.stale(j.targets, all) {
		err = errors.Join(err, fmt.Errorf("accepted, but there is no such mutant: %s", name))
	}
	if err == nil && !j.list {
		err = j.runOriginal()
	}
	if err != nil {
		return err
	}
	return j.tryAll(all, &tally{w: w, progress: j.progress, counts: make(map[string]int)})
}

// tryAll tries the mutants whose result is not known yet, in several workers.
func (j *job) tryAll(all []mutant, t *tally) error {
	queue := make(chan mutant)
	var trying sync.WaitGroup
	for range j.workers {
		trying.Go(func() { j.work(queue, t) })
	}
	for _, m := range all {
		switch before := j.progress.result(m); {
		case !j.match.MatchString(m.String()):
		case j.list:
			fmt.Fprintln(t.w, m)
		case j.accepted[m.String()] != "":
			t.add(m, "accepted", nil)
		case before != "":
			t.add(m, before, nil)
		default:
			queue <- m
		}
	}
	close(queue)
	trying.Wait()
	fmt.Fprintln(t.w, t.counts)
	return t.err
}

// runOriginal builds and times the tests of each target without an edit. It returns an error if they fail.
func (j *job) runOriginal() error {
	dir, err := copyModule(j.root)
	defer os.RemoveAll(dir)
	if err != nil {
		return err
	}
	w := worker{job: j, dir: dir}
	j.built, j.took = make(map[string][]byte), make(map[string]time.Duration)
	for _, t := range j.targets {
		for _, s := range t.suites {
			if err := w.buildOriginal(t, s.pkg); err != nil {
				return err
			}
			if err := w.time(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// buildOriginal builds the tests of a package of a target without an edit, unless they were built before.
func (w *worker) buildOriginal(t target, pkg string) error {
	if w.built[pkg] != nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(w.dir, t.file))
	if err != nil {
		return err
	}
	if ok, err := w.build(mutant{target: t, text: string(text)}, pkg); err != nil || !ok {
		return errors.Join(fmt.Errorf("%s does not compile", pkg), err)
	}
	w.built[pkg], err = os.ReadFile(w.binary())
	return err
}

// time measures the processor time of the tests of a suite without an edit.
func (w *worker) time(s suite) error {
	for _, tests := range s.stages() {
		if w.took[s.pkg+tests] > 0 {
			continue
		}
		if err := os.WriteFile(w.binary(), w.built[s.pkg], 0o755); err != nil {
			return err
		}
		out, used, err := w.runTests(s, tests, w.timeout)
		if err != nil {
			return fmt.Errorf("the tests of %s fail without an edit: %w\n%s", s.pkg, err, out)
		}
		w.took[s.pkg+tests] = used
	}
	return nil
}

// limit returns the processor time that tests of a mutant may use: a multiple of the time for the original. A single
// test gets as much as the first stage.
func (j *job) limit(s suite, tests string) time.Duration {
	took, ok := j.took[s.pkg+tests]
	if !ok {
		took = j.took[s.pkg+s.stages()[0]]
	}
	return 3*took + 2*time.Second
}

// work tries the mutants of a queue and adds their results to t.
func (j *job) work(queue <-chan mutant, t *tally) {
	dir, copyErr := copyModule(j.root)
	defer os.RemoveAll(dir)
	w := worker{job: j, dir: dir}
	for m := range queue {
		result, err := "", copyErr
		if err == nil {
			result, err = w.try(m)
		}
		t.add(m, result, err)
	}
}
