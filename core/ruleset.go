package core

import (
	"maps"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/memory"
	"github.com/spillgate/spillgate/internal/routes"
)

// A ruleset is a list of rules compiled by New or SetRules. It never changes.
type ruleset struct {
	rules   []activeRule
	byName  map[string]*activeRule
	routes  *routes.Index // finds the rules by their Routes
	mayWait bool          // a rule has a MaxWait
}

// An activeRule is a Rule of a ruleset.
type activeRule struct {
	Rule
	set  *limitSet   // Limits, compiled
	hash memory.Rule // of the Name
}

// newRuleset copies rules. Its errors are all mistakes in them.
func newRuleset(rules []Rule) (*ruleset, []error) {
	rules = cloneRules(rules)
	s := &ruleset{rules: make([]activeRule, len(rules)), byName: make(map[string]*activeRule, len(rules))}
	var errs []error
	if len(rules) == 0 {
		errs = append(errs, invalid("a limiter needs at least one rule, such as core.PerMinute(100).By(keyfunc.RemoteIP)"))
	}
	patterns, always := make([][]string, len(rules)), 0
	for i := range s.rules {
		patterns[i] = rules[i].Routes
		if len(rules[i].Routes) == 0 && rules[i].Match == nil {
			always++
		}
		rules[i].Name = ruleName(rules[i].Name)
		r := &s.rules[i]
		r.Rule, r.set, r.hash = rules[i], newLimitSet(rules[i].Limits), memory.RuleOf(rules[i].Name)
		if s.byName[r.Name] != nil {
			errs = append(errs, inRule(r.Name, invalid("name is not unique; give each rule a Name of its own")))
		}
		errs = append(errs, inRule(r.Name, r.validate()))
		s.mayWait = s.mayWait || r.MaxWait > 0
		s.byName[r.Name] = r
	}
	if always > maxClaims {
		errs = append(errs, invalid("%d rules have neither Routes nor Match and apply to every request, which can have at most %d claims", always, maxClaims))
	}
	index, mistakes := routes.New(patterns)
	for _, m := range mistakes {
		errs = append(errs, inRule(rules[m.Set].Name, invalid("%s", m.Text)))
	}
	s.routes = index
	return s, errs
}

// cloneRules copies rules and what they point to.
func cloneRules(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Limits = slices.Clone(rules[i].Limits)
		for j, l := range rules[i].Limits {
			rules[i].Limits[j] = l.normalized()
		}
		rules[i].Routes = slices.Clone(rules[i].Routes)
	}
	return rules
}

func (s *ruleset) noRule(name string) error {
	return invalid("there is no rule %q%s", name, s.meant(name))
}

// meant suggests the rule that may be meant by a name that no rule has.
func (s *ruleset) meant(name string) string {
	const most = 8
	known := slices.Sorted(maps.Keys(s.byName))
	if hint := didYouMean("", name, known, ""); hint != "" || len(known) > most {
		return hint
	}
	return "; there is " + strings.Join(known, ", ")
}
