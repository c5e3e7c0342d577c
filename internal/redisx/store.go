// Package redisx keeps the state of limits in Redis, for package redisstore.
//
//	s := redisx.New(client, redisx.Options{Prefix: "shop"})
//	results, err := s.Take(ctx, []core.Claim{{Rule: "api", Key: "user:42", Limits: limits}}, nil)
//
// Each file uses only files below it:
//
//	store.go    the Store: a Take, from leases and remembered denials (denials.go) or the server; Settle; Reset
//	decide.go   decides, lends or settles a job in one run or, if its keys are of several identities on a Cluster, in parts (split.go)
//	queue.go    collects the jobs of concurrent callers into runs, which are bounded by a sum of loads
//	server.go   sends a run in one call, of a function or a script (functions.go), and gives each job its part of the reply
//	request.go  turns claims and settlements into a job, a list of ops
//	plan.go     has the words that a job sends, and reply.go those that it reads
//	key.go      makes keys, and clock.go calendars
//
// The script is a library of one function, and a script for servers without functions. Its files in lua/ read from
// run.lua down: plan.lua reads the request; op.lua decides and settles its ops; pair.lua has the layout of what is stored, and
// cells.lua of all that is dated; and each algorithm has a file of its own: the refund of a fixed window is in lua/window.lua.
package redisx

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/compiled"
	"github.com/spillgate/spillgate/internal/lease"
)

// Options configure a Store.
type Options struct {
	Prefix    string // of all keys
	Secret    []byte // if not nil, identities are stored as keyed hashes
	DenyCache int    // how many denials to remember; 0 for none
}

// A Store implements core.Store. It is safe for concurrent use.
type Store struct {
	decider *decider
	denials *denyCache // nil for none
	leases  *lease.Table
}

// New returns a store. Its arguments must be valid.
func New(client redis.UniversalClient, o Options) *Store {
	server, layout := newServer(client), newLayout(o.Prefix, o.Secret)
	queues := &queues{server: server, byRoute: make(map[string]*queue)}
	d := &decider{layout: layout, server: server, queues: queues}
	s := &Store{decider: d, leases: lease.New(d)}
	if o.DenyCache > 0 {
		s.denials = &denyCache{layout: layout, slots: make([]denySlot, o.DenyCache)}
	}
	return s
}

// Repaired returns how many invalid states were found and replaced by the state of a limit just used up.
func (s *Store) Repaired() uint64 { return s.decider.server.repaired.Load() }

// SetClock replaces the server's clock and this process's by now, for tests.
func (s *Store) SetClock(now func() time.Time) {
	s.decider.server.clock.Store(&now)
	s.decider.layout.wall.Store(&now)
}

// Take implements core.Store. It asks the server, unless leases decide all claims.
func (s *Store) Take(ctx context.Context, claims []core.Claim, dst []core.Result) (results []core.Result, err error) {
	var room [4]*denySlot
	slots, changes := s.denials.slotsOf(claims, room[:0])
	var sent time.Time
	if s.leases.Concerns(claims) {
		results, sent, err = s.leases.Take(ctx, claims, dst)
	} else {
		results, sent, err = s.decider.Take(ctx, claims, nil, dst)
	}
	s.denials.note(claims, slots, results[len(dst):], err, sent, changes)
	return results, err
}

// LeaseStats describes the leases of s.
func (s *Store) LeaseStats() core.LeaseStats { return s.leases.Stats() }

// TakeLocal implements core.LocalTaker: it takes what was charged ahead, or repeats a denial that the store remembers.
func (s *Store) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	if s.leases.HasKeys() {
		if results, ok := s.leases.TakeLocal(claims, dst); ok {
			var room [4]*denySlot
			slots, _ := s.denials.slotsOf(claims, room[:0])
			s.denials.note(claims, slots, results[len(dst):], nil, time.Time{}, 0)
			return results, true
		}
	}
	d, now := s.denials.find(claims)
	if d == nil {
		return dst, false
	}
	runtime.Gosched() // or callers that never wait might keep others, who wait for the server, from a CPU until their deadlines
	return d.appendTo(dst, claims, now), true
}

// Settle implements core.Store.
func (s *Store) Settle(ctx context.Context, settlements []core.Settlement) error {
	var pairs, banned []core.Pair
	for i := range settlements {
		st := &settlements[i]
		if err := st.Validate(); err != nil {
			return err
		}
		pairs = append(pairs, core.Pair{Rule: st.Rule, Key: st.Key})
		if st.Ban > 0 || st.Grant != 0 {
			banned = append(banned, pairs[i])
		}
	}
	j := s.decider.layout.newJob(true)
	j.addSettlements(s.leases.Refund(settlements))
	s.leases.End(banned) // and after the call, leases that have begun meanwhile
	defer s.leases.End(banned)
	if len(j.ops) == 0 {
		return nil
	}
	defer s.denials.forget(pairs)
	if err := s.decider.do(ctx, j); errors.Is(err, errFull) {
		return compiled.Full(settlements)
	} else if err != nil {
		return err
	}
	for i := range j.ops {
		if o := &j.ops[i]; o.moved > 0 { // a hold that was renewed
			settlements[o.of].At = time.UnixMicro(o.moved)
		}
	}
	j.release()
	return nil
}

// Reset implements core.Store.
func (s *Store) Reset(ctx context.Context, pairs []core.Pair) error {
	if len(pairs) == 0 {
		return nil
	}
	defer s.denials.forget(pairs)
	s.leases.End(pairs) // likewise
	defer s.leases.End(pairs)
	return errors.Join(each(len(pairs), func(i int) error {
		j := s.decider.layout.newJob(true)
		j.add(pairs[i].Rule, pairs[i].Key, nil, op{does: reset})
		return s.decider.do(ctx, j)
	})...)
}
