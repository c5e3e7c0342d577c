package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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

func TestEventHasTheCounts(t *testing.T) {
	s := newScene(t, false)
	s.ask("ann", "ann", "ann", "ann", "ann", "bob", "")
	e := s.event(t, "")
	requests := e["requests"].(map[string]any)
	expect.True(t, requests["allowed"] == 4.0 && requests["denied"] == 2.0 && requests["no_key"] == 1.0, "got requests %v", requests)
	rules := e["rules"].([]any)
	must.Equal(t, len(rules), 2, "rules %v", rules)
	api := rules[0].(map[string]any)
	limit := api["limits"].([]any)[0].(map[string]any)
	expect.True(t, api["name"] == "api" && api["onFailure"] == "closed" && limit["limit"] == "3/1d" && limit["results"].(map[string]any)["denied"] == 2.0,
		"got rule %v", api)
	trial := rules[1].(map[string]any)
	expect.Equal(t, trial["dryRun"], true, "rule %v", trial)
	if top := e["top"].([]any); len(top) != 1 || top[0].(map[string]any)["count"] != 2.0 || strings.Contains(top[0].(map[string]any)["key"].(string), "ann") {
		t.Errorf("got top %v", top)
	}
	sums := e["history"].([]any)
	expect.True(t, sum(sums[0])+sum(sums[2]) == 4 && sum(sums[1]) == 2, "got history %v", sums)
	expect.True(t, e["file"].(map[string]any)["hash"] == "abcdef" && e["reset"] == false && e["store"].(map[string]any)["since"] == nil, "got file %v, reset %v", e["file"], e["reset"])
	if one := s.event(t, "?rule=trial")["history"].([]any); sum(one[0]) != 2 || sum(one[1]) != 0 || sum(one[2]) != 2 { // the rule api denied two of four
		t.Errorf("rule trial: got history %v", one)
	}
	none := s.event(t, "?rule=none")
	expect.True(t, none["top"] == nil || len(none["top"].([]any)) == 0, "rule none: got top %v", none["top"])
}

// A bubble panics at its end if a goroutine is left in it.
func TestPageHasNoGoroutineWithoutAViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := dashboard.New(telemetry.New(telemetry.Options{}))
		for _, path := range []string{"/", "/events"} {
			ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
			r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+path, nil)
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			leave()
			expect.True(t, w.Code == 200 && w.Body.Len() != 0, "%s: got %d, %s", path, w.Code, w.Body)
		}
	})
}

func sum(list any) (n float64) {
	for _, v := range list.([]any) {
		n += v.(float64)
	}
	return n
}

// A slowWriter returns from Write after the client has got the bytes, and a server has begun to shut down.
type slowWriter struct {
	http.ResponseWriter
	begun <-chan struct{}
	ctx   context.Context
}

func (w slowWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	select {
	case <-w.begun:
	case <-w.ctx.Done():
	}
	return n, err
}

func TestStreamEndsAtShutdown(t *testing.T) {
	for _, late := range []bool{false, true} { // late: a slow authentication passes the request on after Shutdown has begun
		s := newScene(t, false)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		page, begun, ended := s.Config.Handler, make(chan struct{}), make(chan error, 1)
		s.Config.RegisterOnShutdown(func() { close(begun) })
		shutdown := func() { ended <- s.Config.Shutdown(ctx) }
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case late && r.URL.Path == "/events":
				go shutdown()
				<-begun
			case late:
				w = slowWriter{w, begun, ctx}
			}
			page.ServeHTTP(w, r)
		})
		must.Get(s.Client().Get(s.URL))(t).Body.Close()
		resp := must.Get(s.Client().Get(s.URL + "/events"))(t)
		if !late {
			go shutdown()
		}
		expect.NoError(t, <-ended, "late %v: Shutdown", late)
		resp.Body.Close()
	}
}

func TestViewersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
		for range 2 { // the second time, the first viewers have left
			ctx, leave := context.WithCancel(t.Context())
			views := make([]*httptest.ResponseRecorder, 250)
			for i := range views {
				views[i] = httptest.NewRecorder()
				go page.ServeHTTP(views[i], httptest.NewRequestWithContext(ctx, "GET", "/events", nil))
			}
			synctest.Wait()
			leave()
			synctest.Wait()
			statuses := make(map[int]int)
			for _, w := range views {
				statuses[w.Code]++
			}
			expect.True(t, statuses[200] == 100 && statuses[503] == 150, "got %v", statuses)
		}
	})
}

// TestEventsAreForThePage checks that other websites get no stream, and that their requests do not use up the streams of operators.
func TestEventsAreForThePage(t *testing.T) {
	s := newScene(t, false)
	ask := func(field, value string) int {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel) // the stream stays open until then
		r := must.Get(http.NewRequestWithContext(ctx, "GET", s.URL+"/events", nil))(t)
		if field != "" {
			r.Header.Set(field, value)
		}
		return must.Get(s.Client().Do(r))(t).StatusCode
	}
	for range 101 {
		must.Equal(t, ask("Sec-Fetch-Site", "cross-site"), 403, "another website")
	}
	for _, row := range []struct {
		field, value string
		want         int
	}{
		{"Sec-Fetch-Site", "same-site", 403},
		{"Origin", "https://evil.example", 403},
		{"Sec-Fetch-Site", "same-origin", 200},
		{"Sec-Fetch-Site", "none", 200},
		{"Origin", s.URL, 200},
		{"", "", 200},
	} {
		expect.Equal(t, ask(row.field, row.value), row.want, "%s %q", row.field, row.value)
	}
}

// The page shows the active limits before any request has been counted, and then also other limits that have counts.
func TestActiveLimitsComeFirst(t *testing.T) {
	s := newScene(t, false)
	s.ask("ann")
	changed := s.limiter.Rules()
	changed[0].Limits = []core.Limit{core.PerDay(7)}
	must.Do(t, s.limiter.SetRules(changed))
	limits := s.event(t, "")["rules"].([]any)[0].(map[string]any)["limits"].([]any)
	must.Equal(t, len(limits), 2, "%v", limits)
	must.Do(t, s.limiter.SetRules(changed[:1]))
	removed := s.event(t, "")["rules"].([]any)[1].(map[string]any)
	expect.True(t, removed["name"] == "trial" && removed["onFailure"] == nil && removed["limits"].([]any)[0].(map[string]any)["other"] == nil, "got %v of a rule that was removed", removed)
	now, before := limits[0].(map[string]any), limits[1].(map[string]any)
	expect.True(t, now["limit"] == "7/1d" && now["other"] == nil && before["limit"] == "3/1d" &&
		before["other"] == true && before["results"].(map[string]any)["allowed"] == 1.0,
		"got %v", limits)
}

// A second limiter has a rule of the same name with another limit, and enforces it.
func TestLimitsOfAllLimitersAreActive(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	trial := core.PerDay(3).By(byUser)
	trial.DryRun = true
	s := sceneOf(t, tel, []core.Rule{trial})
	tel.Attach(core.Must(core.New([]core.Rule{{Key: byUser, Limits: core.MustParseLimits("3/d, 5/h")}})))
	rule := s.event(t, "")["rules"].([]any)[0].(map[string]any)
	limits := rule["limits"].([]any)
	must.Equal(t, len(limits), 2, "%v", limits)
	last := limits[1].(map[string]any)
	expect.True(t, last["limit"] == "5/1h" && last["other"] == nil && rule["dryRun"] == nil, "got %v", rule)
}

// Keys that look alike are next to each other, and many of them do not displace a key that is denied less often.
func TestKeysThatLookAlikeDoNotCrowdOutOthers(t *testing.T) {
	s := sceneOf(t, telemetry.New(telemetry.Options{}), []core.Rule{
		{Name: "a", Key: byUser, Limits: []core.Limit{core.PerDay(1)}}, {Name: "b", Key: byUser, Limits: []core.Limit{core.PerDay(1)}},
	})
	take := func(n int, rule, key string) {
		for range n + 1 {
			_, _ = s.limiter.Take(t.Context(), core.Claim{Rule: rule, Key: key})
		}
	}
	for i := range 19 {
		take(6, "a", fmt.Sprintf("ip:203.0.113.%d", i))
		take(7, "b", fmt.Sprintf("ip:10.0.%d.1", i))
	}
	take(6, "a", "ip:198.51.100.1")
	take(100, "b", "ip:203.0.113.0")
	var shown []string
	counts := make(map[string]float64)
	for _, k := range s.event(t, "")["top"].([]any) {
		row := k.(map[string]any)
		text := row["key"].(string)
		if len(shown) == 0 || shown[len(shown)-1] != text {
			shown = append(shown, text)
		}
		counts[text] += row["count"].(float64)
	}
	expect.True(t, len(shown) == 20 && shown[0] == "ip:203.0.113.0/24" && counts[shown[0]] == 100+19*6 &&
		shown[1] == "ip:10.0.0.0/24" && !slices.Contains(shown, "ip:198.51.100.0/24"),
		"got %q with %v, want 20 groups and the largest first", shown, counts)
}

// The keys of the last of many rules are shown if only that rule denied any, or had overrides.
func TestKeysOfTheLastRuleAreShown(t *testing.T) {
	rules := make([]core.Rule, 60)
	for i := range rules {
		rules[i] = core.Rule{Name: fmt.Sprint("rule", i), Key: byUser, Limits: []core.Limit{core.PerDay(9)}}
	}
	rules[59].Override = func(string) []core.Limit { return []core.Limit{core.PerDay(1)} }
	s := sceneOf(t, telemetry.New(telemetry.Options{}), rules)
	s.ask("ann", "ann")
	e := s.event(t, "")
	top, _ := e["top"].([]any)
	own, _ := e["own"].([]any)
	expect.True(t, len(top) == 1 && len(own) == 1, "got top %v, overrides %v", top, own)
}
