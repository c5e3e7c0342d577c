package recipes

import (
	"bytes"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
)

var ok = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// get sends a request from an address and returns the status.
func get(h http.Handler, from, path string, fields ...string) int {
	r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
	r.RemoteAddr = from + ":41000"
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	h.ServeHTTP(w, r)
	return w.Code
}

// admitted returns how many of n requests get 200.
func admitted(h http.Handler, n int, from, path string, fields ...string) (count int) {
	for range n {
		if get(h, from, path, fields...) == http.StatusOK {
			count++
		}
	}
	return count
}

const someone = "203.0.113.9"

// A token bucket of 1,000 a day admits 1,999 on its first day; a window of a day admits 1,000 until midnight.
func TestPlansRenewAtMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock starts at midnight
		h, _ := limited(ok, plans(keyfunc.RemoteIP, func(r *http.Request) string { return r.Header.Get("X-Plan") }))
		bucket, _ := limited(ok, core.PerDay(1000).By(keyfunc.RemoteIP))
		day := [2]int{admitted(h, 1100, someone, "/"), admitted(bucket, 1100, someone, "/")}
		for range 24 {
			day[0] += admitted(h, 50, someone, "/")
			day[1] += admitted(bucket, 50, someone, "/")
			time.Sleep(time.Hour - 4*time.Second)
		}
		time.Sleep(24*4*time.Second - time.Millisecond)
		day[1] += admitted(bucket, 50, someone, "/")
		want(t, "of the plan on one day", day[0], 1000)
		want(t, "of a token bucket on its first day", day[1], 1999)
		want(t, "just before midnight", admitted(h, 1, someone, "/"), 0)
		time.Sleep(time.Millisecond)
		want(t, "after midnight", admitted(h, 1100, someone, "/"), 1000)
		upgraded := httptest.NewRequest(http.MethodGet, "/", nil)
		upgraded.RemoteAddr = someone + ":41000"
		upgraded.Header.Set("X-Plan", "pro")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, upgraded)
		got := w.Header().Get("X-RateLimit-Remaining")
		expect.True(t, w.Code == http.StatusOK && got == "98999", "upgraded: %d, %s remain, want 98999", w.Code, got)
	})
}

func TestEachRouteHasItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		for _, pattern := range []string{"GET /api/search", "/api/users/{id}", "/api/orders", "/about"} {
			mux.Handle(pattern, ok)
		}
		h := stdlib.New(core.Must(core.New(perRoute(keyfunc.RemoteIP))))(mux)
		for _, row := range []struct {
			path string
			want int
		}{{"/api/search?q=a", 20}, {"/api/users/1", 60}, {"/api/users/2", 0}, {"/api/orders", 60}, {"/about", 100}} {
			want(t, row.path, admitted(h, 100, someone, row.path), row.want)
		}
	})
}

func TestClientsBehindProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stdlib.New(must.Get(behindProxies())(t))(ok)
		want(t, "one client", admitted(h, 101, "10.0.5.10", "/", "X-Forwarded-For", "203.0.113.1"), 100)
		want(t, "the same with a forged field", get(h, "10.0.5.10", "/", "X-Forwarded-For", "198.51.100.1, 203.0.113.1"), 429)
		want(t, "another client", get(h, "10.0.5.10", "/", "X-Forwarded-For", "203.0.113.2"), 200)
		want(t, "past the proxy", admitted(h, 101, someone, "/", "X-Forwarded-For", "203.0.113.3"), 100)
		want(t, "past the proxy, with another field", get(h, someone, "/", "X-Forwarded-For", "203.0.113.4"), 429)
	})
}

func TestSeveralLimitsChargeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := must.Get(several(keyfunc.Header("X-User"), keyfunc.RemoteIP))(t)
		mux := http.NewServeMux()
		mux.Handle("GET /export", ok)
		mux.Handle("GET /", ok)
		h := stdlib.New(l)(mux)
		want(t, "an export uses up the second", get(h, someone, "/export", "X-User", "ann"), 200)
		want(t, "in the same second", admitted(h, 200, someone, "/", "X-User", "ann"), 0)
		d := must.Get(l.Take(t.Context(), core.Claim{Rule: "address", Key: "ip:" + someone, Peek: true}))(t)
		expect.Equal(t, d.Results[0].Remaining, 599, "denied requests were charged to the address: %+v", d)
	})
}

func TestUsersAndAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byUser(func(r *http.Request) (string, bool) { u := r.Header.Get("X-Session"); return u, u != "" }, ok)
		want(t, "ann", admitted(h, 101, someone, "/", "X-Session", "ann"), 100)
		want(t, "ann from elsewhere", get(h, "203.0.113.10", "/", "X-Session", "ann"), 429)
		want(t, "without a session", admitted(h, 101, someone, "/"), 100)
	})
}

func TestProbesAndPreflightsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stdlib.New(monitored())(ok)
		want(t, "probes", admitted(h, 500, someone, "/healthz"), 500)
		want(t, "requests", admitted(h, 500, someone, "/"), 100)
	})
}

func TestRuleFileIsReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spillgate.yaml")
	write := func(limits string) {
		must.Do(t, os.WriteFile(path, []byte("rules: [{key: ip, limits: "+limits+"}]\n"), 0o600))
	}
	write("1/h")
	synctest.Test(t, func(t *testing.T) {
		h := stdlib.New(must.Get(live(t.Context(), path, rulefile.Funcs{}))(t))(ok)
		want(t, "of 1/h", admitted(h, 10, someone, "/"), 1)
		write("5/h")
		time.Sleep(3 * time.Second)
		want(t, "of 5/h", admitted(h, 10, someone, "/"), 4)
		write("many")
		time.Sleep(3 * time.Second)
		want(t, "after a mistake", admitted(h, 10, "203.0.113.10", "/"), 5)
	})
}

func TestDryRunDeniesNothing(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	l := must.Get(measured(core.PerHour(3).By(keyfunc.RemoteIP)))(t)
	want(t, "admitted", admitted(stdlib.New(l)(ok), 5, someone, "/a"), 5)
	expect.Equal(t, strings.Count(logged.String(), "rule default would deny /a\n"), 2, "logged %q", logged.String())
}

func TestDenialsHaveFieldsAndAText(t *testing.T) {
	h := answers(core.Must(core.New([]core.Rule{core.PerHour(0).By(keyfunc.RemoteIP)})))(ok)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	expect.True(t, w.Code == 429 && strings.HasPrefix(w.Body.String(), "Too many requests.") &&
		w.Header().Get("X-RateLimit-Limit") == "0" && w.Header().Get("RateLimit") != "",
		"%d %q %v", w.Code, w.Body, w.Header())
}
