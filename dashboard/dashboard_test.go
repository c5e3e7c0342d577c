package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/expect"
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
	tel.FileLoaded("spillgate.yaml", "abcdef", nil)
	return sceneOf(t, tel, []core.Rule{
		{Name: "api", Key: byUser, Limits: []core.Limit{core.PerDay(3)}, OnFailure: core.FailClosed, Routes: []string{"/"}},
		{Name: "trial", Key: byUser, Limits: []core.Limit{core.PerDay(1)}, DryRun: true},
	}, opts...)
}

func sceneOf(t *testing.T, tel *telemetry.Telemetry, rules []core.Rule, opts ...dashboard.Option) *scene {
	t.Helper()
	l := core.Must(core.New(rules, core.WithObserver(tel.Observe)))
	tel.Attach(l)
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

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

func (s *scene) event(t *testing.T, query string) (e map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/events"+query, nil)
	resp := must.Get(s.Client().Do(r))(t)
	defer resp.Body.Close()
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		expect.Equal(t, resp.Header.Get(name), want, "%s", name)
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
	expect.Equal(t, resp.StatusCode == 200, resp.Header.Get("Cache-Control") == "no-store", "%s: the status %d and whether no cache keeps it", action, resp.StatusCode)
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
			expect.True(t, resp.StatusCode == 200 && strings.HasPrefix(resp.Header.Get("Content-Type"), kind),
				"%s %s: got %d, %s", method, path, resp.StatusCode, resp.Header.Get("Content-Type"))
			const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
			expect.Equal(t, resp.Header.Get("Content-Security-Policy"), policy, "%s: got the policy", path)
			expect.True(t, resp.Header.Get("Cache-Control") == "no-cache" && resp.Header.Get("Referrer-Policy") == "no-referrer", "%s: got %v", path, resp.Header)
		}
	}
}

func TestPageLoadsAllFiles(t *testing.T) {
	page := get(dashboard.New(telemetry.New(telemetry.Options{}), ofTests), "/").Body.String()
	for _, file := range []string{"style.css", "chart.js", "app.js", "lookup.js", "icon.svg"} {
		expect.Contains(t, page, `="`+file+`"`, "the page does not load %s", file)
	}
}

func TestFilesAreSmall(t *testing.T) {
	page, size := dashboard.New(telemetry.New(telemetry.Options{}), ofTests), 0
	for _, path := range []string{"/", "/style.css", "/app.js", "/lookup.js", "/chart.js", "/icon.svg"} {
		n := get(page, path).Body.Len()
		expect.NotEqual(t, n, 0, "bytes of %s", path)
		size += n
	}
	expect.AtMost(t, size, 60_000, "bytes")
}

func TestMethods(t *testing.T) {
	s := newScene(t, false)
	for _, c := range [][2]string{{"POST", "/"}, {"DELETE", "/app.js"}, {"POST", "/events"}, {"HEAD", "/events"}, {"GET", "/lookup"}, {"GET", "/reset"}, {"GET", "/ban"}, {"POST", "/none"}} {
		r, _ := http.NewRequestWithContext(t.Context(), c[0], s.URL+c[1], nil)
		resp := must.Get(s.Client().Do(r))(t)
		resp.Body.Close()
		expect.True(t, resp.StatusCode == 405 && resp.Header.Get("Allow") != "", "%s: got %d", c, resp.StatusCode)
	}
}

func TestConstructorsPanicOnNil(t *testing.T) {
	for name, construct := range map[string]func(){"New": func() { dashboard.New(nil) }, "WithReset": func() { dashboard.WithReset(nil) }} {
		expect.ErrorIs(t, expect.PanicOf(construct), core.ErrInvalid, "the panic of %s", name)
	}
}

// ofTests allows the Host of httptest.NewRequest.
var ofTests = dashboard.WithHosts("example.com")

func TestHosts(t *testing.T) {
	local := []string{"localhost", "localhost:9090", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.1:80", "127.8.9.1", "127.0.0.1.", "[::1]", "[::1]:9090", "[::ffff:127.0.0.1]"}
	given := []string{"admin.example.com", "admin.example.com:8443", "Admin.Example.COM.", "10.0.0.5:9090", "[2001:db8::1]:443", "[2001:DB8:0::1]", "xn--bcher-kva.example", "v6.example"}
	other := []string{"", "evil.example", "evil.example:9090", "localhost.evil.example", "evil.localhost", "127.0.0.1.evil.example", "sub.admin.example.com",
		"example.com", "admin.example.com.evil.example", "10.0.0.6", "0.0.0.0", "[::]", "[2001:db8::2]", "localhost:evil", "localhost@evil.example", "evil.example#localhost", ":9090", "localhost.."}
	options := []dashboard.Option{
		dashboard.WithHosts("admin.example.com", "10.0.0.5"), dashboard.WithHosts("2001:db8::1", "XN--bcher-kva.example."), dashboard.WithHosts(), dashboard.WithHosts("v6.example"),
	}
	for _, c := range []struct {
		options []dashboard.Option
		hosts   []string
		allowed bool
	}{
		{nil, local, true}, {nil, given, false}, {nil, other, false},
		{options, local, true}, {options, given, true}, {options, other, false},
	} {
		page := dashboard.New(telemetry.New(telemetry.Options{}), c.options...)
		for _, host := range c.hosts {
			r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
			r.Host = host
			page.ServeHTTP(w, r)
			if allowed := w.Code == 200; allowed != c.allowed || !allowed && w.Code != 403 {
				t.Errorf("%d options, Host %q: got %d, allowed is %v", len(c.options), host, w.Code, c.allowed)
			}
		}
	}
}

// A website whose name resolves to the page's address gets nothing, and the response says what to do about it.
func TestNothingIsServedUnderAnotherHost(t *testing.T) {
	s := newScene(t, false, dashboard.WithReset(func(*http.Request) bool { return true }))
	s.ask("ann", "ann", "ann")
	form := url.Values{"rule": {"api"}, "key": {"user:ann"}, "duration": {"1h"}}
	for _, path := range []string{"", "/app.js", "/events", "/lookup", "/reset", "/ban", "/none", "/any/prefix"} {
		for _, method := range []string{"GET", "POST"} {
			r, _ := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("X-Forwarded-Host", "localhost")
			r.Host = "evil.example"
			resp := must.Get(s.Client().Do(r))(t)
			text := make([]byte, 1000)
			n, _ := resp.Body.Read(text) // not to its end, because a stream has none
			resp.Body.Close()
			if text := string(text[:n]); resp.StatusCode != 403 || text != "The page cannot be opened as \"evil.example\"; dashboard.WithHosts allows more hosts than localhost.\n" {
				t.Errorf("%s %s: got %d, %q", method, path, resp.StatusCode, text)
			}
		}
	}
	_, answer := s.post(t, "lookup", form)
	expect.Equal(t, answer["limits"].([]any)[0].(map[string]any)["remaining"], 0.0, "another host has reset a key: %v", answer)
}

func TestHostsThatNoBrowserSends(t *testing.T) {
	for _, host := range []string{"", "https://admin.example.com", "admin.example.com:8443", "admin.example.com/", "*.example.com", "a..example", ".", "[::1]", "bücher.example", "a b"} {
		err := expect.PanicOf(func() { dashboard.WithHosts("good.example", host) })
		expect.True(t, errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), "WithHosts: \""+host+"\"") &&
			!strings.Contains(err.Error(), "good.example\""),
			"%q: got the panic %v", host, err)
	}
}

func TestPathWithoutSlashRedirects(t *testing.T) {
	page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
	mux := http.NewServeMux()
	mux.Handle("/whole", page)
	mux.Handle("/stripped", http.StripPrefix("/stripped", page))
	mux.Handle("/stripped/", http.StripPrefix("/stripped/", page))
	for path, want := range map[string]string{"/whole": "./whole/", "/stripped": "./stripped/", "/stripped/": ""} {
		w := get(mux, path)
		got := w.Header().Get("Location")
		expect.True(t, got == want && (w.Code == 307) == (want != ""), "%s: got %d, %q, want %q", path, w.Code, got, want)
	}
	for _, target := range []string{"//evil.example", "/%2f%2fevil.example", "/\\evil.example", "/a:b"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RequestURI = target
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		got := w.Header().Get("Location")
		expect.True(t, got == "" || strings.HasPrefix(got, "./"), "%s: redirects to %q", target, got)
	}
}

// The page was opened at one path, or at several.
func TestUnknownPathsAreNotFound(t *testing.T) {
	page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
	mux := http.NewServeMux()
	mux.Handle("/", page) // like routers that set no pattern
	mux.Handle("/whole", page)
	mux.Handle("/stripped", http.StripPrefix("/stripped", page))
	for _, step := range []struct {
		path, redirect string
		status         int
	}{
		{"/ops/limits", "./limits/", 307},
		{"/ops/limits/", "", 200},
		{"/ops/limits", "./limits/", 307},
		{"/ops/limitsabc", "./limitsabc/", 307},
		{"/ops/limits/none", "", 404},
		{"/ops/limits/none/at/all", "", 404},
		{"/ops/limits/favicon.ico", "", 404},
		{"/ops/limits/app.js", "", 200},
		{"/ops", "./ops/", 307},
		{"/", "", 200},
		{"/none", "", 404},
		{"/whole", "./whole/", 307},
		{"/stripped", "./stripped/", 307},
	} {
		w := get(mux, step.path)
		if got := w.Header().Get("Location"); w.Code != step.status || got != step.redirect {
			t.Errorf("%s: got %d, %q, want %d, %q", step.path, w.Code, got, step.status, step.redirect)
		}
	}
}

func TestPatternSaysWhereThePageIsMounted(t *testing.T) {
	page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
	for _, pattern := range []string{"/", "/limits", "/limits*"} { // the last one is echo's
		r := httptest.NewRequest("GET", "/limits", nil)
		if r.Pattern = pattern; pattern == "/" {
			r.RequestURI = "/"
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		expect.Equal(t, w.Code == 307, pattern != "/", "%s: %d", pattern, w.Code)
	}
}

func TestPlacesAreBounded(t *testing.T) {
	page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
	status := func(path string) int { return get(page, path).Code }
	for i := range 20 {
		status("/0/")
		status(fmt.Sprintf("/%d/", i))
	}
	if first, last, more := status("/0/none"), status("/15/none"), status("/19/none"); first != 404 || last != 404 || more != 307 {
		t.Errorf("got %d and %d below the first and the last path, and %d below one too many, want 404, 404 and 307", first, last, more)
	}
}
