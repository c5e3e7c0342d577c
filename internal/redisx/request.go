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
	"github.com/spillgate/spillgate/internal/lease"
)

// A request is a Take or a Settle in the terms of lua/take.lua or lua/settle.lua, with the jobs that do it. It keeps no
// reference to the claims.
type request struct {
	keys        []string
	asks        []ask
	settlements []settlement // of a Settle, by claim
	leases      []leased     // claims of a Take
	jobs        []job
	usages      []usage // backs the jobs' usages
	plan, words string  // of the last job; the next job's often equal them
}

// An ask is one limit of one claim: see lua/plan.lua.
type ask struct {
	*algorithm.Limit       // compiled, and shared by all requests; of a ban, noLimit
	turn             *turn // of a calendar, or nil
	claim, key       int   // their places in the request
	place            int   // of the key among the keys of the job
	cost, maxWait    int64 // of the claim; in microseconds
	peek, dryRun     bool
	hold, leased     bool
}

// A ban has no limit.
var noLimit algorithm.Limit

// A settlement is a core.Settlement in the terms of lua/settle.lua.
type settlement struct {
	at, cost, final, ban int64
	hold, renew, grant   bool
	waits                bool // requests of the claim may wait; then ban is the wait
}

// A leased is a claim of a Take that charges requests ahead, or returns unused ones: see lua/take.lua.
type leased struct {
	claim   int
	want    int64
	unused  lease.Portions
	granted int64 // what was charged ahead
}

// A job is what one run of a script does for a request: all of it, or what concerns the keys of one slot.
type job struct {
	request *request
	route   string // jobs with the same route may share a run: see routing
	keys    []string
	asks    []int  // places in request.asks, ascending
	plan    string // the shape of what is asked of the keys: see lua/plan.lua
	words   string // what else the script reads: costs and waits, and of settlements or leases
	load    int    // upper bound of the server's work
	claims  []int  // in the order of the asks; for a Take only if any claim is leased
	leases  []int  // places in request.leases
	quiet   bool   // the script replies only with the instants of renewed holds

	at     int64   // the server's clock
	reply  []int64 // see lua/run.lua
	usages []usage // by ask
	moved  []int64 // by claim settled: when it is held from now on, or 0
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
	r.keys, r.asks, r.settlements, r.leases = r.keys[:0], r.asks[:0], r.settlements[:0], r.leases[:0]
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
		r.add(l, c.Rule, c.Key, limits, ask{
			claim: i, cost: exactCost(c.Cost), maxWait: c.MaxWait.Microseconds(), peek: c.Peek, dryRun: c.DryRun, hold: c.Hold && !c.Peek,
		})
	}
	return r, nil
}

// exactCost returns the cost of a claim, where 0 means 1, in the numbers that scripts count in.
func exactCost(cost int) int64 { return min(int64(max(cost, 1)), algorithm.MaxExact) }

// newSettle returns the request of a Settle of valid settlements.
func (l *layout) newSettle(settlements []core.Settlement) *request {
	r := requests.Get().(*request)
	for i := range settlements {
		s := &settlements[i]
		st := newSettlement(s)
		r.settlements = append(r.settlements, st)
		if st.changes() {
			limits, _ := compiled.Limits(s)
			r.add(l, s.Rule, s.Key, limits, ask{claim: i, maxWait: s.MaxWait.Microseconds(), dryRun: s.DryRun})
		}
	}
	return r
}

func newSettlement(of *core.Settlement) settlement {
	s := settlement{cost: exactCost(of.Cost), final: min(int64(of.Final), algorithm.MaxExact), hold: of.Held, renew: of.Renew}
	if !of.At.IsZero() {
		s.at = min(max(of.At.UnixMicro(), 0), algorithm.MaxExact)
	}
	s.ban = min(of.Ban.Microseconds(), algorithm.MaxExact)
	switch {
	case of.Grant != 0:
		s = settlement{grant: true, cost: int64(max(of.Grant, 0)), final: int64(max(-of.Grant, 0))}
	case of.MaxWait > 0 && of.Ban == 0:
		s.waits, s.ban = true, of.Wait.Microseconds()
	}
	return s
}

// changes reports whether the settlement changes anything.
func (s *settlement) changes() bool { return s.hold || s.ban > 0 && !s.waits || s.final != s.cost }

// add adds an ask like a for each of limits, or one without a limit for a ban.
func (r *request) add(l *layout, rule, identity string, limits []algorithm.Limit, a ask) {
	a.key = r.keyIndex(l.key(rule, identity))
	a.place = a.key
	if len(limits) == 0 {
		a.Limit = &noLimit
		r.asks = append(r.asks, a)
	}
	for i := range limits {
		if a.Limit, a.turn = &limits[i], nil; a.Calendar != 0 {
			a.turn = turnOf(a.Limit, l.wall)
		}
		r.asks = append(r.asks, a)
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

// lease makes a claim of r leased. Call it in the order of the claims.
func (r *request) lease(claim int, want int64, unused lease.Portions) {
	r.leases = append(r.leases, leased{claim: claim, want: want, unused: unused})
	for i := range r.asks {
		if r.asks[i].claim == claim {
			r.asks[i].leased = true
		}
	}
}

// isOwed reports whether j settles what earlier jobs have charged or held.
func (j *job) isOwed() bool { return len(j.request.settlements) > 0 }

// add adds an ask of j's request.
func (j *job) add(ask int) {
	a := &j.request.asks[ask]
	key := j.request.keys[a.key]
	if a.place = slices.Index(j.keys, key); a.place < 0 {
		a.place = len(j.keys)
		j.keys = append(j.keys, key)
	}
	j.asks = append(j.asks, ask)
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
	r.jobs = r.jobs[:0]
	if how == anyKeys {
		r.jobs = append(r.jobs, job{request: r, keys: r.keys, asks: upTo(len(r.asks))})
	} else {
		for i := range r.asks {
			name := how.nameOf(r.keys[r.asks[i].key], l)
			n := slices.IndexFunc(r.jobs, func(j job) bool { return j.route == name })
			if n < 0 {
				n = len(r.jobs)
				r.jobs = append(r.jobs, job{request: r, route: name})
			}
			r.jobs[n].add(i)
		}
	}
	r.usages = slices.Grow(r.usages[:0], len(r.asks))[:len(r.asks)]
	rest := r.usages
	for i := range r.jobs {
		j := &r.jobs[i]
		j.plan, j.words = r.plan, r.words
		j.prepare(false)
		r.plan, r.words = j.plan, j.words
		j.usages, rest = rest[:0:len(j.asks)], rest[len(j.asks):]
	}
	return r.jobs
}

// upTo returns 0 to n-1.
func upTo(n int) []int {
	if n <= len(places) {
		return places[:n:n]
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

var places = [...]int{0, 1, 2, 3, 4, 5, 6, 7}

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
