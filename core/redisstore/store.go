package redisstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redisx"
)

// A Store keeps state in Redis. It is safe for concurrent use and needs no Close. Close the client when you no longer
// need it.
type Store struct {
	redis  *redisx.Store
	shared sharedState
	err    error // the mistakes in the arguments of New
}

// A sharedState is equal for stores with the same keys in the same Redis.
type sharedState struct {
	client redis.UniversalClient
	prefix string
	secret [sha256.Size]byte // a digest, or 0 for none
}

var _ core.LocalTaker = (*Store)(nil)

// New returns a store that keeps its state in the Redis of client. It does not connect. Any client works, with any
// options.
//
// Set ContextTimeoutEnabled in the options of the client, so that go-redis ends a call at its deadline. A goroutine that
// decides then calls Redis itself. With a client that has the default options, or that wraps one, each call takes another
// goroutine, which costs the process more time than the rest of the call. If Redis does not answer, that goroutine and
// its connection stay for the ReadTimeout of the client. Decisions and deadlines are the same.
//
// A client that wraps a *redis.ClusterClient is recognized when the cluster first returns an error for keys of
// several slots.
//
// Name the rules: stores over the same client with the same prefix are one store, in which rules of the same name share
// limits. core.New reports two limiters that give such a rule different limits. Other processes cannot be checked, so
// give each service that uses the same Redis its own prefix: see WithPrefix. Otherwise one service uses up the limits of
// another.
//
// If client or an option is invalid, all methods of the store return an error that wraps core.ErrInvalid. So does
// core.New, which calls Validate.
func New(client redis.UniversalClient, opts ...Option) *Store {
	c := config{Options: redisx.Options{Prefix: "spillgate", DenyCache: 4096}}
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		c.invalid("client is nil; want one such as redis.NewClient returns")
	}
	for _, opt := range opts {
		if opt == nil {
			c.invalid("option is nil; leave it out")
			continue
		}
		opt(&c)
	}
	if err := errors.Join(c.errs...); err != nil {
		return &Store{redis: redisx.New(nil, redisx.Options{}), err: err} // it knows nothing and is never asked to decide
	}
	s := &Store{redis: redisx.New(client, c.Options), shared: sharedState{client: client, prefix: c.Prefix}}
	if c.Secret != nil {
		s.shared.secret = sha256.Sum256(c.Secret)
	}
	return s
}

// Validate returns an error that joins all mistakes in the arguments of New and wraps core.ErrInvalid, or nil if there
// are none. A zero Store is such a mistake.
func (s *Store) Validate() error {
	if s.redis == nil {
		return fmt.Errorf("spillgate: %w: redisstore: the Store is zero; want one that New returns", core.ErrInvalid)
	}
	return s.err
}

// SharedState returns a value that is equal for all stores over the same client with the same prefix and key secret:
// they share the state of rules with the same name. See core.WithStore.
func (s *Store) SharedState() any { return s.shared }

// Repaired returns how many invalid states this store has found in Redis: a value of another type, data of other
// software, or impossible numbers. The store replaced each of them with the state of a limit that has just been used
// up, which denies for at most one period and admits nothing extra. If Repaired is not 0, other software writes to
// these keys.
func (s *Store) Repaired() uint64 { return s.redis.Repaired() }

// Take implements core.Store. It returns as soon as ctx is done. A request that has already been sent to Redis may
// still be charged, once.
func (s *Store) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if s.err != nil {
		return dst, s.err
	}
	return s.redis.Take(ctx, claims, dst)
}

// LeaseStats describes the leases of s in this process: see core.Rule.Lease.
func (s *Store) LeaseStats() core.LeaseStats { return s.redis.LeaseStats() }

// TakeLocal implements core.LocalTaker: it uses requests that were charged ahead, and repeats recent denials from the
// deny cache.
func (s *Store) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	return s.redis.TakeLocal(claims, dst)
}

// Denied is for core.Limiter, which calls it while Redis cannot decide. It reports whether the store remembers that c
// cannot fit, and appends the results.
func (s *Store) Denied(c *core.Claim, dst []core.Result) (results []core.Result, denied bool) {
	return s.redis.Denied(c, dst)
}

// Via says how Redis makes decisions now: by "functions" or, if it does not run functions for this user, by "scripts",
// which are slower. The store tries functions again each minute.
func (s *Store) Via() string {
	if s.err != nil {
		return ""
	}
	return s.redis.Via()
}

// Settle implements core.Store.
func (s *Store) Settle(ctx context.Context, settlements []core.Settlement) error {
	if s.err != nil {
		return s.err
	}
	return s.redis.Settle(ctx, settlements)
}

// Reset implements core.Store.
func (s *Store) Reset(ctx context.Context, pairs []core.Pair) error {
	if s.err != nil {
		return s.err
	}
	return s.redis.Reset(ctx, pairs)
}

// config has the values that options set.
type config struct {
	redisx.Options
	errs []error
}

func (c *config) invalid(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("spillgate: %w: redisstore: %s", core.ErrInvalid, fmt.Sprintf(format, args...)))
}
