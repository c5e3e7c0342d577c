package rulefile_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// A skipped address is the address of key ip: behind a trusted proxy, it is the client's, and nobody else can claim it.
func TestSkipOfAddressesBehindAProxy(t *testing.T) {
	file, err := rulefile.Parse([]byte("proxies: {trusted: [10.0.0.0/8], header: X-Forwarded-For}\nskip: {addresses: [192.0.2.0/24, 10.0.0.0/8]}\n"+
		"rules: [{key: ip, limits: 1/d}]\n"), program)
	if err != nil {
		t.Fatal(err)
	}
	l := core.Must(core.New(file.Rules))
	for _, tt := range []struct {
		peer, forwarded string
		skipped         bool
	}{
		{"10.1.2.3:1", "192.0.2.7", true},
		{"10.1.2.3:1", "203.0.113.9", false},
		{"10.1.2.3:1", "192.0.2.7, 203.0.113.9", false},
		{"203.0.113.9:1", "192.0.2.7", false}, // not a proxy, so the field is not read
		{"192.0.2.7:1", "", true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = tt.peer
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		d, err := l.Peek(r)
		if err != nil || (len(d.Results) == 0) != tt.skipped {
			t.Errorf("from %s, forwarded for %q: got %+v, %v; want skipped %v", tt.peer, tt.forwarded, d.Results, err, tt.skipped)
		}
	}
}

// Behind a proxy that the file does not trust, the address is the proxy's, so no request is skipped.
func TestNoSkipOfAddressesBehindUnknownProxy(t *testing.T) {
	const text = "skip: {addresses: [10.0.0.0/8]}\nrules: [{key: header(X-Tenant), limits: 1/d}]\n"
	for name, skipped := range map[string]bool{
		"X-Forwarded-For": false, "Forwarded": false, "X-Real-Ip": false, "Via": false, "X-Forwarded-Proto": false, "Cf-Connecting-Ip": false,
		"True-Client-Ip": false, "X-Original-Forwarded-For": false, "X-Other": true,
	} {
		var log bytes.Buffer
		file := mustParse(t, text)
		l := core.Must(core.New(file.Rules, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
		for range 3 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "10.1.2.3:4"
			r.Header = http.Header{name: {"203.0.113.9"}, "X-Tenant": {"acme"}}
			if d, err := l.Peek(r); err != nil || (len(d.Results) == 0) != skipped {
				t.Errorf("%s: got %+v, %v; want skipped %v", name, d.Results, err, skipped)
			}
		}
		lines := strings.Count(log.String(), "skip.addresses skips nobody behind a proxy")
		if want := map[bool]int{false: 1}[skipped]; lines != want || !skipped && !strings.Contains(log.String(), "header="+name) {
			t.Errorf("%s: logged %d lines, want %d: %s", name, lines, want, &log)
		}
		if len(file.Warnings) != 1 || file.Warnings[0].Line != 1 || file.Warnings[0].Column != 8 {
			t.Errorf("warnings %v, want one at 1:8", file.Warnings)
		}
	}
	if file := mustParse(t, "proxies: {hops: 1}\n"+text); len(file.Warnings) != 0 {
		t.Errorf("with proxies: warnings %v", file.Warnings)
	}
}

// The skip of a file is replaced together with its rules. It does not apply to rules of the program.
func TestSkipIsSwapped(t *testing.T) {
	own := core.Rule{Name: "own", Key: program.Keys["user"], Limits: []core.Limit{core.PerHour(5)}}
	watch(t, func(w *watched) {
		for _, tt := range []struct {
			skip string
			want int // results
		}{{"", 2}, {"skip: {routes: [/]}\n", 1}, {"skip: {routes: [/other]}\n", 2}} {
			w.write(w.path, tt.skip+rate(10))
			w.wait(3 * time.Second)
			if d, err := w.limiter.Peek(requestOf("ann")); err != nil || len(d.Results) != tt.want {
				t.Errorf("%q: got %+v, %v; want %d results", tt.skip, d.Results, err, tt.want)
			}
		}
	}, own)
}

func TestPreflightsAreSkippedOnlyIfTheFileSaysSo(t *testing.T) {
	for skip, skipped := range map[string]bool{"{routes: [/other], preflight: true}": true, "{routes: [/other], preflight: false}": false, "{routes: [/other]}": false} {
		file := mustParse(t, "skip: "+skip+"\nrules: [{key: ip, limits: 1/d}]\n")
		r := httptest.NewRequest(http.MethodOptions, "/", nil)
		r.Header = http.Header{"Origin": {"https://a.example"}, "Access-Control-Request-Method": {"PUT"}}
		d, err := core.Must(core.New(file.Rules)).Peek(r)
		if err != nil || (len(d.Results) == 0) != skipped {
			t.Errorf("%s: got %+v, %v; want skipped %v", skip, d.Results, err, skipped)
		}
	}
}
