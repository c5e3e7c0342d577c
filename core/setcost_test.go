package core_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

func TestSetCost(t *testing.T) {
	s := new(settler)
	outer := withStore(s, []core.Rule{final("tokens", 100_000, costOf), perHour("plain", 5)})
	inner := withStore(s, []core.Rule{final("tokens", 100_000, costOf), final("other", 9, costOf)})
	var ctx context.Context
	serve(t, outer, func(r *http.Request, g *core.Guard) {
		in := must.Get(inner.Guard(r.Context(), r, nil))(t)
		ctx = in.Request().Context()
		for _, step := range []struct {
			why, rule string
			cost      int
			want      bool
		}{
			{"a rule under way", "tokens", 58, true},
			{"the last word counts", "tokens", 175, true},
			{"a negative cost", "tokens", -1, false},
			{"a rule without CostAfter", "plain", 5, false},
			{"a rule that there is not", "typo", 5, false},
			{"nothing at all", "other", 0, true},
		} {
			if got := core.SetCost(ctx, step.rule, step.cost); got != step.want {
				t.Errorf("%s: got %v", step.why, got)
			}
		}
		in.Settle(core.Outcome{Status: 200})
		in.End()
		if !core.SetCost(ctx, "tokens", 200) || core.SetCost(ctx, "other", 3) {
			t.Error("after the end of the inner limiter only the outer one is under way")
		}
		g.Settle(core.Outcome{Status: 200})
	})
	s.want(t, "tokens 1→175", "other 1→0", "tokens 1→200")
	if core.SetCost(ctx, "tokens", 1) || core.SetCost(context.Background(), "tokens", 1) {
		t.Error("SetCost did something after the end of the request, or without one")
	}
}

func TestSetCostOfARequestThatHoldsNothing(t *testing.T) {
	l := withStore(new(settler), []core.Rule{perHour("plain", 5)})
	serve(t, l, func(r *http.Request, _ *core.Guard) {
		if core.SetCost(r.Context(), "plain", 3) {
			t.Error("SetCost did something for a rule without CostAfter")
		}
	})
}

func TestSetCostIsSafeForConcurrentUse(t *testing.T) {
	s := new(settler)
	l := withStore(s, []core.Rule{final("tokens", 100_000, costOf)})
	var wg sync.WaitGroup
	serve(t, l, func(r *http.Request, g *core.Guard) {
		for i := range 8 {
			wg.Go(func() {
				for n := range 1000 {
					core.SetCost(r.Context(), "tokens", i*1000+n)
				}
			})
		}
		g.Settle(core.Outcome{})
	})
	wg.Wait()
	if len(s.settled) != 1 {
		t.Errorf("settled %v", s.finals())
	}
}

func TestSetCostLogsAMistakeOncePerRuleName(t *testing.T) {
	var log bytes.Buffer
	idle := final("idle", 9, costOf)
	idle.Match = func(*http.Request) bool { return false }
	options := []core.Option{core.WithStore(new(settler)), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}
	outer := core.Must(core.New([]core.Rule{final("outer", 9, costOf)}, options[0]))
	l := core.Must(core.New([]core.Rule{final("tokens", 9, costOf), idle, perHour("plain", 5)}, options...))
	for range 3 {
		serve(t, outer, func(r *http.Request, _ *core.Guard) {
			g := must.Get(l.Guard(r.Context(), r, nil))(t)
			ctx := g.Request().Context()
			core.SetCost(ctx, "tokens", -1)
			for _, rule := range []string{"tokns", "plain", "tokens", "idle", "outer"} {
				core.SetCost(ctx, rule, 3)
			}
			g.End()
			core.SetCost(ctx, "tokens", 3)
		})
	}
	core.SetCost(t.Context(), "tokens", 3)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %d lines, want one for tokns and one for plain:\n%s", len(lines), log.String())
	}
	for i, want := range []string{`there is no rule \"tokns\"; did you mean tokens?`, `rule \"plain\" has no CostAfter`} {
		if !strings.Contains(lines[i], "level=WARN") || !strings.Contains(lines[i], want) {
			t.Errorf("got %s\nwant a warning with %s", lines[i], want)
		}
	}
}

// Handlers may take rule names from requests, so the names that are remembered are bounded.
func TestSetCostLogsABoundedNumberOfNames(t *testing.T) {
	var log bytes.Buffer
	l := core.Must(core.New([]core.Rule{perHour("plain", 5)}, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	serve(t, l, func(r *http.Request, _ *core.Guard) {
		for i := range 1000 {
			core.SetCost(r.Context(), strconv.Itoa(i), 1)
		}
	})
	if n := strings.Count(log.String(), "\n"); n != 100 {
		t.Errorf("%d lines, want 100", n)
	}
}
