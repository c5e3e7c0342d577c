package redisx

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// warm brings up connections in the background, under the client's own timeout, if the client ends calls at the deadline
// of their context. Otherwise a connection that takes longer than a decision may wait, because the server is far away or
// uses TLS, would never come up: each decision that needs it would end it at its own deadline. Without that option, the
// client goes on with a decision that nobody waits for any more, so its connections come up anyway.
//
// At first there is one attempt, so a server that is down gets no more than one at a time. If it succeeds, as many follow at
// once as a queue may have runs in flight. If a decision has found no library, warm loads it.
func (s *server) warm() {
	if !s.inline || !s.warming.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.warming.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
		defer cancel()
		if s.onAll(ctx, s.connect) == nil && s.functions.missing.Load() {
			_ = s.within(ctx, s.loadLibrary)
		}
	}()
}

// connect brings up connections of a client.
func (s *server) connect(ctx context.Context, client redis.UniversalClient) error {
	for _, n := range [...]int{1, s.maxRuns} {
		errs := make([]error, n)
		each(n, func(i int) {
			errs[i] = s.within(ctx, func(ctx context.Context) error { return client.Time(ctx).Err() })
			if isReply(errs[i]) { // the user may not ask for the time, but is connected
				errs[i] = nil
			}
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}
