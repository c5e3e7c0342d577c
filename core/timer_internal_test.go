package core

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/must"
)

// slowStore admits everything, and takes a while to settle.
type slowStore struct{ MemoryStore }

func (*slowStore) Settle(context.Context, []Settlement) error {
	time.Sleep(10 * time.Millisecond)
	return nil
}

func TestNoTimerIsLeftBehind(t *testing.T) {
	end := func(l *Limiter, g *Guard) { g.Settle(Outcome{Status: 200}) }
	for why, row := range map[string]struct {
		after time.Duration
		end   func(l *Limiter, g *Guard)
	}{
		"a request that ends":                       {time.Second, end},
		"one that ends during a renewal":            {renewEvery + 5*time.Millisecond, end},
		"one that was renewed":                      {3*renewEvery + time.Second, end},
		"one that the application settles":          {time.Second, func(l *Limiter, g *Guard) { _ = l.Settle(context.Background(), g.Decision(), "", 0) }},
		"one that it settles while that is renewed": {renewEvery + 5*time.Millisecond, func(l *Limiter, g *Guard) { _ = l.Settle(context.Background(), g.Decision(), "r", 0) }},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rule := PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
				rule.Name, rule.CostAfter = "r", Failures
				l := Must(New([]Rule{rule}, WithStore(new(slowStore))))
				g := must.Get(l.Guard(context.Background(), httptest.NewRequest(http.MethodGet, "/", nil), nil))(t)
				timer := g.own.receipt.extra.timer
				if !timer.Stop() {
					t.Fatal("nobody renews the hold")
				}
				timer.Reset(renewEvery)
				time.Sleep(row.after)
				row.end(l, &g)
				synctest.Wait()
				if timer.Stop() {
					t.Error("a timer is left")
				}
			})
		})
	}
}

func TestRequestThatHoldsNothingHasNoTimer(t *testing.T) {
	rules := []Rule{PerHour(9).By(func(*http.Request) (string, error) { return "k", nil }), PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })}
	rules[0].Name, rules[1].Name = "a", "b"
	g, err := Must(New(rules)).Guard(context.Background(), httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if e := g.own.receipt.extra; err != nil || e.timer != nil {
		t.Errorf("%v, %+v", err, e)
	}
	g.End()
}
