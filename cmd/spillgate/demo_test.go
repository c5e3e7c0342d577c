package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// once runs the demo with --once and returns what it printed.
func once(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := execute(t, append([]string{"demo", "--once", "--addr", "127.0.0.1:0"}, args...)...)
	must.True(t, code == 0 && stderr == "", "%q: exit code %d, stderr %q, stdout:\n%s", args, code, stderr, stdout)
	return stdout
}

func TestOnce(t *testing.T) {
	t.Parallel()
	github := `2 +0 +\d{10} \(in -?[\d.]+m?s\)`
	for _, tt := range []struct {
		args    string
		numbers string // limit, remaining and reset in the table
		curl    string // flags of the curl lines
		denial  string // a header of the denial that is shown in full
	}{
		{"--limits 2/2s", github, "", "X-Ratelimit-Resource: stdlib"},
		{"--limits 2/1s;sliding-log --headers ietf", `2 +0 +(in 1s|-)`, "", `Ratelimit-Policy: "stdlib";q=2;w=1`},
		{"--limits 9/1h,2/2s --headers both", github, "", `Ratelimit-Policy: "stdlib-1h";q=9;w=3600,"stdlib-2s";q=2;w=2`},
		{"--limits 2/2s --key header:x-tenant", github, "-H 'x-tenant: demo' ", "Retry-After: 1"},
		{"--limits 2/2s --key apikey:X-Api-Key", github, "-H 'X-Api-Key: demo-secret' ", "Retry-After: 1"},
		{"--limits 2/2s --trust 10.0.0.0/8 --trust 127.0.0.0/8", github, "-H 'X-Forwarded-For: 203.0.113.9' ", "Retry-After: 1"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			stdout := once(t, strings.Fields(tt.args)...)
			for _, router := range []string{"stdlib", "chi", "gin", "echo", "echov5"} {
				// A slow machine may admit one more request, because time passes.
				row := regexp.MustCompile(`(?m)^` + router + ` +[2-9]\d* +429 Too Many Requests +` + tt.numbers + ` +1 +200 OK$`)
				expect.Equal(t, len(row.FindAllString(stdout, -1)), 1, "%s: rows match %s", router, row)
				expect.True(t, regexp.MustCompile(`curl -i `+regexp.QuoteMeta(tt.curl)+`http://127\.0\.0\.1:\d+/`+router+`/hello\n`).MatchString(stdout),
					"no curl line for %s with %q", router, tt.curl)
			}
			expect.True(t, strings.Contains(stdout, tt.denial) && strings.Contains(stdout, "All five routers answered as their limits demand."),
				"no %q, or no message of success", tt.denial)
			if t.Failed() {
				t.Log(stdout)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		flags, want string // want is the start of the key; empty if there is no key
	}{
		{"", "ip:127.0.0.1"}, // X-Forwarded-For is ignored
		{"--trust 127.0.0.0/8 --trust 10.0.0.0/8", "ip:203.0.113.9"},
		{"--trust 10.0.0.0/8 --trust 127.0.0.0/8", "ip:203.0.113.9"},
		{"--trust 10.0.0.0/8", "ip:127.0.0.1"},
		{"--key header:x-tenant", "header:x-tenant:acme"},
		{"--key apikey:X-Tenant", "key:"}, // and a hash
		{"--key apikey:X-Api-Key", ""},
	} {
		var o options
		must.Do(t, demoFlags(&o).Parse(strings.Fields(tt.flags)))
		p := must.Get(o.plan())(t)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "127.0.0.1:4321"
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		r.Header.Set("X-Tenant", "acme")
		key, err := p.key.of(r)
		if tt.want == "" && !errors.Is(err, core.ErrNoKey) || !strings.HasPrefix(key, tt.want) {
			t.Errorf("%q: key %q, error %v, want %q", tt.flags, key, err, tt.want)
		}
		r.Header = http.Header{}
		for name, values := range p.key.header {
			r.Header.Set(name, values[0])
		}
		expect.NoError(t, expect.ErrorOf(p.key.of(r)), "%q: the requests that the demo sends have no key", tt.flags)
	}
}

func TestGreetings(t *testing.T) {
	p := must.Get(options{addr: "127.0.0.1:0", limits: "2/1h", key: "ip", headers: "github"}.plan())(t)
	h := must.Get(newApp(p))(t)
	expect.Equal(t, gin.Mode(), gin.ReleaseMode, "mode of gin, which prints its routes in another")
	for path, want := range map[string]string{
		"/stdlib/hello": "hello from net/http, 1 of 2 left\n",
		"/chi/hello":    "hello from chi, 1 of 2 left\n",
		"/gin/hello":    "hello from gin, 1 of 2 left\n",
		"/echo/hello":   "hello from echo v4, 1 of 2 left\n",
		"/echov5/hello": "hello from echo v5, 1 of 2 left\n",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		expect.Equal(t, w.Body.String(), want, "GET %s: %d %q", path, w.Code, w.Body)
	}
}

func TestOnceDeniesEverything(t *testing.T) {
	t.Parallel()
	stdout := once(t, "--limits", "0/1s")
	expect.True(t, !strings.Contains(stdout, "200 OK") && strings.Count(stdout, "429 Too Many Requests") == len(routers)+1,
		"want one denial of each router, and one in full:\n%s", stdout)
}

func TestOnceFails(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := execute(t, "demo", "--once", "--addr", "127.0.0.1:0", "--limits", "1000000/1ms")
	expect.True(t, code == 1 && strings.Contains(stdout, "These answers are wrong:\n  stdlib: its limit was not met"),
		"exit code %d, stdout:\n%s", code, stdout)
	for _, router := range routers {
		_, row, _ := strings.Cut(stdout, "\n"+router.name)
		var admitted int // a busy machine sends fewer until maxSending
		if _, err := fmt.Sscan(row, &admitted); err != nil || admitted < 1 || admitted > maxRequests {
			t.Errorf("%s: gave up after %d requests (%v), want at most %d:\n%s", router.name, admitted, err, maxRequests, stdout)
		}
	}
	expect.True(t, strings.HasPrefix(stderr, "spillgate: stdlib: its limit was not met: it is too high or refills too fast for requests that are sent one at a time") && strings.Count(stderr, "\n") == 1,
		"stderr %q", stderr)
}

func TestShutdownWaits(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	base, shutdown, err := listen("127.0.0.1:0", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	}))
	must.Do(t, err)
	answered := make(chan error, 1)
	go func() {
		client := http.Client{Timeout: testTimeout}
		_, err := client.Get(base)
		answered <- err
	}()
	<-entered
	closed := make(chan struct{})
	go func() { shutdown(); close(closed) }()
	for denied := false; !denied; { // new connections are denied, while the request in flight continues
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if denied = err != nil; !denied {
			conn.Close()
			time.Sleep(time.Millisecond) // each takes a port
		}
	}
	close(release)
	expect.NoError(t, <-answered, "a request in flight was cut off")
	<-closed
}

func TestReachable(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:80":     "192.0.2.1:80",
		"0.0.0.0:8080":     "127.0.0.1:8080",
		"[::]:8080":        "127.0.0.1:8080",
		"[2001:db8::1]:80": "[2001:db8::1]:80",
		":8080":            "127.0.0.1:8080",
	} {
		expect.Equal(t, reachable(must.Get(net.ResolveTCPAddr("tcp", addr))(t)), want, "reachable(%s)", addr)
	}
}

// The page can be opened at the address that the demo prints, and changes keys only if nobody else can reach the demo.
func TestPageOfTheDemo(t *testing.T) {
	for _, tt := range []struct {
		addr, host       string
		opened, mayReset int
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", 200, 200},
		{"localhost:8080", "localhost:8080", 200, 200},
		{"127.0.0.1:8080", "evil.example", 403, 403},
		{"192.0.2.1:8080", "192.0.2.1:8080", 200, 403},
		{"192.0.2.1:8080", "localhost:8080", 200, 403},
		{"[2001:db8::1]:80", "[2001:db8::1]", 200, 403},
		{":8080", "127.0.0.1:8080", 200, 403},
		{"0.0.0.0:8080", "192.0.2.1:8080", 403, 403},
	} {
		p := must.Get(options{addr: tt.addr, limits: "2/1h", key: "ip", headers: "github"}.plan())(t)
		h := must.Get(newApp(p))(t)
		for _, c := range []struct {
			method, path string
			want         int
		}{{"GET", "/", tt.opened}, {"POST", "/reset", tt.mayReset}} {
			r, w := httptest.NewRequest(c.method, c.path, nil), httptest.NewRecorder()
			r.Host, r.RemoteAddr = tt.host, "127.0.0.1:1234"
			if h.ServeHTTP(w, r); w.Code != c.want {
				t.Errorf("--addr %s, Host %s: %s %s: got %d, want %d", tt.addr, tt.host, c.method, c.path, w.Code, c.want)
			}
		}
	}
}
