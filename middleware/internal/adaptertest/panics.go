package adaptertest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// testPanics checks that a callback that panics once harms that request alone: the next is served, none passes for free,
// and no lock stays held.
func testPanics(t *testing.T, a Adapter) {
	var armed atomic.Bool
	trip := func(where string) {
		if armed.CompareAndSwap(true, false) {
			panic(where)
		}
	}
	rule := func(change func(*core.Rule)) []core.Rule {
		r := core.PerHour(3).Using(core.SlidingLog).By(anyone)
		change(&r)
		return []core.Rule{r}
	}
	plain := rule(func(*core.Rule) {})
	observer := core.WithObserver(func(context.Context, core.Decision) { trip("observer") })
	skip := core.WithSkip(func(*http.Request) bool { trip("skip"); return false })
	for _, row := range []struct {
		why     string
		limiter *core.Limiter
		guard   Guard
	}{
		{"key", core.Must(core.New(rule(func(r *core.Rule) { r.Key = func(q *http.Request) (string, error) { trip("key"); return anyone(q) } }))), Guard{}},
		{"match", core.Must(core.New(rule(func(r *core.Rule) { r.Match = func(*http.Request) bool { trip("match"); return true } }))), Guard{}},
		{"cost", core.Must(core.New(rule(func(r *core.Rule) { r.Cost = func(*http.Request) int { trip("cost"); return 1 } }))), Guard{}},
		{"tier", core.Must(core.New(rule(func(r *core.Rule) { r.Tier = func(*http.Request) []core.Limit { trip("tier"); return nil } }))), Guard{}},
		{"skip", core.Must(core.New(plain, skip)), Guard{}},
		{"observer", core.Must(core.New(plain, observer)), Guard{}},
		{"headers", core.Must(core.New(plain)), Guard{Headers: func(http.Header, core.Decision) { trip("headers") }}},
		{"deny handler", core.Must(core.New(plain)), Guard{Deny: func(w http.ResponseWriter, _ *http.Request, _ core.Decision) {
			trip("deny handler")
			w.WriteHeader(http.StatusTooManyRequests)
		}}},
	} {
		t.Run(row.why, func(t *testing.T) {
			row.guard.Limiter = row.limiter
			var served atomic.Int32
			s := a.serve(t, App{Guards: []Guard{row.guard}, Routes: []Route{{Pattern: "/", Handler: func(http.ResponseWriter, *http.Request) { served.Add(1) }}}})
			s.Client().Transport.(*http.Transport).DisableKeepAlives = true
			armed.Store(true)
			if resp, err := s.Client().Get(s.URL); err == nil {
				resp.Body.Close()
			}
			for range 5 {
				if resp, err := s.Client().Get(s.URL); err == nil {
					resp.Body.Close()
				}
			}
			s.get("/").wantStatus(t, http.StatusTooManyRequests)
			if n := served.Load(); armed.Load() || n < 2 || n > 3 {
				t.Errorf("tripped: %v; %d served, want the 3 of the limit, less one at most that was charged as it panicked", !armed.Load(), n)
			}
		})
	}
}
