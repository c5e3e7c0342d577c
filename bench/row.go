package main

import (
	"runtime"
	"slices"
)

// A role is the purpose of an entry in its row.
type role int

const (
	ours     role = iota // Spillgate
	peer                 // another library: the fastest is what ratios refer to
	baseline             // some of the work that every limiter does: a lower bound of its time
	note                 // for information
)

// An entry is one contestant of a row.
type entry struct {
	name    string
	role    role
	open    func() measure // in the process that measures the entry; nil: measure is ready
	measure measure
}

// A measure measures one slice of time.
type measure func() (sample, error)

// A sample holds the numbers of one slice, one for each column of its row's unit, or the medians of several slices.
type sample []float64

// A unit names the numbers of a sample.
type unit struct {
	columns []string // ratios to the best peer compare the first
	more    bool     // more of the first is better
	ratios  bool     // tables have a ratio for each column
}

var (
	perDecision = unit{columns: []string{"ns/decision", "allocs", "bytes"}}
	perSecond   = unit{columns: []string{"decisions/s", "p99 µs"}, more: true}
	latency     = unit{columns: []string{"p50 µs", "p99 µs"}}
	footprint   = unit{columns: []string{"bytes/key", "GC cycle, CPU ms"}}
)

// A gcMode determines when the garbage collector runs within a row. Where contestants keep many keys, a collection during a slice
// would charge the contestants that allocate with the keys of all.
type gcMode int

const (
	gcRuns          gcMode = iota // as in any program
	gcRests                       // not at all: for rows that hardly allocate
	gcBetweenSlices               // before each slice, so that the next one reuses the memory
)

// A row compares entries at one task.
type row struct {
	name      string
	task      string // of every contestant
	unit      unit
	gc        gcMode
	minRounds int
	maxRounds int                                                   // 0: as many as there are
	apart     bool                                                  // each entry has a process of its own, so that no other entry's heap slows it
	counted   bool                                                  // the instructions of a decision are counted, where valgrind is installed
	count     func(e *env, p program, name string) (float64, error) // counts the instructions of an entry; nil: in a process that measures the entry
	// open prepares the entries and adds them to f.
	open   func(e *env, f *setup) error
	bounds []bound
	counts []bound // of the column for instructions
	since  since
}

// A setup holds the entries of a row and the functions to call after it.
type setup struct {
	entries []entry
	gc      gcMode
	closers []func()
}

func (f *setup) add(name string, r role, m measure) {
	f.entries = append(f.entries, entry{name: name, role: r, measure: m})
}

// addLater adds an entry that open prepares, in the process that measures it.
func (f *setup) addLater(name string, r role, open func() measure) {
	f.entries = append(f.entries, entry{name: name, role: r, open: open})
}

// measure measures a slice of the n-th entry.
func (f *setup) measure(n int) (sample, error) {
	if f.gc == gcBetweenSlices {
		runtime.GC()
	}
	return f.entries[n].measure()
}

func (f *setup) onClose(c func()) { f.closers = append(f.closers, c) }

func (f *setup) close() {
	for _, c := range slices.Backward(f.closers) {
		c()
	}
}

// A result is the medians of one entry.
type result struct {
	name string
	role role
	sample
}

// An outcome is the result of a row.
type outcome struct {
	row     *row
	results []result
	checks  []check
}

// get returns the medians of an entry. It panics if there is none of that name: a bound that names it is wrong.
func (o *outcome) get(name string) sample {
	i := slices.IndexFunc(o.results, func(r result) bool { return r.name == name })
	if i < 0 {
		panic("row " + o.row.name + " has no entry " + name)
	}
	return o.results[i].sample
}

// best returns the fastest peer, if there is any.
func (o *outcome) best() (best result, ok bool) {
	for _, r := range o.results {
		if r.role == peer && (!ok || (r.sample[0] < best.sample[0]) != o.row.unit.more) {
			best, ok = r, true
		}
	}
	return best, ok
}
