package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/must"
)

func TestExplainSkipAndOverrides(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.yaml")
	text := "skip: {addresses: [10.0.0.0/8], routes: [/healthz]}\nrules:\n  - {key: ip, limits: 5/month, overrides: {\"203.0.113.0/24\": 0/s}}\n"
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	tenants := fileWith(t, "rules: [{key: header(X-Tenant), limits: 1/s}]\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", name, "GET", "/healthz"}, "skipped: its route is skipped"},
		{[]string{"explain", name, "GET", "/x", "--client", "10.1.2.3"}, "skipped: its address is skipped"},
		{[]string{"explain", name, "GET", "/x", "--client", "192.0.2.1"}, "1 key or network has limits of its own"},
		{[]string{"explain", name, "GET", "/x", "--client", "192.0.2.1"}, "client key  ip:192.0.2.1\n"},
		{[]string{"explain", name, "GET", "/x", "--client", "192.0.2.1", "--json"}, `"client_key": "ip:192.0.2.1"`},
		{[]string{"explain", tenants, "GET", "/", "-H", "X-Tenant: acme"}, "client key  header:x-tenant:acme\n"},
		{[]string{"explain", tenants, "GET", "/", "-H", "X-Tenant: acme", "--json"}, `"client_key": "header:x-tenant:acme"`},
		{[]string{"explain", tenants, "GET", "/", "--client", "192.0.2.1"}, "no key      "},
	} {
		var out strings.Builder
		cmd := newExplain()
		cmd.SetArgs(tt.args[1:])
		cmd.SetOut(&out)
		if err := cmd.Execute(); err != nil || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%v: got %v, %s; want %q", tt.args, err, out.String(), tt.want)
		}
	}
}
