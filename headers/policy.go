package headers

import (
	"strings"

	"github.com/spillgate/spillgate/core"
)

// Violated returns the policies that denied the request, by the names that IETF gives them, in the order of d.
// It returns nil if d denied nothing.
func Violated(d core.Decision) []string {
	var names []string
	for i := range d.Results {
		if t := &d.Results[i]; !t.DryRun && !t.Allowed {
			names = append(names, string(appendPolicy(nil, d.Results, i)))
		}
	}
	return names
}

// appendPolicy appends the name of result i as a policy: that of its rule, followed by the period if the rule has
// several enforced limits, and by the algorithm if some of them share the period. So one name is stable across the
// responses of a route, whatever they decide.
func appendPolicy(b []byte, results []core.Result, i int) []byte {
	t := &results[i]
	several, samePeriod := false, false
	for j := range results {
		if other := &results[j]; j != i && !other.DryRun && other.Rule == t.Rule {
			several = true
			samePeriod = samePeriod || other.Limit.Period == t.Limit.Period
		}
	}
	b = append(b, t.Rule...)
	if several {
		b = append(append(b, '-'), period(t.Limit)...)
	}
	if samePeriod {
		b = append(append(b, '-'), t.Limit.Algorithm.String()...)
	}
	return b
}

// period returns the period as Limit.String shows it: "1m".
func period(l core.Limit) string {
	_, rest, _ := strings.Cut(l.String(), "/")
	p, _, _ := strings.Cut(rest, ";")
	return p
}
