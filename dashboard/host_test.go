package dashboard_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
)

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
	if _, answer := s.post(t, "lookup", form); answer["limits"].([]any)[0].(map[string]any)["remaining"] != 0.0 {
		t.Errorf("another host has reset a key: %v", answer)
	}
}

func TestHostsThatNoBrowserSends(t *testing.T) {
	for _, host := range []string{"", "https://admin.example.com", "admin.example.com:8443", "admin.example.com/", "*.example.com", "a..example", ".", "[::1]", "bücher.example", "a b"} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "WithHosts: \""+host+"\"") || strings.Contains(err.Error(), "good.example\"") {
					t.Errorf("%q: got %v", host, err)
				}
			}()
			dashboard.WithHosts("good.example", host)
			t.Errorf("%q: WithHosts did not panic", host)
		}()
	}
}
