package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/telemetry"
)

// A scene is a limiter of three requests per day and user, whose counts a page shows.
type scene struct {
	*httptest.Server
	limiter *core.Limiter
}

func byUser(r *http.Request) (string, error) {
	if u := r.Header.Get("User"); u != "" {
		return "user:" + u, nil
	}
	return "", core.ErrNoKey
}

func newScene(t *testing.T, unmask bool, opts ...dashboard.Option) *scene {
	t.Helper()
	tel := telemetry.New(telemetry.Options{Unmask: unmask})
	l := core.Must(core.New([]core.Rule{
		{Name: "api", Key: byUser, Limits: []core.Limit{core.PerDay(3)}, OnFailure: core.FailClosed, Routes: []string{"/"}},
		{Name: "trial", Key: byUser, Limits: []core.Limit{core.PerDay(1)}, DryRun: true},
	}, core.WithObserver(tel.Observe)))
	tel.Attach(l)
	tel.FileLoaded("spillgate.yaml", "abcdef", nil)
	s := &scene{httptest.NewServer(dashboard.New(tel, opts...)), l}
	s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(s.Close)
	return s
}

func (s *scene) ask(users ...string) {
	for _, u := range users {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("User", u)
		_, _ = s.limiter.Check(r)
	}
}

// event returns the first event of a stream.
func (s *scene) event(t *testing.T, query string) (e map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/events"+query, nil)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got %s", got)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// post sends a form and returns the status and the answer.
func (s *scene) post(t *testing.T, action string, form url.Values, fields ...string) (int, map[string]any) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/"+action, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer
}

func TestFiles(t *testing.T) {
	s := newScene(t, false)
	for path, kind := range map[string]string{"/": "text/html", "/style.css": "text/css", "/app.js": "text/javascript",
		"/chart.js": "text/javascript", "/icon.svg": "image/svg+xml", "/any/prefix/": "text/html", "/any/prefix/app.js": "text/javascript"} {
		for _, method := range []string{"GET", "HEAD"} {
			r, _ := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
			resp, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) {
				t.Errorf("%s %s: got %d, %s", method, path, resp.StatusCode, resp.Header.Get("Content-Type"))
			}
			const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
			if got := resp.Header.Get("Content-Security-Policy"); got != policy {
				t.Errorf("%s: got the policy %q", path, got)
			}
		}
	}
}

func TestFilesAreSmall(t *testing.T) {
	size := 0
	err := filepath.WalkDir("static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		size += len(text)
		return err
	})
	if err != nil || size == 0 || size > 60_000 {
		t.Errorf("got %d bytes, %v, want 60 KB at most", size, err)
	}
}

func TestPathWithoutSlashRedirects(t *testing.T) {
	page := dashboard.New(telemetry.New(telemetry.Options{}))
	mux := http.NewServeMux()
	mux.Handle("/whole", page)
	mux.Handle("/stripped", http.StripPrefix("/stripped", page))
	mux.Handle("/stripped/", http.StripPrefix("/stripped/", page))
	for path, want := range map[string]string{"/whole": "./whole/", "/stripped": "./stripped/", "/stripped/": ""} {
		r := httptest.NewRequest("GET", path, nil)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != want || (w.Code == 307) != (want != "") {
			t.Errorf("%s: got %d, %q, want %q", path, w.Code, got, want)
		}
	}
	for _, target := range []string{"//evil.example", "/%2f%2fevil.example", "/\\evil.example", "/a:b"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RequestURI = target
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != "" && !strings.HasPrefix(got, "./") {
			t.Errorf("%s: redirects to %q", target, got)
		}
	}
}

func TestMethods(t *testing.T) {
	s := newScene(t, false)
	for _, c := range [][2]string{{"POST", "/"}, {"DELETE", "/app.js"}, {"POST", "/events"}, {"GET", "/lookup"}, {"GET", "/reset"}, {"GET", "/ban"}, {"POST", "/none"}} {
		r, _ := http.NewRequestWithContext(t.Context(), c[0], s.URL+c[1], nil)
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 405 || resp.Header.Get("Allow") == "" {
			t.Errorf("%s: got %d", c, resp.StatusCode)
		}
	}
}

func TestEventHasWhatWasDriven(t *testing.T) {
	s := newScene(t, false)
	s.ask("ann", "ann", "ann", "ann", "ann", "bob", "")
	e := s.event(t, "")
	requests := e["requests"].(map[string]any)
	if requests["allowed"] != 4.0 || requests["denied"] != 2.0 || requests["no_key"] != 1.0 {
		t.Errorf("got requests %v", requests)
	}
	rules := e["rules"].([]any)
	if len(rules) != 2 {
		t.Fatalf("got rules %v", rules)
	}
	api := rules[0].(map[string]any)
	limit := api["limits"].([]any)[0].(map[string]any)
	if api["name"] != "api" || api["onFailure"] != "closed" || limit["limit"] != "3/1d" || limit["results"].(map[string]any)["denied"] != 2.0 {
		t.Errorf("got rule %v", api)
	}
	if trial := rules[1].(map[string]any); trial["dryRun"] != true {
		t.Errorf("got rule %v", trial)
	}
	if top := e["top"].([]any); len(top) != 1 || top[0].(map[string]any)["count"] != 2.0 || strings.Contains(top[0].(map[string]any)["key"].(string), "ann") {
		t.Errorf("got top %v", top)
	}
	if sums := e["history"].([]any); sum(sums[0])+sum(sums[2]) != 4 || sum(sums[1]) != 2 {
		t.Errorf("got history %v", sums)
	}
	if e["file"].(map[string]any)["hash"] != "abcdef" || e["reset"] != false {
		t.Errorf("got file %v, reset %v", e["file"], e["reset"])
	}
	if one := s.event(t, "?rule=trial")["history"].([]any); sum(one[0]) != 2 || sum(one[2]) != 4 {
		t.Errorf("rule trial: got history %v", one)
	}
	if none := s.event(t, "?rule=none"); none["top"] != nil && len(none["top"].([]any)) != 0 {
		t.Errorf("rule none: got top %v", none["top"])
	}
}

func sum(list any) (n float64) {
	for _, v := range list.([]any) {
		n += v.(float64)
	}
	return n
}

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

// A row of a masked key can be looked up by its ID, which does not reveal the key.
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

func TestStreamEndsAtShutdown(t *testing.T) {
	s := newScene(t, false)
	resp, err := s.Client().Get(s.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.Config.Shutdown(ctx); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestViewersAreBounded(t *testing.T) {
	s := newScene(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	statuses := make(map[int]int)
	for range 101 {
		r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/events", nil)
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		statuses[resp.StatusCode]++
	}
	if statuses[200] != 100 || statuses[503] != 1 {
		t.Errorf("got %v", statuses)
	}
}

func TestConstructorsPanicOnNil(t *testing.T) {
	for name, construct := range map[string]func(){
		"New":       func() { dashboard.New(nil) },
		"WithReset": func() { dashboard.WithReset(nil) },
	} {
		func() {
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, core.ErrInvalid) {
					t.Errorf("%s: got %v", name, err)
				}
			}()
			construct()
			t.Errorf("%s did not panic", name)
		}()
	}
}
