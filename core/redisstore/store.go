package redisstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/redisx"
)

// defaultPrefix begins the keys of a Store without WithPrefix.
const defaultPrefix = "spillgate"

// A Store keeps state in Redis. It is safe for concurrent use and needs no Close; the client is its owner's to close.
type Store struct {
	redis *redisx.Store
	err   error // what is wrong with the arguments of New
}

var _ core.LocalTaker = (*Store)(nil)

// New returns a store that keeps state where client leads to. It does not connect. Any client will do, with its default
// options as with others; a client that wraps a *redis.ClusterClient is recognized when the cluster first objects to
// keys of several slots.
//
// Services that share one Redis need a prefix each: see WithPrefix. Without it, rules of one name share their limits, and the
// services deny each other's clients.
//
// If client or an option makes no sense, all methods of the store return an error that says so and wraps core.ErrInvalid;
// so does core.New, by way of Validate.
func New(client redis.UniversalClient, opts ...Option) *Store {
	c := config{Options: redisx.Options{Prefix: defaultPrefix, DenyCache: defaultDenyCache}}
	if isNil(client) {
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
		return &Store{err: err}
	}
	return &Store{redis: redisx.New(client, c.Options)}
}

// isNil reports whether client is nil or a nil pointer.
func isNil(client redis.UniversalClient) bool {
	if client == nil {
		return true
	}
	v := reflect.ValueOf(client)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Validate returns an error that wraps core.ErrInvalid if the arguments of New made no sense: all mistakes, joined.
func (s *Store) Validate() error { return s.err }

// Repaired returns how many stored states this store found to make no sense: of another type, of other software, or
// numbers that cannot be. Each was replaced by the state of a limit that has just been used up, so that it denies for one
// period at most and admits nothing extra. If it is not 0, other software writes to these keys.
func (s *Store) Repaired() uint64 {
	if s.err != nil {
		return 0
	}
	return s.redis.Repaired()
}

// Take implements core.Store. It returns as soon as ctx is done; what was on its way to Redis then may still be charged,
// once.
func (s *Store) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if s.err != nil {
		return dst, s.err
	}
	return s.redis.Take(ctx, claims, dst)
}

// LeaseStats describes what s has leased in this process: see core.Rule.Lease.
func (s *Store) LeaseStats() core.LeaseStats {
	if s.err != nil {
		return core.LeaseStats{}
	}
	return s.redis.LeaseStats()
}

// TakeLocal implements core.LocalTaker: a store takes what it has charged ahead, and repeats recent denials from its deny cache.
func (s *Store) TakeLocal(claims []core.Claim, dst []core.Result) ([]core.Result, bool) {
	if s.err != nil {
		return dst, false
	}
	return s.redis.TakeLocal(claims, dst)
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

// config is what options change.
type config struct {
	redisx.Options
	errs []error
}

func (c *config) invalid(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("spillgate: %w: redisstore: %s", core.ErrInvalid, fmt.Sprintf(format, args...)))
}
