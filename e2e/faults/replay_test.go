package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/internal/redistest"
)

// commandStat returns a number that a server keeps about a command, such as calls or failed_calls.
func commandStat(t testing.TB, c *redis.Client, command, number string) (n int) {
	t.Helper()
	if _, text, ok := strings.Cut(c.Info(context.Background(), "commandstats").Val(), "cmdstat_"+command+":"); ok {
		_, text, _ = strings.Cut(text, number+"=")
		must.Get(fmt.Sscan(text[:strings.IndexAny(text, ",\r")], &n))(t)
	}
	return n
}

// executions returns how many runs of scripts a server has executed.
func executions(t testing.TB, c *redis.Client) int {
	return commandStat(t, c, "fcall", "calls") + commandStat(t, c, "eval", "calls") + commandStat(t, c, "evalsha", "calls")
}

// A third of all decisions meets a fault, which is too few to open the breaker. The others have 1.5s.
func TestDecisionIsChargedAtMostOnce(t *testing.T) {
	const timeout, rounds = 1500 * time.Millisecond, 4
	for _, tt := range []struct {
		name     string
		fault    redistest.Fault
		executed bool
	}{
		{"cut before execution", redistest.CutCommands, false},
		{"cut after execution", redistest.CutReplies, true},
		{"reset after execution", redistest.ResetReplies, true},
		{"replies lost", redistest.SwallowReplies, true},
		{"late", redistest.Fault{Delay: timeout * 3 / 2}, true},
		{"rejected by the server", redistest.Fault{Answer: "READONLY You can't write against a read only replica."}, false},
		{"loading", redistest.Fault{Answer: "LOADING Redis is loading the dataset in memory"}, false},
		{"try again", redistest.Fault{Answer: "TRYAGAIN Multiple keys request during rehashing of slot"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t)
			limit := slowly(1000)
			g := newGuard(s, s.store, "local", limit, core.WithTimeout(timeout))
			g.comesBack("k")
			runs, executed, held := s.proxy.Runs(), executions(t, s.admin), used(t, s.direct, "local", "k", limit)
			executed += 2 // by used: its store first tries the function
			for range rounds {
				for _, f := range []redistest.Fault{tt.fault, redistest.NoFault, redistest.NoFault} {
					s.proxy.Fault.Store(f)
					d := g.take("k")
					expect.Equal(t, d.Degraded != nil, f != redistest.NoFault, "under %+v: %v", f, d)
				}
			}
			want := 3 * rounds
			got := s.proxy.Runs() - runs
			expect.True(t, got == want, "%d runs of scripts were sent for %d decisions", got, want)
			if !tt.executed {
				want = 2 * rounds
			}
			redistest.Wait(t, "what is late to arrive", func() bool { return executions(t, s.admin)-executed >= want })
			expect.Equal(t, executions(t, s.admin)-executed, want, "the server executed")
			expect.Equal(t, used(t, s.direct, "local", "k", limit)-held, want, "requests that Redis holds against the key")
		})
	}
}

// Four callers do not notice that libraries and scripts are flushed again and again. A run that the server does not know is sent
// once more: as a function once the library is loaded, or else as an EVAL.
func TestLibrariesAndScriptsThatAreFlushed(t *testing.T) {
	s := newScene(t)
	limit := slowly(1_000_000)
	g := newGuard(s, s.store, "closed", limit, longDeadline)
	done := make(chan struct{})
	admitted := g.callers(4, 0, "k", done)
	redistest.Wait(t, "20 runs to be sent again", func() bool { // on a busy machine the callers may have no turn for a while
		for range 100 {
			s.do("function", "flush")
			s.do("script", "flush")
		}
		return commandStat(t, s.admin, "function|load", "calls") >= 20
	})
	close(done)
	n, sent := admitted(), int(g.calls.takes.Load())
	expect.True(t, n == sent && g.degraded.Load() == 0,
		"%d of %d decisions admitted and %d were degraded, want all and none", n, sent, g.degraded.Load())
	got, want := executions(t, s.admin), s.proxy.Runs()
	expect.True(t, got == want, "the server has executed %d runs, the store has sent %d", got, want)
	expect.Equal(t, used(t, s.direct, "closed", "k", limit), n, "requests that Redis holds against the key")
	s.log.wantTransitions(t, 0)
}

// If Redis is cut off while a request runs, its client notices nothing, and its hold cannot be released. The final cost that the
// handler sets is charged to the fallback, which makes the next decisions, and observers get the error of Redis.
func TestCutDuringRequest(t *testing.T) {
	for _, f := range apps.Frameworks {
		t.Run(f.Name, func(t *testing.T) {
			s := newScene(t)
			rule := slowly(10).By(wire.Anyone)
			rule.Name, rule.CostAfter = "local", func(_ *http.Request, o core.Outcome) int { return o.Cost }
			rule.Cost = func(*http.Request) int { return 2 }
			ends := make(chan core.Observation, 1)
			l := core.Must(core.New([]core.Rule{rule}, core.WithStore(s.store), longDeadline,
				core.WithObserver(func(_ context.Context, o *core.Observation) {
					if o.Outcome != nil {
						ends <- core.Observation{Err: o.Err, Charged: o.Charged}
					}
				})))
			server := wire.Serve(t, f.Build(apps.Limited(l, func(w http.ResponseWriter, r *http.Request) {
				s.proxy.Reject()
				core.SetCost(r.Context(), "local", 7)
				_, _ = io.WriteString(w, "served")
			})), false)
			reply := server.Get("/")
			reply.WantStatus(t, http.StatusOK)
			left := reply.Header.Get("X-RateLimit-Remaining")
			expect.True(t, left == "8" && reply.Body == "served", "Remaining is %s of %q, want 8 as Redis said", left, reply.Body)
			if end := <-ends; end.Err == nil || end.Charged != 7 {
				t.Errorf("observers heard of a final cost of %d and the error %v", end.Charged, end.Err)
			}
			d, err := l.Take(t.Context(), core.Claim{Rule: "local", Key: "const:all", Peek: true})
			expect.True(t, err == nil && d.Degraded != nil && d.Results[0].Remaining == 3,
				"got %v and the error %v, want a decision of the fallback in which 7 of 10 are charged", d, err)
			expect.Equal(t, used(t, s.direct, "local", "const:all", slowly(10)), 2, "of 10 count in Redis (the 2 that are held until they expire)")
			s.proxy.Accept(s)
		})
	}
}
