package redisx

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/algorithm"
	"github.com/spillgate/spillgate/internal/compiled"
)

// An op is a claim, a settlement, or a loan: see lua/op.lua. It keeps no reference to the claim or the settlement.
type op struct {
	does                           opKind
	dryRun                         bool
	bans                           bool // a take with a ban, held until all parts of its job are admitted: see decideParts
	of                             int  // the place of its first result among a Take's, or of its settlement among a Settle's
	cost, maxWait, final, at, turn int64
	key                            string
	place                          int               // of key among the keys of the job
	begins                         bool              // its key is not the key of the op before it
	limits                         []algorithm.Limit // compiled, and shared by all requests; noLimits for a ban

	usages []usage // if it is decided: the reply for each limit; then at is by the server's clock
	moved  int64   // when it is held from now on, or what a loan charged ahead
}

// An opKind is what an op does. lua/plan.lua has the same numbers.
type opKind uint8

const (
	take opKind = iota
	peek
	lend
	hold
	adjust
	release
	renew
	ban
	grant
	reset
)

// isDecided reports whether o is decided, together with others, or else settles.
func (o *op) isDecided() bool { return o.does <= hold }

// fits reports whether all limits of o, which a server has decided, admit its cost.
func (o *op) fits() bool {
	return !slices.ContainsFunc(o.usages, func(u usage) bool { return u.retry != 0 })
}

// A ban and a reset have no limit.
var noLimits = make([]algorithm.Limit, 1)

// A job is a request, or the part of it that one run of a script can do.
type job struct {
	ops     []op // those that are decided come first
	owed    bool // it settles what earlier jobs have charged or held
	layout  *layout
	route   string   // jobs with the same route may share a run: see routing
	keys    []string // of pairs, then of sliding logs
	plan    any      // the shape of what is asked of the keys: see lua/plan.lua; a string, as an argument of a command
	words   any      // what else the script reads: costs and waits; likewise
	text    []byte   // room for either of them
	load    int      // upper bound of the server's work
	settled int      // how many ops settle
	stored  int      // how many words a reply without a code has
	parts   []*job   // that do the job, if no single run can

	at     int64   // the server's clock
	reply  []int64 // see lua/op.lua
	usages []usage // backs those of ops
	held   bool    // requests in flight were in the way
	unsent bool    // the server has not received it, and will not
	err    error   // of a part

	// In a queue, until it is done. The caller reads failure, at and reply after that.
	begun    time.Time // when the caller began to wait
	deadline time.Time // of the caller; zero for none
	queue    *queue
	run      *run      // that it is in; nil while it waits
	wake     chan bool // true if the caller is to lead the next run, and false when the job is done
	failure  error     // of the run
}

// A usage is the state of a limit after a decision: requests, and waits in microseconds.
type usage struct {
	algorithm.Usage
	retry int64 // 0 if it admits what is asked, -1 if it never does
	wait  int64 // until the turn of a request that it admits
}

// jobPool is a pool, because a job is most of what a decision would allocate.
var jobPool = sync.Pool{New: func() any { return new(job) }}

// newJob returns a job without ops.
func (l *layout) newJob(owed bool) *job {
	j := jobPool.Get().(*job)
	j.layout, j.owed = l, owed
	return j
}

// release ends the use of j. It must not be called while a run has j or a part of it: a run may have the job of a caller
// that gave up. j keeps its plan and its words: those of the next job often equal them.
func (j *job) release() {
	*j = job{ops: j.ops[:0], keys: j.keys[:0], plan: j.plan, words: j.words, text: j.text, reply: j.reply, usages: j.usages}
	jobPool.Put(j)
}

// maxClaims bounds the claims of a Take: see core.Store.
const maxClaims = 64

// newTake returns the job of a Take, or an error that wraps core.ErrInvalid.
func (l *layout) newTake(claims []core.Claim) (*job, error) {
	if len(claims) > maxClaims {
		return nil, fmt.Errorf("spillgate: %w: a request has at most %d claims, got %d", core.ErrInvalid, maxClaims, len(claims))
	}
	j, results := l.newJob(false), 0
	for i := range claims {
		c := &claims[i]
		limits, err := compiled.Limits(c)
		if err != nil {
			j.release()
			return nil, err
		}
		o := op{of: results, cost: min(int64(max(c.Cost, 1)), algorithm.MaxExact), maxWait: c.MaxWait.Microseconds(), dryRun: c.DryRun}
		switch {
		case c.Peek:
			o.does = peek
		case c.Hold:
			o.does = hold
		}
		j.add(c.Rule, c.Key, limits, o)
		results += len(limits)
	}
	return j, nil
}

// addSettlements adds ops for valid settlements. It leaves out settlements that change nothing.
func (j *job) addSettlements(settlements []core.Settlement) {
	for i := range settlements {
		s := &settlements[i]
		o := op{does: adjust, of: i, cost: min(int64(max(s.Cost, 1)), algorithm.MaxExact), final: min(int64(s.Final), algorithm.MaxExact), dryRun: s.DryRun}
		if !s.At.IsZero() {
			o.at = min(max(s.At.UnixMicro(), 0), algorithm.MaxExact)
		}
		switch {
		case s.Grant != 0:
			o.does, o.cost, o.final = grant, int64(max(s.Grant, 0)), int64(max(-s.Grant, 0))
		case s.Ban > 0:
			o.does, o.final = ban, min(s.Ban.Microseconds(), algorithm.MaxExact)
		case s.Renew:
			o.does = renew
		case s.Held:
			o.does = release
		case s.MaxWait > 0:
			o.turn = 1 + s.Wait.Microseconds()
		}
		if o.does != adjust || o.final != o.cost {
			limits, _ := compiled.Limits(s)
			j.add(s.Rule, s.Key, limits, o)
		}
	}
}

// add adds an op. Those that are decided must come first.
func (j *job) add(rule, identity string, limits []algorithm.Limit, o op) {
	if o.key, o.limits = j.layout.key(rule, identity), limits; len(limits) == 0 {
		o.limits = noLimits
	}
	j.ops = append(j.ops, o)
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
