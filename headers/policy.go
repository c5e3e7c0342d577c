package headers

import "github.com/spillgate/spillgate/core"

// Violated returns the policies that denied the request, by the names that IETF gives them, in the order of d.
// It returns nil if d denied nothing.
func Violated(d core.Decision) []string { return AppendViolated(nil, d) }

// AppendViolated appends to names what Violated returns.
func AppendViolated(names []string, d core.Decision) []string {
	for i := range d.Results {
		if t := &d.Results[i]; !t.DryRun && !t.Allowed {
			rule, suffix := policy(d.Results, i)
			names = append(names, rule+suffix) // no copy if there is no suffix
		}
	}
	return names
}

// policy returns the name of result i as a policy, in two parts: that of its rule and, if the rule has several enforced
// limits, what tells them apart, the period, followed by the algorithm if some of them share the period. So one name is
// stable across the responses of a route, whatever they decide.
func policy(results []core.Result, i int) (rule, suffix string) {
	t := &results[i]
	several, samePeriod := false, false
	for j := range results {
		if other := &results[j]; j != i && !other.DryRun && other.Rule == t.Rule {
			several = true
			samePeriod = samePeriod || other.Limit.Period == t.Limit.Period
		}
	}
	switch {
	case samePeriod:
		suffix = periodSuffix(t.Limit) + "-" + t.Limit.Algorithm.String()
	case several:
		suffix = periodSuffix(t.Limit)
	}
	return t.Rule, suffix
}
