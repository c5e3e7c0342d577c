package core_test

import (
	"context"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// A recorder keeps copies of observations.
type recorder struct{ seen []core.Observation }

func (t *recorder) observe(_ context.Context, o *core.Observation) {
	seen := *o
	seen.Claims = slices.Clone(o.Claims)
	t.seen = append(t.seen, seen)
}

func TestPeekChargesNothing(t *testing.T) {
	seen := new(recorder)
	l := core.Must(core.New([]core.Rule{core.PerHour(2).By(keyK)}, core.WithObserver(seen.observe)))
	for range 5 {
		if d, err := l.Peek(get("/")); err != nil || !d.Allowed || d.Results[0].Remaining != 2 {
			t.Fatalf("got %+v, %v; want allowed, and 2 remaining each time", d, err)
		}
	}
	l.Check(get("/"))
	l.Check(get("/"))
	if d, err := l.Peek(get("/")); err != nil || d.Allowed || d.Results[0].RetryAfter <= 0 {
		t.Errorf("got %+v, %v; want what Check would say: denied", d, err)
	}
	if len(seen.seen) != 2 {
		t.Errorf("observers were called %d times, want only of the 2 checks", len(seen.seen))
	}
}

func TestCarriedPeekIsNoDecision(t *testing.T) {
	l := core.Must(core.New([]core.Rule{core.PerHour(2).By(keyK)}))
	r := get("/")
	d, _ := l.Peek(r)
	if err := l.Refund(t.Context(), d); err != nil {
		t.Error(err)
	}
	r = r.WithContext(core.NewContext(r.Context(), d))
	if d, err := l.Check(r); err != nil || d.Results[0].Remaining != 1 {
		t.Errorf("a request whose context carries a peek was not charged: %+v, %v", d, err)
	}
}

func TestObservers(t *testing.T) {
	first, second := new(recorder), new(recorder)
	var heard any
	listen := func(ctx context.Context, _ *core.Observation) { heard = ctx.Value(word{}) }
	l := core.Must(core.New([]core.Rule{core.PerHour(1).By(keyK)},
		core.WithObserver(first.observe), core.WithObserver(second.observe), core.WithObserver(listen)))
	for range 2 {
		l.Check(get("/").WithContext(context.WithValue(t.Context(), word{}, "hello")))
	}
	for _, o := range []*recorder{first, second} {
		if len(o.seen) != 2 || !o.seen[0].Allowed || o.seen[1].Allowed || len(o.seen[1].Results) != 1 {
			t.Errorf("got %+v, want each decision once, denied ones too", o.seen)
		}
	}
	if heard != "hello" {
		t.Errorf("got value %v from the context, want the request's", heard)
	}
}
