package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/must"
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
	resp := must.Get(s.Client().Do(r))(t)
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got %s", got)
	}
	line := must.Get(bufio.NewReader(resp.Body).ReadString('\n'))(t)
	must.Do(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &e))
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
	resp := must.Get(s.Client().Do(r))(t)
	defer resp.Body.Close()
	var answer map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer
}

func TestFiles(t *testing.T) {
	s := newScene(t, false)
	for path, kind := range map[string]string{"/": "text/html", "/style.css": "text/css", "/app.js": "text/javascript", "/lookup.js": "text/javascript",
		"/chart.js": "text/javascript", "/icon.svg": "image/svg+xml", "/any/prefix/": "text/html", "/any/prefix/app.js": "text/javascript"} {
		for _, method := range []string{"GET", "HEAD"} {
			r, _ := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
			resp := must.Get(s.Client().Do(r))(t)
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

func TestPageLoadsAllFiles(t *testing.T) {
	s := newScene(t, false)
	resp := must.Get(s.Client().Get(s.URL))(t)
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	for _, file := range []string{"style.css", "chart.js", "app.js", "lookup.js", "icon.svg"} {
		if !strings.Contains(string(page), `="`+file+`"`) {
			t.Errorf("the page does not load %s", file)
		}
	}
}

func TestFilesAreSmall(t *testing.T) {
	s := newScene(t, false)
	size := 0
	for _, path := range []string{"/", "/style.css", "/app.js", "/lookup.js", "/chart.js", "/icon.svg"} {
		resp := must.Get(s.Client().Get(s.URL + path))(t)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(text) == 0 {
			t.Errorf("%s: got %d bytes, %v", path, len(text), err)
		}
		size += len(text)
	}
	if size > 60_000 {
		t.Errorf("got %d bytes, want 60 KB at most", size)
	}
}

func TestMethods(t *testing.T) {
	s := newScene(t, false)
	for _, c := range [][2]string{{"POST", "/"}, {"DELETE", "/app.js"}, {"POST", "/events"}, {"GET", "/lookup"}, {"GET", "/reset"}, {"GET", "/ban"}, {"POST", "/none"}} {
		r, _ := http.NewRequestWithContext(t.Context(), c[0], s.URL+c[1], nil)
		resp := must.Get(s.Client().Do(r))(t)
		resp.Body.Close()
		if resp.StatusCode != 405 || resp.Header.Get("Allow") == "" {
			t.Errorf("%s: got %d", c, resp.StatusCode)
		}
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
