package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

func TestLookupChargesNothing(t *testing.T) {
	s := newScene(t, false)
	s.ask("ann")
	for range 5 {
		status, answer := s.post(t, "lookup", url.Values{"rule": {"api"}, "key": {"user:ann"}})
		limits, _ := answer["limits"].([]any)
		expect.True(t, status == 200 && len(limits) == 1 && limits[0].(map[string]any)["remaining"] == 2.0 && limits[0].(map[string]any)["capacity"] == 3.0,
			"got %d, %v", status, answer)
	}
	for _, form := range []url.Values{{"rule": {"none"}, "key": {"user:ann"}}, {"rule": {"api"}}, {"rule": {"api"}, "id": {"none"}}, {}} {
		status, answer := s.post(t, "lookup", form)
		expect.True(t, status == 200 && answer["error"] != nil && answer["limits"] == nil, "%v: got %d, %v", form, status, answer)
	}
}

// A masked key can be looked up by the ID of its row, which does not reveal the key.
func TestLookupByID(t *testing.T) {
	s := newScene(t, false)
	s.ask("ann", "ann", "ann", "ann")
	id := s.event(t, "")["top"].([]any)[0].(map[string]any)["id"].(string)
	status, answer := s.post(t, "lookup", url.Values{"rule": {"api"}, "id": {id}})
	expect.True(t, status == 200 && answer["key"] == "" && answer["limits"].([]any)[0].(map[string]any)["remaining"] == 0.0,
		"got %d, %v", status, answer)
}

func TestResetNeedsAuthorization(t *testing.T) {
	form := url.Values{"rule": {"api"}, "key": {"user:ann"}, "duration": {"1m"}}
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
			for _, action := range []string{"ban", "reset"} {
				status, _ := s.post(t, action, form, c.fields...)
				expect.Equal(t, status, c.status, "%s: status", action)
			}
			_, answer := s.post(t, "lookup", form)
			want := map[int]float64{200: 3, 403: 0}[c.status]
			expect.Equal(t, answer["limits"].([]any)[0].(map[string]any)["remaining"], any(want), "remaining")
		})
	}
}

func TestBan(t *testing.T) {
	s := newScene(t, false, dashboard.WithReset(func(*http.Request) bool { return true }))
	form := url.Values{"rule": {"api"}, "key": {"user:ann"}, "duration": {"1h"}}
	status, answer := s.post(t, "ban", form)
	limit, _ := answer["limits"].([]any)[0].(map[string]any)
	expect.True(t, status == 200 && limit["remaining"] == 0.0 && limit["retryAfter"].(float64) >= 3_500_000, "got %d, %v", status, answer)
	if status, answer := s.post(t, "reset", form); status != 200 || answer["limits"].([]any)[0].(map[string]any)["remaining"] != 3.0 {
		t.Errorf("reset: got %d, %v", status, answer)
	}
	for _, duration := range []string{"", "x", "-1h", "0"} {
		form.Set("duration", duration)
		_, answer := s.post(t, "ban", form)
		expect.NotEqual(t, answer["error"], nil, "duration %q: %v", duration, answer)
	}
	readOnly := newScene(t, false)
	status, _ = readOnly.post(t, "ban", form)
	expect.Equal(t, status, 403, "read-only")
}

// A look-up has no request, so it shows the limits of the rule and says that a tier may have others.
func TestLookupOfATieredRule(t *testing.T) {
	s := sceneOf(t, telemetry.New(telemetry.Options{}), []core.Rule{{
		Name: "plan", Key: byUser, Limits: []core.Limit{core.PerDay(3)},
		Tier: func(*http.Request) []core.Limit { return []core.Limit{core.PerDay(100)} },
	}, {Name: "closed", Key: byUser, Limits: core.MustParseLimits("0/h"), Routes: []string{"/closed"}}})
	_, closed := s.post(t, "lookup", url.Values{"rule": {"closed"}, "key": {"user:ann"}})
	expect.Equal(t, closed["limits"].([]any)[0].(map[string]any)["retryAfter"], any(-1.0), "retryAfter of a limit that admits nothing")
	s.ask("ann")
	status, answer := s.post(t, "lookup", url.Values{"rule": {"plan"}, "key": {"user:ann"}})
	limits, _ := answer["limits"].([]any)
	expect.True(t, status == 200 && answer["tiered"] == true && len(limits) == 1 && limits[0].(map[string]any)["remaining"] == 2.0,
		"got %d, %v; want 2 of 3, and tiered", status, answer)
}

// A look-up shows the limits of the key's override, even if the rule has tiers. The page shows which keys have an override, and
// the grants.
func TestOverridesAndGrants(t *testing.T) {
	s := sceneOf(t, telemetry.New(telemetry.Options{}), []core.Rule{{
		Name: "plan", Key: byUser, Limits: []core.Limit{core.PerDay(3)},
		Tier: func(*http.Request) []core.Limit { return []core.Limit{core.PerDay(100)} },
		Override: func(key string) []core.Limit {
			if key == "user:partner" {
				return []core.Limit{core.PerMonth(1000)}
			}
			return nil
		},
	}, {Name: "other", Key: byUser, Limits: []core.Limit{core.PerDay(5)}}})
	if e := s.event(t, ""); e["own"] != nil || e["grants"] != nil {
		t.Errorf("before any: got %v, %v", e["own"], e["grants"])
	}
	s.ask("partner", "partner", "ann")
	for rule, n := range map[string]int{"plan": -30, "other": 50} {
		must.Do(t, s.limiter.Grant(t.Context(), rule, "user:partner", n))
	}
	e := s.event(t, "")
	own, _ := e["own"].([]any)
	must.Equal(t, len(own), 1, "%v", e["own"])
	row := own[0].(map[string]any)
	expect.True(t, row["rule"] == "plan" && row["limits"] == "1000/month" && row["count"] == 2.0 && row["last"].(float64) >= 1e12 && row["key"] != "user:partner",
		"got %v", row)
	expect.Equal(t, e["rules"].([]any)[0].(map[string]any)["own"], 2.0, "decisions of the rule by overrides")
	grants, _ := e["grants"].([]any)
	expect.Equal(t, len(grants), 2, "%v (two grants)", e["grants"])
	for rule, n := range map[string]float64{"plan": -30, "other": 50} {
		grants, _ := s.event(t, "?rule="+rule)["grants"].([]any)
		expect.True(t, len(grants) == 1 && grants[0].(map[string]any)["requests"] == n && grants[0].(map[string]any)["at"].(float64) >= 1e12,
			"rule %s: got %v", rule, grants)
	}
	for _, about := range []url.Values{{"rule": {"plan"}, "key": {"user:partner"}}, {"rule": {"plan"}, "id": {row["id"].(string)}}} {
		_, answer := s.post(t, "lookup", about)
		limits, _ := answer["limits"].([]any)
		expect.True(t, answer["own"] == true && answer["tiered"] == nil && len(limits) == 1 && limits[0].(map[string]any)["remaining"] == 968.0 && limits[0].(map[string]any)["capacity"] == 970.0,
			"%v: got %v, want 968 of 970 of its own: 30 are taken away", about, answer)
	}
	_, answer := s.post(t, "lookup", url.Values{"rule": {"plan"}, "key": {"user:ann"}})
	expect.True(t, answer["own"] == nil && answer["tiered"] == true, "of a key without an override: got %v", answer)
}

// A down store answers nothing.
type down struct{ core.Store }

func (down) Take(context.Context, []core.Claim, []core.Result) ([]core.Result, error) {
	return nil, errors.New("connection lost")
}

func TestStoreThatDoesNotAnswer(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	tel.FileLoaded("spillgate.yaml", "", errors.New("no rules"))
	s := sceneOf(t, tel, []core.Rule{core.PerDay(3).By(byUser)})
	s.limiter = core.Must(core.New([]core.Rule{{Name: "open", Key: byUser, Limits: []core.Limit{core.PerDay(3)}, OnFailure: core.FailOpen}},
		core.WithStore(down{new(core.MemoryStore)}), core.WithObserver(tel.Observe), core.WithLogger(slog.New(slog.DiscardHandler))))
	tel.Attach(s.limiter)
	s.ask(slices.Repeat([]string{"ann"}, 21)...)
	e := s.event(t, "")
	expect.True(t, e["degraded"] == 21.0 && e["store"].(map[string]any)["since"].(float64) >= 1e12 && e["file"].(map[string]any)["loaded"] == nil,
		"got %v degraded, store %v, file %v", e["degraded"], e["store"], e["file"])
	_, answer := s.post(t, "lookup", url.Values{"rule": {"open"}, "key": {"user:ann"}})
	expect.Contains(t, fmt.Sprint(answer["error"]), "the store does not answer", "%v", answer)
}

// A slowReader is a connection whose client stops reading after some writes. From then on, a write blocks until its deadline.
type slowReader struct {
	httptest.ResponseRecorder
	reads    int
	deadline time.Time
	ends     []time.Time // the deadlines so far
}

func (w *slowReader) SetWriteDeadline(t time.Time) error {
	w.deadline, w.ends = t, append(w.ends, t)
	return nil
}

func (w *slowReader) Write(b []byte) (int, error) {
	if w.reads--; w.reads < 0 {
		time.Sleep(time.Until(w.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

func (w *slowReader) FlushError() error {
	if w.reads < 0 {
		return errors.New("the connection is broken")
	}
	return nil
}

// A client that stops reading keeps its stream for 10 seconds at most. The deadline moves with each event.
func TestSlowReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
		begun := time.Now()
		w := &slowReader{reads: 3}
		page.ServeHTTP(w, httptest.NewRequest("GET", "/events", nil))
		expect.Equal(t, time.Since(begun), 13*time.Second, "end of the stream (three seconds and the deadline of ten)")
		for i, end := range w.ends {
			expect.Equal(t, end.Sub(begun), time.Duration(10+i)*time.Second, "event %d has the deadline", i)
		}
	})
}

// Any bytes are a valid key. They can be looked up, reset and banned, and they neither reach a header nor break the response.
func TestOddKeys(t *testing.T) {
	s := newScene(t, false, dashboard.WithReset(func(*http.Request) bool { return true }))
	for _, key := range []string{"\x00", "\xff\xfe", "a\r\nSet-Cookie: b", " ", "💧", "</script>", "{}", strings.Repeat("k", 60_000)} {
		for _, action := range []string{"lookup", "reset", "ban"} {
			status, answer := s.post(t, action, url.Values{"rule": {"api"}, "key": {key}, "duration": {"1m"}})
			expect.True(t, status == 200 && answer["error"] == nil && len(answer["limits"].([]any)) == 1,
				"%s of %.20q: got %d, %v", action, key, status, answer["error"])
		}
	}
	status, _ := s.post(t, "lookup", url.Values{"rule": {"api"}, "key": {strings.Repeat("k", 70_000)}})
	expect.Equal(t, status, 400, "a form of 70 KB")
	for _, duration := range []string{"99999999h", "1", "1e9s", "NaN"} {
		_, answer := s.post(t, "ban", url.Values{"rule": {"api"}, "key": {"k"}, "duration": {duration}})
		expect.NotEqual(t, answer["error"], nil, "a ban for %s: %v", duration, answer)
	}
}
