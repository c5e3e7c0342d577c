package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/telemetry"
)

func TestLookupChargesNothing(t *testing.T) {
	s := newScene(t, false)
	s.ask("ann")
	for range 5 {
		status, answer := s.post(t, "lookup", url.Values{"rule": {"api"}, "key": {"user:ann"}})
		limits, _ := answer["limits"].([]any)
		if status != 200 || len(limits) != 1 || limits[0].(map[string]any)["remaining"] != 2.0 || limits[0].(map[string]any)["capacity"] != 3.0 {
			t.Errorf("got %d, %v", status, answer)
		}
	}
	for _, form := range []url.Values{{"rule": {"none"}, "key": {"user:ann"}}, {"rule": {"api"}}, {"rule": {"api"}, "id": {"none"}}, {}} {
		if status, answer := s.post(t, "lookup", form); status != 200 || answer["error"] == nil || answer["limits"] != nil {
			t.Errorf("%v: got %d, %v", form, status, answer)
		}
	}
}

// A masked key can be looked up by the ID of its row, which does not reveal the key.
func TestLookupByID(t *testing.T) {
	s := newScene(t, false)
	s.ask("ann", "ann", "ann", "ann")
	id := s.event(t, "")["top"].([]any)[0].(map[string]any)["id"].(string)
	status, answer := s.post(t, "lookup", url.Values{"rule": {"api"}, "id": {id}})
	if status != 200 || answer["key"] != "" || answer["limits"].([]any)[0].(map[string]any)["remaining"] != 0.0 {
		t.Errorf("got %d, %v", status, answer)
	}
}

func TestResetNeedsAuthorization(t *testing.T) {
	form := url.Values{"rule": {"api"}, "key": {"user:ann"}}
	allowed := func(*http.Request) bool { return true }
	admin := func(r *http.Request) bool { return r.Header.Get("Admin") == "yes" }
	for _, c := range []struct {
		why    string
		opts   []dashboard.Option
		fields []string
		status int
	}{
		{"read-only", nil, nil, 403},
		{"not authorized", []dashboard.Option{dashboard.WithReset(admin)}, nil, 403},
		{"authorized", []dashboard.Option{dashboard.WithReset(admin)}, []string{"Admin", "yes"}, 200},
		{"another site", []dashboard.Option{dashboard.WithReset(allowed)}, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another origin", []dashboard.Option{dashboard.WithReset(allowed)}, []string{"Origin", "https://evil.example"}, 403},
		{"the same origin", []dashboard.Option{dashboard.WithReset(allowed)}, []string{"Sec-Fetch-Site", "same-origin"}, 200},
	} {
		t.Run(c.why, func(t *testing.T) {
			s := newScene(t, false, c.opts...)
			s.ask("ann", "ann", "ann")
			status, _ := s.post(t, "reset", form, c.fields...)
			if status != c.status {
				t.Errorf("got %d, want %d", status, c.status)
			}
			_, answer := s.post(t, "lookup", form)
			want := map[int]float64{200: 3, 403: 0}[c.status]
			if got := answer["limits"].([]any)[0].(map[string]any)["remaining"]; got != want {
				t.Errorf("remaining: got %v, want %v", got, want)
			}
		})
	}
}

func TestBan(t *testing.T) {
	s := newScene(t, false, dashboard.WithReset(func(*http.Request) bool { return true }))
	form := url.Values{"rule": {"api"}, "key": {"user:ann"}, "duration": {"1h"}}
	status, answer := s.post(t, "ban", form)
	limit, _ := answer["limits"].([]any)[0].(map[string]any)
	if status != 200 || limit["remaining"] != 0.0 || limit["retryAfter"].(float64) < 3_500_000 {
		t.Errorf("got %d, %v", status, answer)
	}
	if status, answer := s.post(t, "reset", form); status != 200 || answer["limits"].([]any)[0].(map[string]any)["remaining"] != 3.0 {
		t.Errorf("reset: got %d, %v", status, answer)
	}
	for _, duration := range []string{"", "x", "-1h", "0"} {
		form.Set("duration", duration)
		if _, answer := s.post(t, "ban", form); answer["error"] == nil {
			t.Errorf("duration %q: got %v", duration, answer)
		}
	}
	readOnly := newScene(t, false)
	if status, _ := readOnly.post(t, "ban", form); status != 403 {
		t.Errorf("read-only: got %d", status)
	}
}

// A look-up has no request, so it shows the limits of the rule and says that a tier may have others.
func TestLookupOfATieredRule(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	l := core.Must(core.New([]core.Rule{{
		Name: "plan", Key: byUser, Limits: []core.Limit{core.PerDay(3)},
		Tier: func(*http.Request) []core.Limit { return []core.Limit{core.PerDay(100)} },
	}}, core.WithObserver(tel.Observe)))
	tel.Attach(l)
	s := &scene{httptest.NewServer(dashboard.New(tel)), l}
	t.Cleanup(s.Close)
	s.ask("ann")
	status, answer := s.post(t, "lookup", url.Values{"rule": {"plan"}, "key": {"user:ann"}})
	limits, _ := answer["limits"].([]any)
	if status != 200 || answer["tiered"] != true || len(limits) != 1 || limits[0].(map[string]any)["remaining"] != 2.0 {
		t.Errorf("got %d, %v; want 2 of 3, and tiered", status, answer)
	}
}
