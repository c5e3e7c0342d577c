package dashboard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/telemetry"
)

// The page has no authentication of its own: put yours in front of it.
func ExampleNew() {
	t := telemetry.New(telemetry.Options{})
	page := dashboard.New(t)

	admin := http.NewServeMux()
	admin.HandleFunc("/limits/", func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "Who are you?", http.StatusUnauthorized)
			return
		}
		page.ServeHTTP(w, r)
	})
	for _, password := range []string{"", "secret"} {
		r, w := httptest.NewRequest(http.MethodGet, "http://localhost/limits/", nil), httptest.NewRecorder()
		r.SetBasicAuth("admin", password)
		admin.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
}

// A reverse proxy serves the page as https://admin.example.com/limits/ and passes Host on.
func ExampleWithHosts() {
	t := telemetry.New(telemetry.Options{})
	page := dashboard.New(t, dashboard.WithHosts("admin.example.com"))
	for _, host := range []string{"admin.example.com", "localhost:8080", "evil.example"} {
		r, w := httptest.NewRequest(http.MethodGet, "/limits/", nil), httptest.NewRecorder()
		r.Host = host
		page.ServeHTTP(w, r)
		fmt.Println(host, w.Code)
	}
	// Output:
	// admin.example.com 200
	// localhost:8080 200
	// evil.example 403
}

// Administrators may reset and ban keys. Others may only look.
func ExampleWithReset() {
	t := telemetry.New(telemetry.Options{})
	isAdmin := func(r *http.Request) bool {
		user, _, ok := r.BasicAuth() // the password was verified in front of the page
		return ok && user == "admin"
	}
	http.Handle("/limits/", dashboard.New(t, dashboard.WithReset(isAdmin)))
}
