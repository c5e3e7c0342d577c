package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Grants lists what was granted, and nothing that failed.
func TestGrants(t *testing.T) {
	s := new(faulty)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5)), {Name: "other", Limits: []core.Limit{core.PerMonth(5)}}}, core.WithStore(s)))
	for i := range 120 {
		grant(t, l, "k", i+1)
	}
	if err := l.Grant(t.Context(), "other", "k2", -7); err != nil {
		t.Fatal(err)
	}
	s.fault = refuse
	if err := l.Grant(t.Context(), "plan", "k", 1000); err == nil {
		t.Error("a grant without the store succeeds")
	}
	got := l.Grants()
	if got.Made["plan"] != 120 || got.Made["other"] != 1 || len(got.Last) != 100 {
		t.Errorf("made %v, %d listed", got.Made, len(got.Last))
	}
	if first, last := got.Last[0], got.Last[99]; first.Rule != "other" || first.Key != "k2" || first.Requests != -7 || first.At.IsZero() || last.Requests != 22 {
		t.Errorf("got %+v first and %+v last", first, last)
	}
	got.Made["plan"], got.Last[0].Key = 0, "changed"
	if again := l.Grants(); again.Made["plan"] != 120 || again.Last[0].Key != "k2" {
		t.Error("what Grants returns is not a copy")
	}
	for name, l := range map[string]*core.Limiter{"nil": nil, "zero": new(core.Limiter)} {
		if got := l.Grants(); got.Made != nil || got.Last != nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// A key with a grant that it has not used yet is not dropped to make room for others.
func TestUnusedGrantSurvivesAFlood(t *testing.T) {
	for _, limit := range []core.Limit{
		core.PerMonth(100), core.PerDay(100).Using(core.FixedWindow), core.PerDay(100).Using(core.SlidingWindow), core.PerDay(100).Using(core.SlidingLog),
	} {
		now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
		rules := []core.Rule{plan(limit), {Name: "flood", Limits: []core.Limit{core.PerSecond(5)}}}
		l := core.Must(core.New(rules, core.WithStore(&core.MemoryStore{MaxKeys: 8, Now: func() time.Time { return now }})))
		grant(t, l, "k", 50)
		for i := range 500 {
			now = now.Add(time.Second)
			if _, err := l.Take(t.Context(), core.Claim{Rule: "flood", Key: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := left(t, l, "k").Remaining; got != 150 {
			t.Errorf("%v: %d remain after a flood of other keys, want 150", limit, got)
		}
	}
}

// A cost is too large only if it exceeds the capacity and what is granted.
func TestIsTooLarge(t *testing.T) {
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(10))}))
	grant(t, l, "k", 8)
	for _, row := range []struct {
		cost                int
		allowed, isTooLarge bool
	}{{19, false, true}, {12, true, false}, {12, false, false}, {10, false, false}, {19, false, true}} {
		d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "k", Cost: row.cost})
		if err != nil || d.Allowed != row.allowed || d.IsTooLarge(0) != row.isTooLarge {
			t.Errorf("cost %d: allowed %v, too large %v, %v; want %+v", row.cost, d.Allowed, d.IsTooLarge(0), err, row)
		}
	}
}
