package rulefile_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/spillgate/spillgate/rulefile"
)

func TestOfflineKeysEqualKeysOfRequests(t *testing.T) {
	for proxies, want := range map[string][]string{
		"":                                     {"ip:203.0.113.7", "ip:203.0.113.7", "ip:2001:db8:0:1::/64", "ip:host.example"},
		"{trusted: 10.0.0.0/8, ipv6_bits: 48}": {"ip:203.0.113.7", "ip:203.0.113.7", "ip:2001:db8::/48", "ip:host.example"},
	} {
		f, err := rulefile.Offline("f", []byte("proxies: "+proxies+"\nrules: [{key: ip, limits: 1/s}]"))
		if proxies == "" {
			f, err = rulefile.Offline("f", []byte("rules: [{key: ip, limits: 1/s}]"))
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, client := range []string{"203.0.113.7", "::ffff:203.0.113.7", "2001:db8:0:1::5", "Host.example"} {
			r := &http.Request{RemoteAddr: client, Header: http.Header{"X-Forwarded-For": {"192.0.2.9"}}}
			if key, err := f.Rules[0].Key(r); key != want[i] || err != nil {
				t.Errorf("%s: got %q, %v; want %q", client, key, err, want[i])
			}
		}
	}
}

func TestNeeds(t *testing.T) {
	f, err := rulefile.Offline("f", []byte(`funcs: [user, plan, price, internal, tokens]
rules:
  - {name: a, key: ip, limits: 1/s, match: [POST /a, /b/], cost: 2, cost_after: failures}
  - {name: b, key: "first(apikey(x-key), cookie(sid), bearer, join(basic, pattern, method, const(x)))", limits: 1/s}
  - {name: c, key: user, limits: 1/s, match: [internal, GET example.com/a, example.org/b], headers: {x-plan: pro}, tiers: {func: plan, pro: 1/s}, cost: price, cost_after: tokens}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{},
		{"header Authorization", "header Cookie", "header X-Key", "route pattern", "user"},
		{"function internal", "function plan", "function price", "function tokens", "function user", "header X-Plan", "host"},
	}
	for i, w := range want {
		if got := f.Needs(i); !slices.Equal(got, w) {
			t.Errorf("rule %d: got %q, want %q", i, got, w)
		}
	}
}
