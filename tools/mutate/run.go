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

// run tries the mutants and tells w their fates. It returns an error if one survives that is not accepted, or if one is
// accepted that there is not.
func (j *job) run(w io.Writer) error {
	all, err := j.mutants()
	for _, name := range j.accepted.stale(j.targets, all) {
		err = errors.Join(err, fmt.Errorf("accepted, but there is no such mutant: %s", name))
	}
	if err == nil && !j.list {
		err = j.rehearse()
	}
	if err != nil {
		return err
	}
	var mu sync.Mutex
	counts := make(map[string]int)
	tell := func(m mutant, fate string, tryErr error) {
		mu.Lock()
		defer mu.Unlock()
		if fate == "survived" {
			tryErr = fmt.Errorf("survived: %v", m)
		}
		err = errors.Join(err, tryErr)
		counts[fate]++
		fmt.Fprintf(w, "%-8s %s:%d: %s\n", fate, m.file, m.line, m.edit)
		j.memory.note(m, fate)
	}
	queue := make(chan mutant)
	var trying sync.WaitGroup
	for range j.workers {
		trying.Go(func() { j.work(queue, tell) })
	}
	for _, m := range all {
		switch before := j.memory.fate(m); {
		case !j.match.MatchString(m.String()):
		case j.list:
			fmt.Fprintln(w, m)
		case j.accepted[m.String()] != "":
			tell(m, "accepted", nil)
		case before != "":
			tell(m, before, nil)
		default:
			queue <- m
		}
	}
	close(queue)
	trying.Wait()
	fmt.Fprintln(w, counts)
	return err
}

// rehearse builds and times the tests of each target without a mistake. It returns an error if they fail.
func (j *job) rehearse() error {
	dir, err := copyModule(j.root)
	defer os.RemoveAll(dir)
	if err != nil {
		return err
	}
	w := worker{job: j, dir: dir}
	j.built, j.took = make(map[string][]byte), make(map[string]time.Duration)
	for _, t := range j.targets {
		if j.built[t.pkg] == nil {
			text, err := os.ReadFile(filepath.Join(dir, t.file))
			if err != nil {
				return err
			}
			if ok, err := w.build(mutant{target: t, text: string(text)}); err != nil || !ok {
				return errors.Join(fmt.Errorf("%s does not compile", t.pkg), err)
			}
			if j.built[t.pkg], err = os.ReadFile(w.binary()); err != nil {
				return err
			}
		}
		if err := w.time(t); err != nil {
			return err
		}
	}
	return nil
}

// time runs the tests of a target that is as it was.
func (w *worker) time(t target) error {
	for _, tests := range t.stages() {
		if w.took[t.pkg+tests] > 0 {
			continue
		}
		if err := os.WriteFile(w.binary(), w.built[t.pkg], 0o755); err != nil {
			return err
		}
		out, used, err := w.runTests(t, tests, w.timeout)
		if err != nil {
			return fmt.Errorf("the tests of %s fail even without a mistake: %w\n%s", t.file, err, out)
		}
		w.took[t.pkg+tests] = used
	}
	return nil
}

// limit returns how long tests of a mutant may use a processor: some times what they use without a mistake. Single tests
// may use as much as all that come first.
func (j *job) limit(t target, tests string) time.Duration {
	took, ok := j.took[t.pkg+tests]
	if !ok {
		took = j.took[t.pkg+t.stages()[0]]
	}
	return 3*took + 2*time.Second
}

// work tries mutants from a queue.
func (j *job) work(queue <-chan mutant, tell func(mutant, string, error)) {
	dir, copyErr := copyModule(j.root)
	defer os.RemoveAll(dir)
	w := worker{job: j, dir: dir}
	for m := range queue {
		fate, err := "", copyErr
		if err == nil {
			fate, err = w.try(m)
		}
		tell(m, fate, err)
	}
}
