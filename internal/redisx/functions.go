package redisx

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// retryFunctions is how long a store uses scripts, which cost the server several times as much, before it tries again to
// use functions.
const retryFunctions = time.Minute

// functions records whether a server runs functions for this user. The zero value says so.
type functions struct {
	refused atomic.Int64 // when it last did not, by server.now; 0 if it does
	worked  atomic.Bool  // it has run one
	missing atomic.Bool  // it does not have the library
}

// now returns the time since s began. The wall clock may be set back; this one is monotonic.
func (s *server) now() int64 { return max(1, int64(time.Since(s.begun))) }

// call sends c to the server and returns the reply. Another attempt follows only an error reply that says that the
// server has not run c.
func (s *server) call(ctx context.Context, c *call) ([]int64, error) {
	if s.usesScripts(ctx) {
		return s.sendScript(ctx, c)
	}
	reply, err := s.send(ctx, c, "fcall", s.script.function)
	if isNotFound(err) {
		s.functions.missing.Store(true)
		if err = s.round(ctx, s.loadLibrary); err == nil {
			reply, err = s.send(ctx, c, "fcall", s.script.function)
		}
	}
	switch {
	case err == nil:
		s.useFunctions()
		return reply, nil
	case !isReply(err):
		if errors.Is(err, io.EOF) && !s.functions.worked.Load() && s.endsConnections(ctx) {
			s.useScripts(err)
		}
		return nil, err
	case isFault(err):
		return nil, err
	}
	refusal := err
	if reply, err = s.sendScript(ctx, c); err == nil && !isNotFound(refusal) {
		s.useScripts(refusal)
	}
	return reply, err
}

// usesScripts reports whether to send a script. A minute after the server has rejected a function, one call asks again
// whether it runs functions.
func (s *server) usesScripts(ctx context.Context) bool {
	refused, now := s.functions.refused.Load(), s.now()
	switch {
	case refused == 0:
		return false
	case now-refused < int64(retryFunctions) || !s.functions.refused.CompareAndSwap(refused, now):
		return true
	}
	err := s.tryFunction(ctx)
	return err != nil && !isNotFound(err)
}

// tryFunction calls the function with no requests, which changes nothing, and returns the error.
func (s *server) tryFunction(ctx context.Context) error {
	_, err := s.send(ctx, newCall(0), "fcall", s.script.function)
	return err
}

// endsConnections reports whether the server answers another command, and ends the connection at an FCALL, as some
// proxies do at a command that they do not know. A server that goes down ends connections at any command.
func (s *server) endsConnections(ctx context.Context) bool {
	err := s.round(ctx, func(ctx context.Context) error { return s.client.Time(ctx).Err() })
	return (err == nil || isReply(err)) && errors.Is(s.tryFunction(ctx), io.EOF)
}

func (s *server) useScripts(why error) {
	if s.functions.refused.Swap(s.now()) == 0 {
		slog.Warn("spillgate: Redis does not run functions for this user, so the store uses scripts, which are slower", "err", why)
	}
}

func (s *server) useFunctions() {
	s.functions.worked.Store(true)
	if s.functions.refused.Load() != 0 && s.functions.refused.Swap(0) != 0 {
		slog.Info("spillgate: Redis runs functions again")
	}
}

// Via implements the method that core.Health.Via describes.
func (s *Store) Via() string {
	if s.decider.server.functions.refused.Load() != 0 {
		return "scripts"
	}
	return "functions"
}

// loadLibrary loads the library on all servers, because the client does not say which server lacks it.
func (s *server) loadLibrary(ctx context.Context) error {
	err := s.onAll(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		err := client.Process(ctx, onceText{redis.NewStringCmd(ctx, "function", "load", s.script.library)})
		if strings.Contains(replyOf(err), "already exists") {
			return nil
		}
		return err
	})
	if err == nil {
		s.functions.missing.Store(false)
	}
	return err
}

// onAll runs f for a client of each server that makes decisions.
func (s *server) onAll(ctx context.Context, f func(context.Context, redis.UniversalClient) error) error {
	one := func(ctx context.Context, client *redis.Client) error { return f(ctx, client) }
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, one)
	case *redis.Ring:
		return client.ForEachShard(ctx, one)
	}
	return f(ctx, s.client)
}

// isNotFound reports whether err says that a server does not have the library.
func isNotFound(err error) bool { return hasCode(err, "ERR Function not found") }

// The codes of errors that say nothing about functions: the server answers a script with the same.
var faults = []string{
	"ASK", "BUSY", "CLUSTERDOWN", "CROSSSLOT", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH", "NOREPLICAS", "OOM", "READONLY", "TRYAGAIN",
	"WRONGPASS",
}

// isFault reports whether err is an error reply with one of these codes, or the error of a function that ran, or says that
// the client has not authenticated and sends too much for that. All other
// errors that an FCALL or a FUNCTION LOAD gets mean that the server, a proxy in front of it or the rights of the user do
// not allow functions. There are too many texts to know them.
func isFault(err error) bool {
	text := replyOf(err)
	code, _, _ := strings.Cut(text, " ")
	return slices.Contains(faults, code) || strings.Contains(text, "@user_function") || strings.Contains(text, "unauthenticated")
}
