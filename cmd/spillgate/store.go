package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// The deadlines of Redis. They allow for a server that is far away. Tests set longer deadlines for busy machines.
var (
	pingTimeout  = 3 * time.Second
	storeTimeout = 500 * time.Millisecond
)

// silence drops what the client of Redis logs: warnDegraded reports its failures.
var silence = sync.OnceFunc(logging.Disable)

// openStore returns the store that all routers share, and a function that closes it. The store is in this process's
// memory or, if redisURL is not empty, in that Redis, with a prefix that only demos use.
func openStore(ctx context.Context, redisURL string) (core.Store, func(), error) {
	if redisURL == "" {
		return new(core.MemoryStore), func() {}, nil
	}
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, nil, misuse("--redis: want a URL such as redis://127.0.0.1:6379: %v", withoutURL(err))
	}
	silence()
	opts.ContextTimeoutEnabled = true
	client := redis.NewClient(opts)
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		_ = client.Close()
		return nil, nil, fmt.Errorf("cannot reach Redis at %s: %w", opts.Addr, err)
	}
	return redisstore.New(client, redisstore.WithPrefix("spillgate-demo")), func() { _ = client.Close() }, nil
}

// withoutURL removes the URL, which may contain a password, from the error of url.Parse.
func withoutURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// warnDegraded returns an observer that writes a line to stderr when Redis stops deciding, because of a failure or an
// overload, and one when it decides again. Requests that failed for another reason are ignored.
func warnDegraded(stderr io.Writer) core.Observer {
	var degraded atomic.Bool
	return func(_ context.Context, o *core.Observation) {
		switch {
		case o.Degraded != nil && !degraded.Swap(true):
			complain(stderr, "Redis did not decide; this process enforces the limits from its own memory: %s", oneLine(o.Degraded))
		case o.Degraded == nil && o.Err == nil && degraded.Swap(false):
			complain(stderr, "Redis decides again")
		}
	}
}
