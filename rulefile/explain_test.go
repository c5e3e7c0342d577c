package rulefile_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/rulefile"
)

func TestExplain(t *testing.T) {
	f := must.Get(rulefile.Check("f.yaml", []byte(whole)))(t)
	login := rulefile.Explanation{Rule: "login", Key: "ip", Limits: "5/10m, 20/1d", OnFailure: "closed"}
	api := rulefile.Explanation{
		Rule: "api", Key: "user", Limits: "10/1s, 120/1m;burst=200", Tiers: "plan: pro 100/1s, free 1/1s", Cost: "exportCost", DryRun: true, OnFailure: "open",
	}
	rest := rulefile.Explanation{
		Rule: "default", Applies: "yes", Key: "first(apikey(X-Api-Key), join( ip , cookie(sid) ), user)", Limits: "1/1s", Cost: "3", CostAfter: "failures", OnFailure: "local",
		Why: []string{"it has no patterns, so it applies to every path"},
	}
	tokens := rulefile.Explanation{Rule: "tokens", Applies: "yes", Key: "ip", Limits: "1/1s", CostAfter: "tokens", OnFailure: "local", Why: rest.Why}
	tenant := rulefile.Explanation{Rule: "tenant", Applies: "yes", Key: "ip", Limits: "50000/1s", OnFailure: "local", Overrides: 1, Lease: "100ms", Why: rest.Why}
	webhooks := rulefile.Explanation{Rule: "webhooks", Applies: "yes", Key: "ip", Limits: "10/1s", OnFailure: "local", MaxWait: "5s", Why: rest.Why}
	with := func(e rulefile.Explanation, applies string, why ...string) rulefile.Explanation {
		e.Applies, e.Why = applies, why
		if applies != "no" && e.Key == "ip" {
			e.ClientKey = "ip:192.0.2.1"
		}
		return e
	}
	for _, tt := range []struct {
		method, path string
		header       http.Header
		want         []rulefile.Explanation
	}{
		{"POST", "//login", http.Header{"X-Plan": {"pro"}, "X-Kind": {"b"}}, []rulefile.Explanation{
			with(login, "yes", "matches POST /login", "X-Plan is pro", "X-Kind is a or b"),
			with(api, "no", "no pattern matches: /api/", "the program decides by internal"), rest, tokens, tenant, webhooks,
		}},
		{"POST", "/v1/a/login", http.Header{"X-Plan": {"free"}}, []rulefile.Explanation{
			with(login, "no", "matches POST /v1/{tenant}/login", "X-Plan is free, want pro", "X-Kind is not there, want a or b"),
			with(api, "no", "no pattern matches: /api/", "the program decides by internal"), rest, tokens, tenant, webhooks,
		}},
		{"GET", "/api/x", nil, []rulefile.Explanation{
			with(login, "no", "no pattern matches: POST /login, POST /v1/{tenant}/login", "X-Plan is not there, want pro", "X-Kind is not there, want a or b"),
			with(api, "depends", "matches /api/", "the program decides by internal"), rest, tokens, tenant, webhooks,
		}},
	} {
		for i := range tt.want {
			tt.want[i] = with(tt.want[i], tt.want[i].Applies, tt.want[i].Why...)
		}
		r := httptest.NewRequest(tt.method, tt.path, nil)
		r.Header = tt.header
		got := must.Get(f.Explain(r))(t)
		expect.True(t, reflect.DeepEqual(got, tt.want), "%s %s: got\n%+v\nwant\n%+v", tt.method, tt.path, got, tt.want)
	}
}

// Without an address, nobody knows whether a request is skipped by its address.
func TestExplainSaysThatNoAddressIsGiven(t *testing.T) {
	f := must.Get(rulefile.Check("f.yaml", []byte("proxies: {hops: 1}\nskip: {addresses: 10.0.0.0/8}\nrules: [{key: ip, limits: 1/s}]\n")))(t)
	for remote, want := range map[string]bool{"": true, "203.0.113.9:1": false} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remote
		all := must.Get(f.Explain(r))(t)
		expect.Equal(t, strings.Contains(strings.Join(all[0].Why, "; "), "the request has no address here"), want, "from %q: %v", remote, all[0].Why)
	}
}

// Explain writes keys as overrides do.
func TestExplainShowsKey(t *testing.T) {
	const proxies = "proxies: {trusted: [10.0.0.0/8]}\nfuncs: [user]\n"
	for _, tt := range []struct {
		key, remote string
		header      http.Header
		want, none  string
	}{
		{"header(X-Tenant)", "", http.Header{"X-Tenant": {"acme"}}, "header:x-tenant:acme", ""},
		{"header(X-Tenant)", "203.0.113.9:1", nil, "", "no key"},
		{"header(X-Tenant)", "", http.Header{"X-Tenant": {"a", "b"}}, "", "bad key"},
		{"ip", "203.0.113.9:1", nil, "ip:203.0.113.9", ""},
		{"ip", "10.0.0.1:1", http.Header{"X-Forwarded-For": {"198.51.100.7"}}, "ip:198.51.100.7", ""},
		{"ip", "", nil, "", ""},
		{"method", "", nil, "method:GET", ""},
		{"join(method, const(x))", "", nil, "join:", ""},
		{"first(header(X-Tenant), user)", "", http.Header{"X-Tenant": {"acme"}}, "header:x-tenant:acme", ""},
		{"first(header(X-Tenant), user)", "", nil, "", ""},
		{"join(user, method)", "", nil, "", ""},
		{"pattern", "203.0.113.9:1", nil, "", ""},
	} {
		f := must.Get(rulefile.Check("f.yaml", []byte(proxies+"rules: [{key: \""+tt.key+"\", limits: 1/s}]\n")))(t)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Header = tt.remote, tt.header
		all, err := f.Explain(r)
		expect.True(t, err == nil && strings.HasPrefix(all[0].ClientKey, tt.want) && (all[0].ClientKey == "") == (tt.want == "") &&
			strings.Contains(all[0].NoKey, tt.none) && (all[0].NoKey == "") == (tt.none == ""),
			"%s from %q with %v: got %+v, %v; want %q, %q", tt.key, tt.remote, tt.header, all, err, tt.want, tt.none)
	}
}
