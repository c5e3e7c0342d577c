package adaptertest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A script is a store that returns fixed results and records the requested keys.
type script struct {
	at      time.Time
	results []core.Result
	err     error
	panics  any

	mu   sync.Mutex
	keys []string
}

// Take implements core.Store.
func (s *script) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		s.keys = append(s.keys, c.Key)
	}
	if s.panics != nil {
		panic(s.panics)
	}
	for _, r := range s.results {
		r.At = s.at
		dst = append(dst, r)
	}
	return dst, s.err
}

// Settle implements core.Store.
func (s *script) Settle(context.Context, []core.Settlement) error { return s.err }

// Reset implements core.Store.
func (s *script) Reset(context.Context, []core.Pair) error { return s.err }

// asked returns the keys since the last call.
func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.keys
	s.keys = nil
	return keys
}

// noon is 2026-01-01T12:00:00Z.
var noon = time.Unix(1767268800, 0)

// scripted returns a limiter that decides at noon with these results, a rule for each.
func scripted(results ...core.Result) *core.Limiter {
	return newLimiter(&script{at: noon, results: results}, rulesOf(results)...)
}

func rulesOf(results []core.Result) (rules []core.Rule) {
	for _, t := range results {
		rules = append(rules, core.Rule{Name: t.Rule, Limits: []core.Limit{t.Limit}, DryRun: t.DryRun, Key: anyone})
	}
	return rules
}

// newLimiter returns a limiter that waits for its store even on a busy machine.
func newLimiter(s core.Store, rules ...core.Rule) *core.Limiter {
	return core.Must(core.New(rules, core.WithStore(s), core.WithTimeout(timeout), core.WithLogger(slog.New(slog.DiscardHandler))))
}

// counting returns a limiter of n per hour in memory, of which nothing refills during a test.
func counting(n int) *core.Limiter {
	return newLimiter(new(core.MemoryStore), core.PerHour(n).Using(core.SlidingLog).By(anyone))
}

// anyone is a key func whose key must not be in any response.
func anyone(*http.Request) (string, error) { return "user:" + secret, nil }

// secret is contained in keys and in the texts of errors.
const secret = "hunter2"

func allowed(rule string, l core.Limit, remaining int, refill, reset time.Duration) core.Result {
	return core.Result{Rule: rule, Limit: l, Allowed: true, Remaining: remaining, RefillAfter: refill, ResetAfter: reset}
}

func denied(t core.Result, retry time.Duration) core.Result {
	t.Allowed, t.RetryAfter = false, retry
	return t
}

func dryRun(t core.Result) core.Result {
	t.DryRun = true
	return t
}
