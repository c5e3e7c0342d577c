package redisstore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
)

// A tally is a Redis store that counts the settlements that it gets, and notes when the first claim was held.
type tally struct {
	*redisstore.Store
	settles atomic.Int64
	held    atomic.Pointer[time.Time]
}

func (s *tally) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for i := range claims {
		if claims[i].Hold {
			now := time.Now()
			s.held.CompareAndSwap(nil, &now)
		}
	}
	return s.Store.Take(ctx, claims, dst)
}

func (s *tally) Settle(ctx context.Context, settlements []core.Settlement) error {
	s.settles.Add(1)
	return s.Store.Settle(ctx, settlements)
}

// waitingOn returns a limiter on a new Redis whose requests, five per second, may wait for five seconds.
func waitingOn(t *testing.T, more ...core.Rule) (*core.Limiter, *tally) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := &tally{Store: redisstore.New(client)}
	all := func(*http.Request) (string, error) { return "const:all", nil }
	for i := range more {
		more[i].Key = all
	}
	rules := append(more, core.Rule{Name: "r", Key: all, Limits: []core.Limit{core.PerSecond(5)}, MaxWait: 5 * time.Second, OnFailure: core.FailClosed})
	return core.Must(core.New(rules, core.WithStore(s), core.WithTimeout(time.Minute))), s
}

// TestWaitWithinADeadline checks that requests whose turn comes after their deadline are denied, and hardly ever have to give back what they booked.
func TestWaitWithinADeadline(t *testing.T) {
	const requests = 100
	l, s := waitingOn(t)
	var served, denied atomic.Int64
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			g, err := l.Guard(ctx, httptest.NewRequest(http.MethodGet, "/", nil), nil)
			defer g.End()
			switch {
			case err != nil && ctx.Err() == nil:
				t.Error(err)
			case err != nil: // the machine was busy at its turn
			case g.Admitted():
				served.Add(1)
			case g.Decision().RetryAfter() > 5*time.Second:
				t.Errorf("denied for %v", g.Decision().RetryAfter())
			default:
				denied.Add(1)
			}
		})
	}
	if all.Wait(); served.Load() < 5 || denied.Load() == 0 || s.settles.Load() > requests/4 {
		t.Errorf("%d served, %d denied, %d settlements", served.Load(), denied.Load(), s.settles.Load())
	}
}

// TestWaitingHoldsNothing checks that requests that wait leave the places of another rule to others, and take them at their turn.
func TestWaitingHoldsNothing(t *testing.T) {
	l, s := waitingOn(t, core.Rule{Name: "places", Limits: []core.Limit{core.AtOnce(2), core.PerHour(1000)}})
	begun := time.Now()
	if d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all", Cost: 5}); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			g, err := l.Guard(t.Context(), httptest.NewRequest(http.MethodGet, "/", nil), nil)
			if err != nil || !g.Admitted() || len(g.Decision().Results) != 3 {
				t.Errorf("%+v, %v", g.Decision(), err)
			}
			g.End()
		})
	}
	all.Wait()
	if held := s.held.Load(); held == nil || held.Sub(begun) < 200*time.Millisecond {
		t.Errorf("the first request held something at %v, before its turn", held)
	}
	places := core.Claim{Rule: "places", Key: "const:all", Hold: true}
	for range 2 {
		if d, err := l.Take(t.Context(), places); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v; want both places free", d, err)
		}
	}
	g, err := l.Guard(t.Context(), httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if d := g.Decision(); err != nil || d.Allowed || d.RetryAfter() != time.Second {
		t.Errorf("%+v, %v; want a denial at the turn", d, err)
	}
	g.End()
	d, err := l.Take(t.Context(), core.Claim{Rule: "r", Key: "const:all", Peek: true})
	if err != nil || !d.Allowed || d.Wait != 0 {
		t.Errorf("%+v, %v; want that the denied request has given back its turn", d, err)
	}
}
