package faults

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

const (
	deadline = 50 * time.Millisecond // of a store, by default

	// tooLong is what a decision takes only if it waits for the client, which waits for a minute. Package core tests the deadline itself,
	// in bubbles.
	tooLong = 20 * time.Second
)

var modes = map[string]core.FailureMode{"local": core.FailLocal, "open": core.FailOpen, "closed": core.FailClosed}

// slowly returns a limit that admits n requests and refills none while a test runs.
func slowly(n int) core.Limit { return core.Every(n, 3650*24*time.Hour) }

// longDeadline is for tests in which nothing fails, on machines that are slow.
var longDeadline = core.WithTimeout(tooLong)

// A guard is a limiter with one rule, named after its failure mode, with the log and health that an operator sees.
type guard struct {
	*core.Limiter
	t       testing.TB
	rule    string
	calls   *calls
	longest atomic.Int64

	seen, degraded atomic.Int64 // decisions that the observer has seen
}

func newGuard(t testing.TB, store core.Store, mode string, limit core.Limit, opts ...core.Option) *guard {
	g := &guard{t: t, rule: mode, calls: &calls{Store: store}}
	rule := limit.By(func(*http.Request) (string, error) { return "", core.ErrNoKey })
	rule.Name, rule.OnFailure = mode, modes[mode]
	opts = append(opts, core.WithStore(g.calls), core.WithObserver(func(_ context.Context, o *core.Observation) {
		g.seen.Add(1)
		if o.Degraded != nil || o.Err != nil {
			g.degraded.Add(1)
		}
	}))
	g.Limiter = core.Must(core.New([]core.Rule{rule}, opts...))
	return g
}

// take charges key one request. An error fails the test, unless the failure mode requires one.
func (g *guard) take(key string) core.Decision {
	g.t.Helper()
	begun := time.Now()
	d, err := g.Take(context.Background(), core.Claim{Rule: g.rule, Key: key})
	took := int64(time.Since(begun))
	for old := g.longest.Load(); took > old && !g.longest.CompareAndSwap(old, took); old = g.longest.Load() {
	}
	switch {
	case err != nil && (g.rule != "closed" || !errors.Is(err, core.ErrUnavailable) || d.Allowed):
		g.t.Errorf("%s: got %v and the error %v", g.rule, d, err)
	case err != nil:
		d.Degraded = err
	case d.Degraded != nil && (g.rule == "closed" && !says(d.Degraded, "too many calls") || !errors.Is(d.Degraded, core.ErrUnavailable)):
		g.t.Errorf("%s: got %v, which is degraded", g.rule, d)
	}
	return d
}

// decidesAgain waits until Redis decides again. It charges nothing.
func (g *guard) decidesAgain(keys ...string) {
	g.t.Helper()
	redistest.Wait(g.t, "Redis to decide again", func() bool {
		for _, key := range keys {
			d, err := g.Take(context.Background(), core.Claim{Rule: g.rule, Key: key, Peek: true})
			if err != nil || d.Degraded != nil {
				return false
			}
		}
		return true
	})
}

// comesBack waits until Redis decides all again.
func (g *guard) comesBack(keys ...string) {
	g.t.Helper()
	redistest.Wait(g.t, "the breaker to close", func() bool {
		for range 10 {
			g.decidesAgain(keys...)
		}
		return !g.StoreHealth().Down
	})
}

// wantBounded fails the test if a decision has waited for the client.
func (g *guard) wantBounded() {
	g.t.Helper()
	if took := time.Duration(g.longest.Load()); took > tooLong {
		g.t.Errorf("%s: a decision took %v", g.rule, took)
	}
}

// callers starts n callers that charge key again and again, with a pause in between, until the channel is closed. It returns a function that
// waits for them and returns how many requests were admitted.
func (g *guard) callers(n int, pause time.Duration, key string, until <-chan struct{}) (admitted func() int) {
	var wg sync.WaitGroup
	var count atomic.Int64
	for i := range n {
		wg.Go(func() {
			for next := pause * time.Duration(i) / time.Duration(n); ; next = pause {
				select {
				case <-time.After(next):
				case <-until:
					return
				}
				if g.take(key).Allowed {
					count.Add(1)
				}
			}
		})
	}
	return func() int {
		wg.Wait()
		return int(count.Load())
	}
}

type calls struct {
	core.Store
	takes atomic.Int64
}

func (c *calls) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	c.takes.Add(1)
	return c.Store.Take(ctx, claims, dst)
}

// used returns how many requests of a capacity Redis holds against a key.
func used(t testing.TB, store core.Store, rule, key string, limit core.Limit) int {
	t.Helper()
	results := must.Get(store.Take(context.Background(), []core.Claim{{Rule: rule, Key: key, Limits: []core.Limit{limit}, Peek: true}}, nil))(t)
	return limit.Capacity() - results[0].Remaining
}

// charge charges a key in Redis, however long that takes.
func charge(t testing.TB, store core.Store, rule, key string, limit core.Limit) {
	t.Helper()
	must.Get(store.Take(context.Background(), []core.Claim{{Rule: rule, Key: key, Limits: []core.Limit{limit}}}, nil))(t)
}

// says reports whether the text of err contains one of the words, which are separated by |.
func says(err error, words string) bool {
	for word := range strings.SplitSeq(words, "|") {
		if err != nil && strings.Contains(err.Error(), word) {
			return true
		}
	}
	return false
}
