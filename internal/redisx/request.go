package redisx

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/compiled"
)

// A request is what a call asks of the script, with the jobs that do it. It keeps no reference to the claims.
type request struct {
	keys        []string
	ops         []op
	asks        []ask
	owed        bool // it settles what earlier requests have charged or held
	jobs        []job
	usages      []usage // backs the jobs' usages
	plan, words string  // of the last job; the next job's often equal them
}

// An op is a claim, a settlement, or a loan: see lua/op.lua.
type op struct {
	does                           opKind
	dryRun                         bool
	claim                          int   // its place among the claims or the settlements of the call
	cost, maxWait, final, at, turn int64 // see lua/plan.lua
}

// An opKind is what an op does. The numbers are those of lua/plan.lua.
type opKind uint8

const (
	take opKind = iota
	peek
	hold
	adjust
	release
	renew
	ban
	grant
	reset
	lend
)

// isDecided reports whether o is decided, together with others, or else settles.
func (o *op) isDecided() bool { return o.does <= hold }

// An ask is one limit of one op: see lua/plan.lua.
type ask struct {
	*algorithm.Limit       // compiled, and shared by all requests; of a ban, noLimit
	turn             *turn // of a calendar, or nil
	op, key, log     int   // their places in the request; log is the key of a sliding log, or 0
	place, logPlace  int   // of the keys among the keys of the job
}

// A ban has no limit.
var noLimit algorithm.Limit

// A job is what one run of a script does for a request: all of it, or what concerns the keys of one slot.
type job struct {
	request *request
	route   string // jobs with the same route may share a run: see routing
	keys    []string
	asks    []int  // places in request.asks of ops that are decided, ascending
	others  []int  // likewise of other ops
	plan    string // the shape of what is asked of the keys: see lua/plan.lua
	words   string // what else the script reads: costs and waits
	load    int    // upper bound of the server's work
	settled []int  // the ops that are not decided, in the order of others

	at     int64   // the server's clock
	reply  []int64 // see lua/op.lua
	usages []usage // by ask
	moved  []int64 // by op settled: when it is held from now on, or what a loan charged ahead
	held   bool    // requests in flight were in the way
	unsent bool    // the server has not received it, and will not
	err    error

	// In a queue, until it is done. The caller reads failure, at and reply after that.
	begun    time.Time // when the caller began to wait
	deadline time.Time // of the caller; zero for none
	run      *run      // that it is in; nil while it waits
	wake     chan *run // the run that the caller is to lead, and nil when the job is done
	left     bool      // the caller has given up before it was in a run
	failure  error     // of the run
}

// A usage is the state of a limit after a decision: requests, and waits in microseconds.
type usage struct {
	algorithm.Usage
	retry int64 // 0 if it admits what is asked, -1 if it never does
	wait  int64 // until the turn of a request that it admits
}

// requests is a pool, because a request is most of what a decision would allocate.
var requests = sync.Pool{New: func() any { return new(request) }}

// release ends the use of r. It must not be called while a run has a job of r: a run may have the job of a caller
// that gave up.
func (r *request) release() {
	clear(r.keys)
	clear(r.jobs)
	r.keys, r.ops, r.asks, r.owed = r.keys[:0], r.ops[:0], r.asks[:0], false
	requests.Put(r)
}

// maxClaims bounds the claims of a Take: see core.Store.
const maxClaims = 64

// newTake returns the request of a Take, or an error that wraps core.ErrInvalid.
func (l *layout) newTake(claims []core.Claim) (*request, error) {
	if len(claims) > maxClaims {
		return nil, fmt.Errorf("spillgate: %w: a request has at most %d claims, got %d", core.ErrInvalid, maxClaims, len(claims))
	}
	r := requests.Get().(*request)
	for i := range claims {
		c := &claims[i]
		limits, err := compiled.Limits(c)
		if err != nil {
			r.release()
			return nil, err
		}
		o := op{claim: i, cost: exactCost(c.Cost), maxWait: c.MaxWait.Microseconds(), dryRun: c.DryRun}
		switch {
		case c.Peek:
			o.does = peek
		case c.Hold:
			o.does = hold
		}
		r.add(l, c.Rule, c.Key, limits, o)
	}
	return r, nil
}

// exactCost returns the cost of a claim, where 0 means 1, in the numbers that scripts count in.
func exactCost(cost int) int64 { return min(int64(max(cost, 1)), algorithm.MaxExact) }

// newSettle returns the request of a Settle of valid settlements.
func (l *layout) newSettle(settlements []core.Settlement) *request {
	r := requests.Get().(*request)
	r.owed = true
	for i := range settlements {
		s := &settlements[i]
		if o := newSettlement(s, i); o.changes() {
			limits, _ := compiled.Limits(s)
			r.add(l, s.Rule, s.Key, limits, o)
		}
	}
	return r
}

func newSettlement(of *core.Settlement, claim int) op {
	o := op{does: adjust, claim: claim, cost: exactCost(of.Cost), final: min(int64(of.Final), algorithm.MaxExact), dryRun: of.DryRun}
	if !of.At.IsZero() {
		o.at = min(max(of.At.UnixMicro(), 0), algorithm.MaxExact)
	}
	switch {
	case of.Grant != 0:
		o.does, o.cost, o.final = grant, int64(max(of.Grant, 0)), int64(max(-of.Grant, 0))
	case of.Ban > 0:
		o.does, o.final = ban, min(of.Ban.Microseconds(), algorithm.MaxExact)
	case of.Renew:
		o.does = renew
	case of.Held:
		o.does = release
	case of.MaxWait > 0:
		o.turn = 1 + of.Wait.Microseconds()
	}
	return o
}

// changes reports whether a settlement changes anything.
func (o *op) changes() bool { return o.does != adjust || o.final != o.cost }

// add adds an op with an ask for each of limits, or with one without a limit for a ban.
func (r *request) add(l *layout, rule, identity string, limits []algorithm.Limit, o op) {
	key := r.keyIndex(l.key(rule, identity))
	r.ops = append(r.ops, o)
	if len(limits) == 0 {
		r.asks = append(r.asks, ask{Limit: &noLimit, op: len(r.ops) - 1, key: key})
	}
	for i := range limits {
		a := ask{Limit: &limits[i], op: len(r.ops) - 1, key: key}
		switch {
		case a.Calendar != 0:
			a.turn = turnOf(a.Limit, l.wall)
		case a.Algorithm == algorithm.SlidingLog:
			a.log = -1 // add its key behind those of all pairs
		}
		r.asks = append(r.asks, a)
	}
}

// addLogs adds the keys of the sliding logs: see lua/pair.lua. Call it once, when all ops are added.
func (r *request) addLogs() {
	for i := range r.asks {
		if a := &r.asks[i]; a.log < 0 {
			a.log = r.keyIndex(r.keys[a.key] + ":" + strconv.FormatInt(a.Micros, 10))
		}
	}
}

// keyIndex returns the index of key in r.keys, and adds the key if it is missing.
func (r *request) keyIndex(key string) int {
	if i := slices.Index(r.keys, key); i >= 0 {
		return i
	}
	r.keys = append(r.keys, key)
	return len(r.keys) - 1
}

// isOwed reports whether j settles what earlier jobs have charged or held.
func (j *job) isOwed() bool { return j.request.owed }

// add adds an ask of j's request.
func (j *job) add(i int) {
	if a := &j.request.asks[i]; j.request.ops[a.op].isDecided() {
		j.asks = append(j.asks, i)
	} else {
		j.others = append(j.others, i)
	}
}

// addKeys adds the keys of j's asks: those of pairs, and then those of sliding logs.
func (j *job) addKeys() {
	r := j.request
	for _, logs := range [...]bool{false, true} {
		for _, asks := range [...][]int{j.asks, j.others} {
			for _, i := range asks {
				a := &r.asks[i]
				if !logs {
					a.place = j.keyIndex(r.keys[a.key])
				} else if a.log > 0 {
					a.logPlace = j.keyIndex(r.keys[a.log])
				}
			}
		}
	}
}

// keyIndex returns the index of key in j.keys, and adds the key if it is missing.
func (j *job) keyIndex(key string) int {
	i := slices.Index(j.keys, key)
	if i < 0 {
		i = len(j.keys)
		j.keys = append(j.keys, key)
	}
	return i
}

// A routing says which keys one run of a script may use.
type routing uint32

const (
	anyKeys    routing = iota // all: one server, or the master of a Sentinel
	bySlot                    // keys of one hash slot: a Redis Cluster
	byIdentity                // keys of one identity: a Ring, which does not say where a key is
	byKey                     // one key: a slot that is migrating
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// nameOf returns a name that is the same for all keys that one run may use together.
func (how routing) nameOf(key string, l *layout) string {
	switch how {
	case bySlot:
		return strconv.Itoa(slotOf(l.tagOf(key)))
	case byIdentity:
		return l.tagOf(key)
	}
	return key
}

// jobsOf returns the jobs of r. The jobs of an earlier call for r are no longer valid.
func (how routing) jobsOf(r *request, l *layout) []job {
	r.addLogs()
	r.jobs = r.jobs[:0]
	for i := range r.asks {
		name := ""
		if how != anyKeys {
			name = how.nameOf(r.keys[r.asks[i].key], l)
		}
		n := slices.IndexFunc(r.jobs, func(j job) bool { return j.route == name })
		if n < 0 {
			n = len(r.jobs)
			r.jobs = append(r.jobs, job{request: r, route: name})
		}
		r.jobs[n].add(i)
	}
	r.usages = slices.Grow(r.usages[:0], len(r.asks))[:len(r.asks)]
	rest := r.usages
	for i := range r.jobs {
		j := &r.jobs[i]
		j.plan, j.words = r.plan, r.words
		j.addKeys()
		j.prepare(false)
		r.plan, r.words = j.plan, j.words
		j.usages, rest = rest[:0:len(j.asks)], rest[len(j.asks):]
	}
	return r.jobs
}

// slotOf returns the hash slot of a hash tag: its CRC-16/XMODEM modulo the number of slots.
// See https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model.
func slotOf(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}
