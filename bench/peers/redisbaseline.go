package peers

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Incr is a baseline: one INCR for each decision.
func Incr(_ Limit, client redis.UniversalClient) *Store {
	return shared("INCR", func(key string) bool { return client.Incr(background, "baseline:"+key).Err() == nil })
}

// EvalSHA is a baseline: the script that Spillgate runs for one claim, with the arguments it had for some key, sent as it
// is by go-redis. It panics if a decision of Spillgate makes no EVALSHA.
func EvalSHA(l Limit, client redis.UniversalClient) *Store {
	s := new(spy)
	watched := redis.NewClient(&redis.Options{Addr: client.(*redis.Client).Options().Addr})
	defer func() { _ = watched.Close() }()
	watched.AddHook(s)
	take := SpillgateRedisStore(l, watched).Worker()
	take("baseline:script")
	take("baseline:script") // the first may have loaded the script some other way
	sha, keys, args := s.script()
	return shared("EVALSHA", func(string) bool {
		return client.EvalSha(background, sha, keys, args...).Err() == nil
	})
}

// A spy remembers the last EVALSHA that went through a client.
type spy struct {
	mu   sync.Mutex
	last []any
}

func (s *spy) note(cmd redis.Cmder) {
	if cmd.Name() != "evalsha" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = append([]any(nil), cmd.Args()...)
}

// script returns the arguments of the last EVALSHA.
func (s *spy) script() (sha string, keys []string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sha, n := s.last[1].(string), s.last[2].(int)
	for _, key := range s.last[3 : 3+n] {
		keys = append(keys, key.(string))
	}
	return sha, keys, s.last[3+n:]
}

// DialHook implements redis.Hook.
func (s *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.note(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.note(cmd)
		}
		return next(ctx, cmds)
	}
}
