package redisx

import "github.com/spillgate/spillgate/internal/algorithm"

// A job is what one run of a script does for a request: all of it, or what concerns the keys of one slot.
type job struct {
	request *request
	route   string // jobs with the same route may share a run: see routing
	keys    []string
	asks    []int  // places in request.asks, ascending
	plan    string // what is asked of the keys: see lua/plan.lua
	numbers string // of the settlements or the leases: see lua/settle.lua and lua/take.lua
	claims  []int  // claims that it settles
	leases  []int  // places in request.leases
	quiet   bool   // the script replies only with the instants of renewed holds

	at     int64         // the server's clock
	reply  []int64       // see lua/run.lua
	usages []usage       // by ask
	moved  []int64       // by claim settled: when it is held from now on, or 0
	held   bool          // requests in flight were in the way
	unsent bool          // the server has not received it, and will not
	shed   chan struct{} // closed when it fails while it waits, because of an overload; nil if it must not
	err    error
}

func (j *job) add(ask int, key string) {
	j.asks = append(j.asks, ask)
	if j.indexOf(key) < 0 {
		j.keys = append(j.keys, key)
	}
}

func (j *job) indexOf(key string) int {
	for i := range j.keys {
		if j.keys[i] == key {
			return i
		}
	}
	return -1
}

// prepare sets the plan and the numbers of j. Asks for which peek reports true charge nothing.
func (j *job) prepare(peek func(ask int) bool) {
	var buf [512]byte
	b, claim := append(buf[:0], j.op()), -1
	for _, i := range j.asks {
		a := j.request.asks[i]
		a.peek = a.peek || peek != nil && peek(i)
		b = a.appendWords(b, a.claim != claim, j.indexOf(j.request.keys[a.key]))
		claim = a.claim
	}
	if string(b) != j.plan { // j may start with the plan of an earlier job
		j.plan = string(b)
	}
	j.addNumbers()
	j.addLeases()
}

// The load of an ask on a server: of a plain request; of a peek, a dry run, a hold and a sliding limit; and, on top, of
// each so many entries and blocks of a sliding limit that a decision may have to look at, because they have ended since
// the last one. See maxLoad.
const (
	plainLoad      = 1
	otherLoad      = 4
	entriesPerLoad = 8
	blocksPerLoad  = 16

	maxEntries = 64 // of a block: see lua/sliding.lua
)

// load is an upper bound of the server's work for j.
func (j *job) load() (n int) {
	for _, i := range j.asks {
		n += j.request.asks[i].load()
	}
	return n
}

func (a *ask) load() int {
	entries := int64(0)
	switch a.Algorithm {
	case algorithm.SlidingWindow:
		entries = algorithm.CeilDiv(a.Micros, a.Width)
	case algorithm.SlidingLog:
		entries = a.Rate
	case algorithm.InFlight:
		return plainLoad
	default:
		if !a.peek && !a.dryRun && !a.hold {
			return plainLoad
		}
	}
	return otherLoad + int(min(entries, maxEntries)/entriesPerLoad+entries/maxEntries/blocksPerLoad)
}

// admitted reports whether j by itself was charged.
func (j *job) admitted() bool {
	if j.err != nil {
		return false
	}
	for n, i := range j.asks {
		if !j.request.asks[i].dryRun && j.usages[n].retry != 0 {
			return false
		}
	}
	return true
}

// fits reports whether all limits in j of a claim admit its cost.
func (j *job) fits(claim int) bool {
	for n, i := range j.asks {
		if j.request.asks[i].claim == claim && j.usages[n].retry != 0 {
			return false
		}
	}
	return true
}

// heldBack reports whether a job was denied because of requests in flight.
func heldBack(jobs []job) bool {
	for i := range jobs {
		if jobs[i].held {
			return true
		}
	}
	return false
}
