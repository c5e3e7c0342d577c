package replay

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
)

func TestRequestsAreWhatTheServerReceived(t *testing.T) {
	tests := []struct {
		why, rule string
		e         accesslog.Entry
	}{
		{"an absolute URL names the host", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "http://example.com:80/a"}},
		{"without one, the log names the host", "{key: ip, limits: 0/s, match: example.com/a}", accesslog.Entry{Target: "/a?b", Host: "example.com"}},
		{"escapes", "{key: ip, limits: 0/s, match: /login}", accesslog.Entry{Target: "/%6Cogin"}},
		{"an invalid target", "{key: ip, limits: 0/s, match: /a%zz}", accesslog.Entry{Target: "/a%zz?q"}},
		{"the user", "{key: join(basic, const(x)), limits: 0/s}", accesslog.Entry{Target: "/", User: "ann"}},
		{"a header", "{key: ip, limits: 0/s, headers: {X-A: b}}", accesslog.Entry{Target: "/", Header: http.Header{"X-A": {"b"}}}},
	}
	for _, tt := range tests {
		tt.e.At, tt.e.Client, tt.e.Method, tt.e.Duration = noon, "x", "GET", -1
		rule := strings.Replace(strings.Replace(tt.rule, "join(basic, const(x))", "'join(basic, const(x))'", 1), "/a%zz", "'/a%zz'", 1)
		rep := run(t, "rules: ["+rule+"]", Options{Knows: func(string) bool { return true }}, entries{tt.e})
		if rep.Denied != 1 || rep.Failed != 0 {
			t.Errorf("%s: the rule did not deny it: %+v", tt.why, rep)
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

func TestNothingRemainsFromThePreviousRequest(t *testing.T) {
	q := NewRequests(rules(t, "rules: [{key: bearer, limits: 1/s}]"))
	if !q.Users {
		t.Error("a credential may belong to the user")
	}
	q.Set(&accesslog.Entry{Target: "http://example.com/a?b", User: "ann", Client: "x", Method: "GET"})
	if user, _, _ := q.Request.BasicAuth(); user != "ann" || q.Request.Host != "example.com" {
		t.Errorf("got %+v", q.Request)
	}
	q.Set(&accesslog.Entry{Target: "/"})
	if len(q.Request.Header) > 0 || q.Request.Host != "" || q.URL.RawQuery != "" || q.Request.RemoteAddr != "" {
		t.Errorf("got %+v", q.Request)
	}
	if q := NewRequests(rules(t, "rules: [{key: ip, limits: 1/s}]")); q.Users {
		t.Error("no rule asks for a user")
	}
}

func TestFailedRequestsAreNotCounted(t *testing.T) {
	p, _, err := newPlayer(rules(t, "rules: [{name: a, key: ip, limits: 1/s}, {name: b, key: header(X-A), limits: 1/s}]"), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	e := sent(0, "x", "/")
	if p.decide(&e, e.At); p.errs != 1 || len(p.asks) != 0 || p.rules[0].asked != 0 {
		t.Errorf("got %d errors, asks %v, %d counted", p.errs, p.asks, p.rules[0].asked)
	}
}
