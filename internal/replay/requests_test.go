package replay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/accesslog"
)

func TestRequestsAreWhatTheServerReceived(t *testing.T) {
	tests := []struct {
		why, rule string
		e         accesslog.Entry
	}{
		{"an absolute URL names the host", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "http://example.com:80/a"}},
		{"else the log does", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "/a?b", Host: "example.com"}},
		{"escapes", "{key: ip, limits: 0/s, match: /login}", accesslog.Entry{Target: "/%6Cogin"}},
		{"a target that is none", "{key: ip, limits: 0/s, match: /a%zz}", accesslog.Entry{Target: "/a%zz?q"}},
		{"the user", "{key: join(basic, const(x)), limits: 0/s}", accesslog.Entry{Target: "/", User: "ann"}},
		{"a header", "{key: ip, limits: 0/s, headers: {X-A: b}}", accesslog.Entry{Target: "/", Header: http.Header{"X-A": {"b"}}}},
	}
	for _, tt := range tests {
		tt.e.At, tt.e.Client, tt.e.Method, tt.e.Duration = noon, "x", "GET", -1
		rule := strings.Replace(strings.Replace(tt.rule, "join(basic, const(x))", "'join(basic, const(x))'", 1), "/a%zz", "'/a%zz'", 1)
		rep := run(t, "rules: ["+rule+"]", Options{Knows: func(string) bool { return true }}, entries{tt.e})
		if rep.Refused != 1 || rep.Failed != 0 {
			t.Errorf("%s: the rule did not refuse it: %+v", tt.why, rep)
		}
	}
}

func TestManyRoutesAreBounded(t *testing.T) {
	r := &runner{player: &player{requests: &Requests{}}, routes: make(map[string]int)}
	for i := range 20_000 {
		r.player.requests.URL.Path = "/a" + strings.Repeat("x", i%30) + fmt.Sprint(i)
		r.countRoute(&accesslog.Entry{Method: "GET"})
	}
	if len(r.routes) != 10_001 || r.routes["others"] != 10_000 {
		t.Errorf("got %d routes, %d others", len(r.routes), r.routes["others"])
	}
}
