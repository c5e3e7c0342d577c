package core_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// allow takes n requests of a key and checks how many of them are admitted.
func allow(t *testing.T, l *core.Limiter, key string, n, want int) {
	t.Helper()
	admitted := 0
	for range n {
		d := must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: key}))(t)
		if d.Allowed {
			admitted++
		}
	}
	if admitted != want {
		t.Errorf("%d of %d requests of %s are admitted, want %d", admitted, n, key, want)
	}
}

func left(t *testing.T, l *core.Limiter, key string, limits ...core.Limit) core.Result {
	t.Helper()
	d := must.Get(l.Take(t.Context(), core.Claim{Rule: "plan", Key: key, Limits: limits, Peek: true}))(t)
	return d.Results[0]
}

func plan(limits ...core.Limit) core.Rule {
	return core.Rule{Name: "plan", Key: constKey, Limits: limits}
}

func grant(t *testing.T, l *core.Limiter, key string, n int) {
	t.Helper()
	must.Do(t, l.Grant(t.Context(), "plan", key, n))
}

func TestGrantMistakes(t *testing.T) {
	tiered := core.Rule{Name: "tiered", Key: constKey, Limits: []core.Limit{core.PerMonth(5)}, Tier: func(*http.Request) []core.Limit { return nil }}
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5)), tiered}))
	tests := []struct {
		rule, key string
		n         int
		limits    []core.Limit
		kind      error
		want      string
	}{
		{"plan", "k", 0, nil, core.ErrInvalid, "and not 0, got 0"},
		{"plan", "k", 1_000_000_001, nil, core.ErrInvalid, "requests must be between -1000000000 and 1000000000"},
		{"plan", "k", -1_000_000_001, nil, core.ErrInvalid, "requests must be between -1000000000 and 1000000000"},
		{"plan", "", 1, nil, core.ErrNoKey, "grant of rule"},
		{"pln", "k", 1, nil, core.ErrInvalid, `there is no rule "pln"`},
		{"tiered", "k", 1, nil, core.ErrInvalid, "the rule has a Tier"},
		{"plan", "k", 1, []core.Limit{{}}, core.ErrInvalid, "period must be"},
	}
	for _, tt := range tests {
		wantError(t, l.Grant(t.Context(), tt.rule, tt.key, tt.n, tt.limits...), tt.kind, tt.want)
	}
	if err := l.Grant(t.Context(), "tiered", "k", 1, core.PerMonth(7)); err != nil {
		t.Error(err)
	}
	for _, n := range []int{1_000_000_000, -1_000_000_000} {
		if err := l.Grant(t.Context(), "plan", "k", n); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestGrantFailsWithTheStore(t *testing.T) {
	s := new(faulty)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5))}, core.WithStore(s)))
	s.fault = unreachable
	wantError(t, l.Grant(t.Context(), "plan", "k", 5), core.ErrUnavailable, "refused")
	allow(t, l, "k", 6, 5) // of the fallback
	s.fault = nil
	if got := s.memory.Stats().Keys; got != 0 {
		t.Errorf("the store has %d keys", got)
	}
}

func TestHundredGrantsNeverAddUpToMore(t *testing.T) {
	const grants, apart, kept = 100, 30 * time.Second, 60
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	l := core.Must(core.New([]core.Rule{plan(core.PerHour(10).Using(core.SlidingLog))}, core.WithStore(&core.MemoryStore{Now: func() time.Time { return now }})))
	for i := range 2 * grants {
		now = now.Add(apart)
		if i < grants {
			grant(t, l, "k", 1)
		}
		d := must.Get(l.UsageOf(t.Context(), "plan", "k"))(t)
		got, want := d.Results[0].Granted, min(i+1, grants) // of an hour, the first grants have not ended
		if ended := i + 1 - int(time.Hour/apart); ended > 0 {
			want = max(want-ended, 0)
		}
		if got > want || i < kept && got != want {
			t.Errorf("%v after the first grant: %d are granted, want %d", now, got, want)
		}
	}
}

// Grants lists successful grants only.
func TestGrants(t *testing.T) {
	s := new(faulty)
	l := core.Must(core.New([]core.Rule{plan(core.PerMonth(5)), {Name: "other", Limits: []core.Limit{core.PerMonth(5)}}}, core.WithStore(s)))
	for i := range 120 {
		grant(t, l, "k", i+1)
	}
	must.Do(t, l.Grant(t.Context(), "other", "k2", -7))
	s.fault = unreachable
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

// A full store does not drop a key that has an unused grant.
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
			must.Get(l.Take(t.Context(), core.Claim{Rule: "flood", Key: fmt.Sprint(i)}))(t)
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
