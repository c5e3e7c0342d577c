package peers

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// RuleFile returns the text of a file of n rules, each for a route of its own.
func RuleFile(n int) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: rule%d\n    match: GET /api/v1/things%d/{id}\n    key: first(apikey(X-Api-Key), ip)\n    limits: 10/s, 1000000/d\n", i, i)
	}
	return b.String()
}

// Parse returns a function that parses a file.
func Parse(text string) func() bool {
	return func() bool {
		_, err := rulefile.Parse([]byte(text), rulefile.Funcs{})
		return err == nil
	}
}

// FromFile is Limiter.Check of a request of one route, with the rules of a file of n routes.
func FromFile(n int) func() bool {
	f := must(rulefile.Parse([]byte(strings.ReplaceAll(RuleFile(n), "10/s, ", "")), rulefile.Funcs{}))
	limiter := core.Must(core.New(f.Rules))
	r := must(http.NewRequest(http.MethodGet, fmt.Sprintf("/api/v1/things%d/42", n/2), nil))
	r.RemoteAddr = "203.0.113.9:4711"
	return func() bool {
		d, err := limiter.Check(r)
		return err == nil && d.Allowed && len(d.Results) == 1
	}
}
