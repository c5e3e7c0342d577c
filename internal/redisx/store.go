// Package redisx keeps the state of limits in Redis: keys, scripts, and what runs them. Package redisstore is its public
// face.
package redisx

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
)

// maxRunning bounds the calls that wait for a server at once, those included whose callers have gone.
const maxRunning = 4096

// Options are what a Store is made with.
type Options struct {
	Prefix    string // of all keys
	Secret    []byte // if not nil, identities are stored as keyed hashes
	DenyCache int    // how many denials to remember; 0 for none
}

// A Store implements core.Store. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	layout  layout
	spread  atomic.Uint32
	denied  *denyCache // nil for none
	lanes   lanes
	plan    atomic.Pointer[string] // see planOf
	running chan struct{}

	offset   atomic.Int64  // what tests add to the server's clock, in microseconds
	repaired atomic.Uint64 // states that made no sense
	reloaded atomic.Int64  // when the state of the cluster was last asked for
	first    sync.Once
}

// New returns a store. Its arguments must be valid.
func New(client redis.UniversalClient, o Options) *Store {
	s := &Store{client: client, layout: newLayout(o.Prefix, o.Secret), running: make(chan struct{}, maxRunning)}
	s.lanes.byName = make(map[string]*lane)
	if o.DenyCache > 0 {
		s.denied = newDenyCache(o.DenyCache)
	}
	switch client.(type) {
	case *redis.ClusterClient:
		s.spread.Store(uint32(bySlot))
	case *redis.Ring:
		s.spread.Store(uint32(byTag))
	}
	return s
}

// Repaired returns how many stored states made no sense and were replaced by that of a limit just used up.
func (s *Store) Repaired() uint64 { return s.repaired.Load() }

// Shift adds d to the server's clock, for tests.
func (s *Store) Shift(d time.Duration) { s.offset.Add(d.Microseconds()) }

func (s *Store) shift() string { return strconv.FormatInt(s.offset.Load(), 10) }

// Take implements core.Store.
func (s *Store) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if s.denied != nil {
		return s.takeUnlessDenied(ctx, claims, dst)
	}
	return s.take(ctx, claims, dst)
}

func (s *Store) take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	r, err := s.layout.newRequest(claims)
	if err != nil || len(r.meters) == 0 {
		return dst, err
	}
	parts, err := s.decide(ctx, r)
	if err != nil {
		return dst, err
	}
	s.first.Do(func() { go s.warnOfEviction() })
	results := r.results(parts, claims, dst)
	r.release()
	return results, nil
}

// Settle implements core.Store.
func (s *Store) Settle(ctx context.Context, claims []core.Claim) error {
	var instants []time.Time // each slot has a clock of its own
	var byInstant [][]core.Claim
	for _, c := range claims {
		if err := c.Validate(); err != nil {
			return err
		}
		back := max(c.Cost, 1) - c.Final
		if back <= 0 || c.Peek || c.Hold {
			continue
		}
		c.Cost = back
		i := slices.IndexFunc(instants, c.At.Equal)
		if i < 0 {
			i = len(instants)
			instants, byInstant = append(instants, c.At), append(byInstant, nil)
		}
		byInstant[i] = append(byInstant[i], c)
	}
	if len(instants) == 0 {
		return nil
	}
	defer s.forget(claims)
	_, err := within(ctx, s, func(ctx context.Context) (struct{}, error) {
		for i, at := range instants {
			if err := s.refund(ctx, byInstant[i], at); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

// refund gives back what claims were charged at an instant.
func (s *Store) refund(ctx context.Context, claims []core.Claim, instant time.Time) error {
	r, err := s.layout.newRequest(claims)
	if err != nil {
		return err
	}
	at := min(max(instant.UnixMicro(), 0), maxExact)
	parts := s.split(r, spread(s.spread.Load()))
	each(parts, func(p *part) {
		s.refundPart(ctx, p, at, nil)
		if len(p.keys) > 1 && (hasCode(p.err, "TRYAGAIN") || hasCode(p.err, "CROSSSLOT")) {
			p.err = s.refundKeys(ctx, p, at)
		}
	})
	for i := range parts {
		if parts[i].err != nil {
			return parts[i].err
		}
	}
	return nil
}

// refundKeys gives back what p names, key by key.
func (s *Store) refundKeys(ctx context.Context, p *part, at int64) error {
	r := p.request
	for _, key := range p.keys {
		one := part{request: r}
		for _, i := range p.meters {
			if r.keys[r.meters[i].key] == key {
				one.add(i, key)
			}
		}
		if s.refundPart(ctx, &one, at, nil); one.err != nil {
			return one.err
		}
	}
	return nil
}

// Reset implements core.Store.
func (s *Store) Reset(ctx context.Context, claims []core.Claim) error {
	var keys []string
	for i := range claims {
		keys = append(keys, s.layout.key(claims[i].Rule, claims[i].Key))
	}
	if len(keys) == 0 {
		return nil
	}
	defer s.forget(claims)
	_, err := within(ctx, s, func(ctx context.Context) (struct{}, error) {
		errs := make([]error, len(keys))
		places := upTo(len(keys))
		each(places, func(i *int) { errs[*i] = s.resetKey(ctx, keys[*i]) })
		return struct{}{}, errors.Join(errs...)
	})
	return err
}

// resetKey resets one pair: a slot that migrates does not take several.
func (s *Store) resetKey(ctx context.Context, key string) error {
	c := newCall(&resetScript, 2)
	c.addKeys([]string{key})
	c.add(s.shift())
	_, err := c.run(ctx, s.client)
	s.failed(err)
	return err
}

// results appends a result per meter to dst. claims are those that r was made of.
func (r *request) results(parts []part, claims []core.Claim, dst []core.Result) []core.Result {
	start := len(dst)
	for i := range claims {
		for _, l := range claims[i].Limits {
			dst = append(dst, core.Result{Rule: ruleName(claims[i].Rule), Limit: l, DryRun: claims[i].DryRun})
		}
	}
	for i := range parts {
		for n, m := range parts[i].meters {
			u, d := &parts[i].usages[n], &dst[start+m]
			d.Allowed, d.RetryAfter = u.retry == 0, core.Never
			if u.retry >= 0 {
				d.RetryAfter = micros(u.retry)
			}
			d.At = time.UnixMicro(parts[i].at)
			d.Remaining, d.RefillAfter, d.ResetAfter = int(u.remaining), micros(u.refill), micros(u.reset)
		}
	}
	if len(parts) > 1 {
		r.shareInstants(dst[start:])
	}
	return dst
}

// shareInstants gives all results of a claim the instant at which its logs were decided, if those were decided apart from
// its other limits, as in a slot that migrates: only an entry of a log is found by its instant.
func (r *request) shareInstants(results []core.Result) {
	for i := range r.meters {
		if r.meters[i].algorithm != core.SlidingLog {
			continue
		}
		for j := range r.meters {
			if r.meters[j].claim == r.meters[i].claim {
				results[j].At = results[i].At
			}
		}
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
