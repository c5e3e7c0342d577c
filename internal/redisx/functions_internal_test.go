package redisx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// A replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

func (replyError) RedisError() {}

// A rejecter is a hook that answers some commands with an error, and wraps all errors.
type rejecter struct {
	mu   sync.Mutex // of errs: connections come up in the background
	errs map[string]error
	sent map[string]*atomic.Int64
}

func newRejecter(errs map[string]error) *rejecter {
	r := &rejecter{errs: errs, sent: make(map[string]*atomic.Int64)}
	for _, name := range []string{"fcall", "function", "evalsha", "eval"} {
		r.sent[name] = new(atomic.Int64)
	}
	return r
}

func (*rejecter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*rejecter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *rejecter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if n := r.sent[cmd.Name()]; n != nil {
			n.Add(1)
		}
		r.mu.Lock()
		err := r.errs[cmd.Name()]
		r.mu.Unlock()
		if err == nil {
			err = next(ctx, cmd)
		}
		if err != nil {
			err = fmt.Errorf("hook: %s: %w", cmd.Name(), err)
			cmd.SetErr(err)
		}
		return err
	}
}

// keepLog records what the default logger logs while t runs.
func keepLog(t *testing.T) *bytes.Buffer {
	buf, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(buf, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return buf
}

// rejectingStore returns a store whose server rejects some commands.
func rejectingStore(t *testing.T, server *redistest.Server, errs map[string]error) (*Store, *rejecter) {
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	r := newRejecter(errs)
	client.AddHook(r)
	return New(client, Options{Prefix: t.Name()}), r
}

// Servers and proxies reject functions with many different texts.
func TestRejectedFunctionsMeanScripts(t *testing.T) {
	server := redistest.Start(t)
	for _, row := range []struct{ fcall, function string }{
		{"ERR unknown command `fcall`, with args beginning with: `x`", ""},
		{"ERR unknown command 'FCALL'", ""},
		{"ERR Command is not available: 'FCALL'. See https://upstash.com/docs for details", ""},
		{"ERR command fcall not support for your account", ""},
		{"ERR 'FCALL' command is not allowed", ""},
		{"NOPERM this user has no permissions to run the 'fcall' command", ""},
		{"unsupported command", ""},
		{"ERR Function not found", "ERR unknown subcommand 'LOAD'. Try FUNCTION HELP."},
		{"ERR Function not found", "ERR Command is not available: 'FUNCTION'."},
		{"ERR Function not found", "NOPERM this user has no permissions to run the 'function|load' command"},
	} {
		log := keepLog(t)
		errs := map[string]error{"fcall": replyError(row.fcall)}
		if row.function != "" {
			errs["function"] = replyError(row.function)
		}
		s, r := rejectingStore(t, server, errs)
		if s.Via() != "functions" {
			t.Errorf("%q: a new store uses %s", row, s.Via())
		}
		claims := []core.Claim{{Key: fmt.Sprint(row), Limits: core.MustParseLimits("2/d")}}
		for i := range 4 {
			results, err := s.Take(t.Context(), claims, nil)
			if err != nil || results[0].Allowed != (i < 2) {
				t.Errorf("%q: decision %d is %+v, %v", row, i, results, err)
			}
		}
		if s.Via() != "scripts" || r.sent["fcall"].Load() != 1 {
			t.Errorf("%q: the store uses %s after %d attempts", row, s.Via(), r.sent["fcall"].Load())
		}
		if n := strings.Count(log.String(), "so the store uses scripts"); n != 1 {
			t.Errorf("%q: logged %d times:\n%s", row, n, log)
		}
	}
}

// An error that does not concern functions is the error of the decision.
func TestFaultsDoNotMeanScripts(t *testing.T) {
	server := redistest.Start(t)
	for _, fault := range []error{
		replyError("LOADING Redis is loading the dataset in memory"), replyError("READONLY You can't write against a read only replica."),
		replyError("OOM command not allowed when used memory > 'maxmemory'."), replyError("NOAUTH Authentication required."),
		replyError("MASTERDOWN Link with MASTER is down"), replyError("BUSY Redis is busy"), replyError("CLUSTERDOWN Hash slot not served"),
		replyError("ERR no. script: x, on @user_function:7."), context.DeadlineExceeded, errors.New("connection reset"),
	} {
		s, r := rejectingStore(t, server, map[string]error{"fcall": fault})
		claims := []core.Claim{{Key: fault.Error(), Limits: core.MustParseLimits("2/d")}}
		if _, err := s.Take(t.Context(), claims, nil); !errors.Is(err, fault) {
			t.Errorf("%v: got %v", fault, err)
		}
		if n := r.sent["evalsha"].Load() + r.sent["eval"].Load() + r.sent["function"].Load(); n > 0 || s.Via() != "functions" {
			t.Errorf("%v: %d more commands, and the store uses %s", fault, n, s.Via())
		}
	}
}

// Some proxies end the connection at a command that they do not know. No decision is lost by that.
func TestProxyThatEndsTheConnectionGetsScripts(t *testing.T) {
	s, _ := rejectingStore(t, redistest.Start(t), map[string]error{"fcall": io.EOF})
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("2/d")}}
	for i := range 2 {
		if results, err := s.Take(t.Context(), claims, nil); err != nil || results[0].Remaining != 1-i || s.Via() != "scripts" {
			t.Errorf("decision %d: %+v, %v by %s, want a decision of the script", i, results, err, s.Via())
		}
	}
	s, _ = rejectingStore(t, redistest.Start(t), map[string]error{"fcall": io.EOF, "time": io.EOF}) // a server that is going down
	if _, err := s.Take(t.Context(), claims, nil); !errors.Is(err, io.EOF) || s.Via() != "functions" {
		t.Errorf("%v by %s", err, s.Via())
	}
	s, r := rejectingStore(t, redistest.Start(t), map[string]error{})
	must.Get(s.Take(t.Context(), claims, nil))(t)
	r.mu.Lock()
	r.errs["fcall"] = io.EOF // a server that has run functions does know them
	r.mu.Unlock()
	if _, err := s.Take(t.Context(), claims, nil); !errors.Is(err, io.EOF) || s.Via() != "functions" {
		t.Errorf("%v by %s", err, s.Via())
	}
}

func TestFunctionsAreTriedAgain(t *testing.T) {
	log := keepLog(t)
	server := redistest.Start(t)
	admin := server.Client(t)
	s, r := rejectingStore(t, server, nil)
	claims := []core.Claim{{Key: "k", Limits: core.MustParseLimits("100/d")}}
	right := func(right string) {
		t.Helper()
		must.Do(t, admin.Do(t.Context(), "acl", "setuser", "default", right).Err())
	}
	passes := func() { s.decider.server.functions.rejected.Store(s.decider.server.now() - int64(retryFunctions)) }
	decided := 0
	take := func(want string, attempts int64) {
		t.Helper()
		before := r.sent["fcall"].Load()
		for range 3 {
			decided++
			results, err := s.Take(t.Context(), claims, nil)
			if err != nil || results[0].Remaining != 100-decided {
				t.Errorf("%+v, %v, want %d remaining", results, err, 100-decided)
			}
		}
		if n := r.sent["fcall"].Load() - before; n != attempts || s.Via() != want {
			t.Errorf("%d attempts to use functions, and the store uses %s; want %d and %s", n, s.Via(), attempts, want)
		}
	}
	s.decider.server.begun = s.decider.server.begun.Add(-time.Hour) // so that the minute before now is after its beginning
	take("functions", 4)                                            // and one to find out that the library is missing
	right("-fcall")
	take("scripts", 1)
	passes()
	take("scripts", 1)
	right("+fcall")
	take("scripts", 0)
	passes()
	take("functions", 4) // and one to ask
	if text := log.String(); strings.Count(text, "so the store uses scripts") != 1 || strings.Count(text, "runs functions again") != 1 {
		t.Errorf("want one line each way:\n%s", text)
	}
}
