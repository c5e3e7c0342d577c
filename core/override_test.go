package core_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/core"
)

func TestOverride(t *testing.T) {
	calls := 0
	rule := core.Rule{
		Name: "plan", Limits: []core.Limit{core.PerHour(3)},
		Key: func(r *http.Request) (string, error) { return r.Header.Get("Key"), nil },
		Tier: func(r *http.Request) []core.Limit {
			if r.Header.Get("Tier") == "" {
				return nil
			}
			return []core.Limit{core.PerHour(7)}
		},
		Override: func(key string) []core.Limit {
			calls++
			switch key {
			case "partner":
				return []core.Limit{core.PerHour(50), core.PerMonth(1000)}
			case "blocked":
				return []core.Limit{core.PerHour(0)}
			case "wrong":
				return []core.Limit{{}}
			case "panics":
				panic("no database")
			}
			return nil
		},
	}
	l := core.Must(core.New([]core.Rule{rule}))
	check := func(key, tier string, want int) {
		t.Helper()
		calls = 0
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Key", key)
		r.Header.Set("Tier", tier)
		d, err := l.Check(r)
		if err != nil || calls != 1 {
			t.Fatalf("%s: %v, after %d calls of Override", key, err, calls)
		}
		if got := d.Results[0].Limit.Rate; got != want {
			t.Errorf("%s: limit %d, want %d", key, got, want)
		}
	}
	check("a", "", 3)
	check("a", "x", 7)
	check("partner", "x", 50)
	check("blocked", "", 0)
	for _, key := range []string{"wrong", "panics"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Key", key)
		_, err := l.Check(r)
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", key, err)
		}
		if _, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: key}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("Take of %s: got %v, want ErrInvalid", key, err)
		}
	}
	d, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "partner"})
	if err != nil || d.Results[0].Limit.Rate != 50 || d.Results[0].Remaining != 48 {
		t.Errorf("Take of partner: %+v, %v; want 48 of 50 left", d.Results, err)
	}
	d, err = l.Take(t.Context(), core.Claim{Rule: "plan", Key: "partner", Limits: []core.Limit{core.PerHour(9)}})
	if err != nil || d.Results[0].Limit.Rate != 9 {
		t.Errorf("Take with limits of its own: %+v, %v", d.Results, err)
	}
	if _, err := l.Take(t.Context(), core.Claim{Rule: "plan", Key: "a"}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Take of a key without an override, of a rule with a Tier: got %v", err)
	}
	if err := l.Grant(t.Context(), "plan", "partner", 10); err != nil {
		t.Error(err)
	}
}
