// Package rulecases holds rules files with and without mistakes. The tests of rulefile parse them, and the tests of
// e2e compare them with the JSON schema.
package rulecases

import (
	"net/http"
	"slices"

	"github.com/spillgate/spillgate/core"
)

// These are the functions of a program that uses the files: the fields of rulefile.Funcs.
var (
	Keys       = map[string]core.KeyFunc{"user": func(r *http.Request) (string, error) { return "user:" + r.Header.Get("U"), nil }}
	Tiers      = map[string]func(*http.Request) string{"plan": func(r *http.Request) string { return r.Header.Get("Plan") }}
	Costs      = map[string]func(*http.Request) int{"exportCost": func(*http.Request) int { return 7 }}
	CostsAfter = map[string]func(*http.Request, core.Outcome) int{"tokens": func(_ *http.Request, o core.Outcome) int { return int(o.Bytes) }}
	Matches    = map[string]func(*http.Request) bool{"internal": func(r *http.Request) bool { return r.Header.Get("Internal") != "" }}
)

// Whole is a file with all fields.
const Whole = `# all fields
proxies: {trusted: [10.0.0.0/8, 192.0.2.1], header: X-Forwarded-For}
funcs: [user, plan, exportCost, internal, tokens]
x-defaults: &defaults
  key: user
  on_failure: closed
rules:
  - name: login
    match: ["POST /login", "POST /v1/{tenant}/login"]
    headers: {x-plan: pro, X-Kind: [a, b]}
    key: ip
    limits: 5/10m, 20/d
    on_failure: closed
  - name: api
    <<: *defaults
    match: [/api/, internal]
    limits: [10/s, "120/m;burst=200"]
    tiers: {func: plan, pro: "100/s", free: 1/s}
    cost: exportCost
    dry_run: true
    on_failure: open
  - key: first(apikey(X-Api-Key), join( ip , cookie(sid) ), user)
    limits: 1/s
    cost: 3
    cost_after: failures
  - {name: tokens, key: ip, limits: 1/s, cost_after: tokens}
  - {name: tenant, key: ip, limits: 50000/s, lease: 100ms, overrides: {"ip:203.0.113.9": 9/s}}
  - {name: webhooks, key: ip, limits: 10/s, max_wait: 5s}
`

// A BadFile is a file and all its mistakes, each with line and column.
type BadFile struct {
	Why, Text string
	Mistakes  []string
}

// Bad returns files with mistakes.
func Bad() []BadFile { return slices.Concat(badTables, badValues) }
