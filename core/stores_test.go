package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

var errUnreachable = errors.New("connection lost")

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

// unreachable fails at once.
func unreachable(context.Context) error { return errUnreachable }

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

// A settler is a store that admits everything and remembers what it was asked to settle. It uses the test's clock.
type settler struct {
	mu      sync.Mutex
	taken   []core.Claim
	settled []core.Settlement
	err     error // of Settle
	takes   time.Duration
}

func (s *settler) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, claims...)
	for _, c := range claims {
		for _, l := range c.Limits {
			dst = append(dst, core.Result{Rule: c.Rule, Limit: l, Allowed: true, At: time.Now()})
		}
	}
	return dst, nil
}

func (s *settler) Settle(_ context.Context, settlements []core.Settlement) error {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range settlements {
		if settlements[i].Renew {
			settlements[i].At = time.Now()
		}
	}
	s.settled = append(s.settled, settlements...)
	return s.err
}

// finals returns what was settled, such as "login k 1→0", "renew login k".
func (s *settler) finals() (text []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.settled {
		switch {
		case c.Renew:
			text = append(text, "renew "+c.Rule)
		case c.Ban > 0:
			text = append(text, fmt.Sprintf("ban %s %v", c.Rule, c.Ban))
		case c.Held:
			text = append(text, fmt.Sprintf("%s %d→%d", c.Rule, c.Cost, c.Final))
		default:
			text = append(text, fmt.Sprintf("charged %s %d→%d", c.Rule, c.Cost, c.Final))
		}
	}
	return text
}

func (s *settler) want(t *testing.T, want ...string) {
	t.Helper()
	expect.Elements(t, s.finals(), want, "settled")
}

// final returns a rule whose CostAfter is f.
func final(name string, n int, f func(*http.Request, core.Outcome) int) core.Rule {
	r := perHour(name, n)
	r.CostAfter = f
	return r
}

// costOf is a CostAfter that says Outcome.Cost.
func costOf(_ *http.Request, o core.Outcome) int { return o.Cost }

// serve has l guard a request, which handle serves, and returns what End was called after.
func serve(t *testing.T, l *core.Limiter, handle func(r *http.Request, g *core.Guard)) {
	t.Helper()
	g := must.Get(l.Guard(context.Background(), get("/"), nil))(t)
	defer g.End()
	handle(g.Request(), &g)
}
