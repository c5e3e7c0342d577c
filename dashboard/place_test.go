package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/telemetry"
)

func TestPathWithoutSlashRedirects(t *testing.T) {
	page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
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
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", step.path, nil))
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
		if (w.Code == 307) != (pattern != "/") {
			t.Errorf("%s: got %d", pattern, w.Code)
		}
	}
}

func TestPlacesAreBounded(t *testing.T) {
	page := dashboard.New(telemetry.New(telemetry.Options{}), ofTests)
	get := func(path string) int {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code
	}
	for i := range 20 {
		get("/0/")
		get(fmt.Sprintf("/%d/", i))
	}
	if first, last, more := get("/0/none"), get("/15/none"), get("/19/none"); first != 404 || last != 404 || more != 307 {
		t.Errorf("got %d and %d below the first and the last path, and %d below one too many, want 404, 404 and 307", first, last, more)
	}
}
