// Package redisx keeps the state of limits in Redis, for package redisstore.
//
//	s := redisx.New(client, redisx.Options{Prefix: "shop"})
//	results, err := s.Take(ctx, []core.Claim{{Rule: "api", Key: "user:42", Limits: limits}}, nil)
//
// A Take or a Settle of core becomes a request (request.go). It is split into jobs (routing.go, job.go): one for a
// single server, one for each slot of a Cluster. Jobs of concurrent callers wait for each other and are sent as one
// batch (batcher.go has its size, a sum of loads that job.go gives to asks; run.go sends it), which one run of a script
// does (script.go joins the files of lua/). reply.go turns the script's reply into results. If a request has several
// jobs and one denies, separate.go gives back what the others charged.
//
// The script (script.go) is a library of one function, and a script for servers without functions (command.go). Its
// files in lua/ read from run.lua down: plan.lua reads the request; take.lua, settle.lua and decide.lua decide;
// pair.lua has the layout of the stored state; and each algorithm has a file of its own: the refund of a fixed window
// is in lua/fixedwindow.lua.
//
// Package lease charges requests of busy keys ahead, by Lend (lend.go).
//
// Beside that way: key.go (names of keys), denycache.go (denials that this process repeats), denied.go (pairs to peek at first
// on a Cluster), command.go, wait.go and server.go (calls of the client that end in time).
package redisx

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
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
	client  redis.UniversalClient
	script  *script
	layout  layout
	routing atomic.Uint32
	denials *denyCache // nil for none
	denied  deniedPairs
	batcher batcher
	leases  atomic.Pointer[lease.Table] // nil until a claim has a Lease

	noFunctions atomic.Bool // the server has none, or the user may not load them

	clock    testClock     // of the server
	wall     testClock     // of this process
	repaired atomic.Uint64 // invalid states found
	reloads  reloads       // of the state of the cluster
	begun    time.Time
	first    sync.Once
}

// New returns a store. Its arguments must be valid.
func New(client redis.UniversalClient, o Options) *Store {
	s := &Store{client: client, script: theScript, layout: newLayout(o.Prefix, o.Secret), begun: time.Now()}
	s.layout.wall = &s.wall
	s.batcher.init()
	if o.DenyCache > 0 {
		s.denials = newDenyCache(o.DenyCache)
	}
	switch client.(type) {
	case *redis.ClusterClient:
		s.routing.Store(uint32(bySlot))
	case *redis.Ring:
		s.routing.Store(uint32(byIdentity))
	}
	return s
}

// Repaired returns how many invalid states were found and replaced by the state of a limit just used up.
func (s *Store) Repaired() uint64 { return s.repaired.Load() }

// A testClock replaces a clock in tests, or is nil.
type testClock = atomic.Pointer[func() time.Time]

// SetClock replaces the server's clock and this process's by now, for tests.
func (s *Store) SetClock(now func() time.Time) {
	s.clock.Store(&now)
	s.wall.Store(&now)
}

// Take implements core.Store. It always asks the server.
func (s *Store) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	resets, sent := s.resets(claims), s.sentAt()
	var results []core.Result
	var lasts bool
	var err error
	if t := s.leasesFor(claims); t != nil {
		results, lasts, err = t.Take(ctx, claims, dst)
	} else {
		results, lasts, err = s.ask(ctx, claims, nil, dst)
	}
	if err == nil && lasts {
		s.remember(claims, results[len(dst):], sent, resets)
	}
	return results, err
}

// ask asks the server to decide claims and to take back the unused requests of loans. lasts reports whether the results
// are a denial that may be repeated.
func (s *Store) ask(ctx context.Context, claims []core.Claim, loans []lease.Loan, dst []core.Result) (results []core.Result, lasts bool, err error) {
	r, err := s.layout.newTake(claims)
	if err != nil || len(r.asks) == 0 {
		return dst, false, err
	}
	for i := range loans {
		if loans[i].Unused.Count() > 0 {
			r.lease(i, 0, loans[i].Unused)
		}
	}
	sent := s.sentAt()
	jobs, err := s.decide(ctx, r)
	for i := range loans {
		loans[i].Return = outcomeOf(jobs, err)
	}
	if err != nil {
		return dst, false, err
	}
	s.first.Do(func() { go s.warnOfEviction() })
	results, lasts = r.appendResults(dst, claims, jobs), s.denials != nil && s.lasts(r, jobs, sent)
	r.release()
	return results, lasts, nil
}

// sentAt returns the time, which only a store that remembers denials needs.
func (s *Store) sentAt() (now time.Time) {
	if s.denials != nil {
		now = time.Now()
	}
	return now
}

// lasts reports whether a denial of jobs may be repeated. A denial because of a hold, or because of a charge that may
// be about to be given back, may not.
func (s *Store) lasts(r *request, jobs []job, sent time.Time) bool {
	if routing(s.routing.Load()) == anyKeys {
		return !heldBack(jobs)
	}
	known := s.denied.anyOf(r.keys, sent, settled)
	s.denied.add(jobs, sent)
	return known && !heldBack(jobs)
}

// TakeLocal implements core.LocalTaker: it takes what was charged ahead, or repeats a denial that the store remembers.
func (s *Store) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	if t := s.leases.Load(); t != nil && t.HasKeys() {
		if results, ok := t.TakeLocal(claims, dst); ok {
			return results, true
		}
	}
	if s.denials == nil {
		return dst, false
	}
	now := time.Now()
	d := s.denials.find(&s.layout, claims, now)
	if d == nil {
		return dst, false
	}
	runtime.Gosched() // or callers that never wait might keep others, who wait for the server, from a CPU until their deadlines
	return d.appendTo(dst, now), true
}

// Reset implements core.Store.
func (s *Store) Reset(ctx context.Context, pairs []core.Pair) error {
	if len(pairs) == 0 {
		return nil
	}
	keys := make([]string, len(pairs))
	for i, p := range pairs {
		keys[i] = s.layout.key(p.Rule, p.Key)
	}
	defer s.forget(pairs)
	if t := s.leases.Load(); t != nil {
		t.End(pairs)
		defer t.End(pairs)
	}
	late := func(err error) error {
		s.noteError(err)
		return err
	}
	_, err := within(ctx, s, late, func(ctx context.Context) (struct{}, error) {
		errs := make([]error, len(keys))
		each(upTo(len(keys)), func(i *int) { errs[*i] = s.resetKey(ctx, keys[*i]) })
		return struct{}{}, errors.Join(errs...)
	})
	return err
}

// resetKey resets one pair, because in a slot that is migrating, the server returns an error for a script with several
// keys.
func (s *Store) resetKey(ctx context.Context, key string) error {
	c := newCall(4)
	c.addKeys([]string{key})
	c.add(decidedAt("r", s.instant()))
	_, err := s.call(ctx, c)
	s.noteError(err)
	return err
}
