package core_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
)

var errRefused = errors.New("connection refused")

// A faulty store is one in memory that a limiter takes for a remote one. Each call passes fault first.
type faulty struct {
	memory core.MemoryStore
	fault  func(ctx context.Context) error // nil: none
	calls  atomic.Int64
}

func (s *faulty) call(ctx context.Context) error {
	s.calls.Add(1)
	if s.fault == nil {
		return nil
	}
	return s.fault(ctx)
}

func (s *faulty) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if err := s.call(ctx); err != nil {
		return dst, err
	}
	return s.memory.Take(ctx, claims, dst)
}

func (s *faulty) Settle(ctx context.Context, settlements []core.Settlement) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.memory.Settle(ctx, settlements)
}

func (s *faulty) Reset(ctx context.Context, pairs []core.Pair) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.memory.Reset(ctx, pairs)
}

// refuse fails at once.
func refuse(context.Context) error { return errRefused }

// hang heeds its deadline.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// mode returns a rule of n per hour that fails in this way.
func mode(name string, m core.FailureMode, n int) core.Rule {
	r := perHour(name, n)
	r.OnFailure = m
	return r
}

// withStore returns a limiter on s.
func withStore(s core.Store, rules []core.Rule, opts ...core.Option) *core.Limiter {
	return core.Must(core.New(rules, append(opts, core.WithStore(s))...))
}

// openBreaker makes calls of l until its breaker is open. The store must fail.
func openBreaker(t *testing.T, l *core.Limiter) {
	t.Helper()
	for range 20 {
		if l.StoreHealth().Down {
			return
		}
		_, _ = l.Take(t.Context(), core.Claim{Rule: "breaker", Key: "k", Limits: []core.Limit{core.PerHour(1)}})
	}
	t.Fatal("the breaker is closed after 20 failures")
}

// A journal is the text that slog wrote.
type journal struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.String()
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// keepJournal has slog write to a journal while t runs.
func keepJournal(t *testing.T) *journal {
	before, j := slog.Default(), new(journal)
	slog.SetDefault(j.logger())
	t.Cleanup(func() { slog.SetDefault(before) })
	return j
}
