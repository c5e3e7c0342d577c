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
	claims  []int  // those that it settles
	leases  []int  // places in request.leases
	quiet   bool   // the script says only when claims are held from now on

	at     int64         // the server's clock
	reply  []int64       // see lua/run.lua
	usages []usage       // by ask
	moved  []int64       // by claim settled: when it is held from now on, or 0
	held   bool          // requests in flight were in the way
	unsent bool          // the server has not seen it, and is not going to
	shed   chan struct{} // closed when it is turned away while it waits; nil if it may not be
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
	if string(b) != j.plan { // j may begin with that of an earlier job
		j.plan = string(b)
	}
	j.addNumbers()
	j.addLeases()
}

// The load of an ask on a server, of a plain request and of any other. See maxLoad.
const (
	plainLoad = 1
	otherLoad = 4
)

// load is how much work j is for the server.
func (j *job) load() (n int) {
	for _, i := range j.asks {
		a := &j.request.asks[i]
		bucket := a.Algorithm == algorithm.TokenBucket && a.Unit == 1 && a.Micros > 0 && a.Ban == 0
		if (bucket || a.Algorithm == algorithm.InFlight && a.hold) && !a.peek && !a.dryRun {
			n += plainLoad
		} else {
			n += otherLoad
		}
	}
	return n
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

// heldBack reports whether requests in flight were in the way of a job.
func heldBack(jobs []job) bool {
	for i := range jobs {
		if jobs[i].held {
			return true
		}
	}
	return false
}
