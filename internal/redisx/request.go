package redisx

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
)

// A request is a Take or a Settle in the terms of lua/take.lua or lua/settle.lua. It keeps no reference to the claims.
type request struct {
	keys        []string
	asks        []ask
	settlements []settlement // of a Settle, by claim
	leases      []leased     // claims of a Take
	jobs        []job
	usages      []usage               // backs the jobs' usages
	plan        string                // of the last job; the next job's often equals it
	batch       atomic.Pointer[batch] // of the last job, for callers that give up
	clock       *testClock            // of this process, or nil
}

// wall returns this process's clock, in microseconds since 1970.
func (r *request) wall() int64 {
	if r.clock != nil {
		if now := r.clock.Load(); now != nil {
			return (*now)().UnixMicro()
		}
	}
	return time.Now().UnixMicro()
}

// An ask is one limit of one claim: see lua/plan.lua.
type ask struct {
	algorithm.Limit
	source                     core.Limit // what Limit was compiled of
	turn                       *turn      // of a calendar, or nil
	claim, key                 int
	peek, dryRun, hold, leased bool
	cost, asked                int64
	maxWait                    int64 // microseconds
}

// requests is a pool, because a request is most of what a decision would allocate.
var requests = sync.Pool{New: func() any { return new(request) }}

// release ends the use of r. It must not be called while a batch holds a job of r: a batch may hold the job of a caller
// that gave up.
func (r *request) release() {
	clear(r.keys)
	clear(r.jobs)
	r.keys, r.asks, r.settlements, r.leases = r.keys[:0], r.asks[:0], r.settlements[:0], r.leases[:0]
	r.batch.Store(nil)
	requests.Put(r)
}

// newTake returns the request of a Take, or an error that wraps core.ErrInvalid.
func (l *layout) newTake(claims []core.Claim) (*request, error) {
	for i := range claims {
		if err := claims[i].Validate(); err != nil {
			return nil, err
		}
	}
	r := requests.Get().(*request)
	r.clock = l.wall
	for i := range claims {
		r.addClaim(l.key(claims[i].Rule, claims[i].Key), &claims[i], i)
	}
	r.addUpCosts()
	return r, nil
}

func (r *request) addClaim(stored string, c *core.Claim, i int) {
	key := r.keyIndex(stored)
	cost := min(int64(max(c.Cost, 1)), algorithm.MaxExact)
	if len(c.Limits) == 0 { // a ban
		r.asks = append(r.asks, ask{claim: i, key: key})
	}
	for j := range c.Limits {
		a := r.newAsk(&c.Limits[j])
		a.claim, a.key, a.cost = i, key, cost
		a.peek, a.dryRun, a.hold, a.leased = c.Peek, c.DryRun, c.Hold && !c.Peek, false
		a.maxWait = c.MaxWait.Microseconds()
		a.asked = a.share()
	}
}

// newAsk adds an ask for a limit. Its slot may still have the compiled limit of an earlier request, which is usually
// the same.
func (r *request) newAsk(l *core.Limit) *ask {
	n := len(r.asks)
	r.asks = slices.Grow(r.asks, 1)[:n+1]
	a := &r.asks[n]
	if a.source != *l {
		a.Limit, a.source, a.turn = compile(l), *l, nil
	}
	if a.Calendar != 0 {
		a.turn = turnOf(l.Calendar, r.wall())
	}
	return a
}

// compile returns a valid limit in the units that its algorithm counts in.
func compile(l *core.Limit) algorithm.Limit {
	compiled := algorithm.Limit{
		Algorithm: algorithm.Algorithm(l.Algorithm), Rate: int64(l.Rate), Capacity: int64(l.Capacity()), Micros: l.Period.Microseconds(),
		Ban: l.Ban.Microseconds(),
	}
	switch {
	case l.Calendar.Unit != 0:
		c := l.In(l.Calendar.Zone).Calendar // in the form that equal limits have
		compiled.Algorithm, compiled.Calendar = algorithm.FixedWindow, algorithm.CalendarID(uint64(c.Unit), uint64(c.From), c.Zone)
	case l.Algorithm == core.SlidingWindow:
		compiled.Width = l.Width().Microseconds()
	}
	compiled, _ = algorithm.Compile(compiled)
	return compiled
}

// keyIndex returns the index of key in r.keys, and adds the key if it is missing.
func (r *request) keyIndex(key string) int {
	for i := range r.keys {
		if r.keys[i] == key {
			return i
		}
	}
	r.keys = append(r.keys, key)
	return len(r.keys) - 1
}

// addUpCosts adds up the costs of several claims for one state. It leaves out peeks, and adds up dry runs separately,
// because they must not make others fail.
func (r *request) addUpCosts() {
	for i := 1; i < len(r.asks); i++ {
		for j := range r.asks[:i] {
			a, b := &r.asks[i], &r.asks[j]
			if a.key == b.key && a.Kind == b.Kind && a.dryRun == b.dryRun && !a.peek && !b.peek {
				a.asked = min(a.asked+b.share(), algorithm.MaxExact)
				b.asked = min(b.asked+a.share(), algorithm.MaxExact)
			}
		}
	}
}

// share returns the cost of a alone: a limit in flight counts requests.
func (a *ask) share() int64 {
	if a.Algorithm == algorithm.InFlight {
		return 1
	}
	return a.cost
}

// appendWords appends what a script reads as a, with the place of its key among its job's keys.
func (a *ask) appendWords(b []byte, begins bool, place int) []byte {
	head, starts := int64(place+1)<<6, []int64(nil)
	kind, unit, ban := int64(a.Kind), a.Unit+a.Width, a.Ban+a.maxWait
	if a.turn != nil {
		starts = a.turn.starts
		unit, ban = int64(len(starts)), a.turn.minute
	}
	for i, flag := range [...]bool{begins, a.peek, a.dryRun, a.hold, a.leased, a.maxWait > 0} {
		if flag {
			head |= 1 << i
		}
	}
	for _, n := range [...]int64{head, kind, a.cost, a.asked, a.Rate, a.Capacity, unit, ban} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	for _, n := range starts {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return b
}
