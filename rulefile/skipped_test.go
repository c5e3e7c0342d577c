package rulefile_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// An address to skip is the one that key ip means: behind a trusted proxy, the client's, and nobody else can claim it.
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

// The skip of a file is swapped with its rules. It does not concern rules of the program.
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
