package mcp

import (
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
	"github.com/spillgate/spillgate/rulefile"
	"github.com/spillgate/spillgate/telemetry"
)

const rules = `
funcs: [user, size]
rules:
  - name: search
    match: POST /tools/call/search
    key: join(user, pattern)
    limits: 2/h
  - name: bytes
    match: POST /tools/call/
    headers: {X-Plan: free}
    key: user
    limits: 1000/h
    cost: size
  - name: answers
    match: POST /resources/
    key: const(all)
    limits: 1 at once
    cost_after: failures
`

// TestRuleFile limits a server by a rules file, and counts its calls by telemetry.
func TestRuleFile(t *testing.T) {
	file, err := rulefile.Parse([]byte(rules), rulefile.Funcs{
		Keys: map[string]core.KeyFunc{"user": mcplimit.User},
		Costs: map[string]func(*http.Request) int{"size": func(r *http.Request) int {
			req, _ := mcplimit.RequestOf(r)
			return len(req.GetParams().(*mcp.CallToolParamsRaw).Arguments)
		}},
	})
	must.Do(t, err)
	counted := telemetry.New(telemetry.Options{})
	s := connect(t, serve(t, newServer(core.Must(core.New(file.Rules, core.WithObserver(counted.Observe)))), true).URL, "ann")
	defer s.Close()
	var codes []int64
	for _, tool := range []string{"search", "search", "search", "fetch"} {
		code, _ := call(t, s, tool)
		codes = append(codes, code)
	}
	expect.Elements(t, codes, []int64{0, 0, -32029, 0}, "the codes")
	for _, rule := range counted.Snapshot().Rules {
		want := map[string]uint64{"allowed": 2, "denied": 1}[rule.Outcome]
		expect.True(t, rule.Rule != "search" || rule.Count == want, "telemetry has %+v, want %d", rule, want)
	}
}
