package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

// A look-up shows the limits of the key's override, even if the rule has tiers. The page shows which keys have an override, and
// the grants.
func TestOverridesAndGrants(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	l := core.Must(core.New([]core.Rule{{
		Name: "plan", Key: byUser, Limits: []core.Limit{core.PerDay(3)},
		Tier: func(*http.Request) []core.Limit { return []core.Limit{core.PerDay(100)} },
		Override: func(key string) []core.Limit {
			if key == "user:partner" {
				return []core.Limit{core.PerMonth(1000)}
			}
			return nil
		},
	}, {Name: "other", Key: byUser, Limits: []core.Limit{core.PerDay(5)}}}, core.WithObserver(tel.Observe)))
	tel.Attach(l)
	s := &scene{httptest.NewServer(dashboard.New(tel)), l}
	t.Cleanup(s.Close)
	if e := s.event(t, ""); e["own"] != nil || e["grants"] != nil {
		t.Errorf("before any: got %v, %v", e["own"], e["grants"])
	}
	s.ask("partner", "partner", "ann")
	for rule, n := range map[string]int{"plan": -30, "other": 50} {
		must.Do(t, l.Grant(t.Context(), rule, "user:partner", n))
	}
	e := s.event(t, "")
	own, _ := e["own"].([]any)
	if len(own) != 1 {
		t.Fatalf("got %v", e["own"])
	}
	row := own[0].(map[string]any)
	if row["rule"] != "plan" || row["limits"] != "1000/month" || row["count"] != 2.0 || row["last"].(float64) < 1e12 || row["key"] == "user:partner" {
		t.Errorf("got %v", row)
	}
	if plan := e["rules"].([]any)[0].(map[string]any); plan["own"] != 2.0 {
		t.Errorf("got %v decisions of the rule by overrides, want 2", plan["own"])
	}
	if grants, _ := e["grants"].([]any); len(grants) != 2 {
		t.Errorf("got %v, want two grants", e["grants"])
	}
	for rule, n := range map[string]float64{"plan": -30, "other": 50} {
		grants, _ := s.event(t, "?rule="+rule)["grants"].([]any)
		if len(grants) != 1 || grants[0].(map[string]any)["requests"] != n || grants[0].(map[string]any)["at"].(float64) < 1e12 {
			t.Errorf("rule %s: got %v", rule, grants)
		}
	}
	for _, about := range []url.Values{{"rule": {"plan"}, "key": {"user:partner"}}, {"rule": {"plan"}, "id": {row["id"].(string)}}} {
		_, answer := s.post(t, "lookup", about)
		limits, _ := answer["limits"].([]any)
		if answer["own"] != true || answer["tiered"] != nil || len(limits) != 1 || limits[0].(map[string]any)["remaining"] != 968.0 {
			t.Errorf("%v: got %v, want 968 of 1000 of its own", about, answer)
		}
	}
	if _, answer := s.post(t, "lookup", url.Values{"rule": {"plan"}, "key": {"user:ann"}}); answer["own"] != nil || answer["tiered"] != true {
		t.Errorf("of a key without an override: got %v", answer)
	}
}
