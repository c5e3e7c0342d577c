package core_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

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
	if got := s.finals(); !slices.Equal(got, want) {
		t.Errorf("settled %q, want %q", got, want)
	}
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
	g, err := l.Guard(context.Background(), get("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.End()
	handle(g.Request(), &g)
}
