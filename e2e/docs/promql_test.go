package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
	promtelemetry "github.com/spillgate/spillgate/telemetry/prometheus"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

// Each query in docs/operate.md parses, and names only metrics, labels and values that exist.
func TestQueries(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/operate.md"))(t)
	known := exported(t)
	queries := regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllSubmatch(text, -1)
	must.True(t, len(queries) >= 5, "got %d queries", len(queries))
	for _, q := range queries {
		expr, err := parser.ParseExpr(string(q[1]))
		if err != nil {
			t.Errorf("%s: %v", q[1], err)
			continue
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok {
				check(t, known, s)
			}
			return nil
		})
	}
}

// check checks that the metrics and labels that s selects are exported.
func check(t *testing.T, known map[string]bool, s *parser.VectorSelector) {
	name := strings.TrimSuffix(s.Name, "_bucket")
	expect.True(t, known[name], "no metric is named %s", s.Name)
	for _, m := range s.LabelMatchers {
		expect.True(t, m.Name == "__name__" || known[name+" "+m.Name+" "+m.Value], "%s has no %s", s.Name, m)
	}
}

// exported returns the names of all metrics, and "name label value" of all series.
func exported(t *testing.T) map[string]bool {
	tel := telemetry.New(telemetry.Options{})
	limit := core.PerMinute(1)
	o := &core.Observation{Claims: []core.Claim{{Rule: "r", Key: "k", Limits: []core.Limit{limit}}}}
	o.Decision = core.Decision{Allowed: true, Results: []core.Result{{Rule: "r", Limit: limit, Allowed: true}}}
	tel.Observe(t.Context(), o)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promtelemetry.NewCollector(tel))
	families := must.Get(registry.Gather())(t)
	known := make(map[string]bool)
	for _, f := range families {
		known[f.GetName()] = true
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				known[f.GetName()+" "+l.GetName()+" "+l.GetValue()] = true
			}
		}
	}
	return known
}
