package core

import (
	"maps"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/routes"
)

// A ruleset is a list of rules compiled by New or SetRules. It never changes.
type ruleset struct {
	rules  []activeRule
	byName map[string]*activeRule
	routes *routes.Index // finds the rules by their Routes
}

// An activeRule is a Rule of a ruleset.
type activeRule struct {
	Rule
	claim Claim // of a request, without a key and for a cost of 1
}

// newRuleset copies rules. Its errors are all mistakes in them.
func newRuleset(rules []Rule) (*ruleset, []error) {
	rules = cloneRules(rules)
	s := &ruleset{rules: make([]activeRule, len(rules)), byName: make(map[string]*activeRule, len(rules))}
	var errs []error
	if len(rules) == 0 {
		errs = append(errs, invalid("a limiter needs at least one rule, such as core.PerMinute(100).By(keyfunc.RemoteIP)"))
	}
	for i := range s.rules {
		rules[i].Name = ruleName(rules[i].Name)
		r := &s.rules[i]
		r.Rule = rules[i]
		r.claim = Claim{
			Rule: r.Name, Limits: r.Limits, Cost: 1, DryRun: r.DryRun, Lease: r.Lease, MaxWait: r.MaxWait, rule: r, set: newLimitSet(r.Limits),
		}
		if s.byName[r.Name] != nil {
			errs = append(errs, within(r.place(), invalid("name is not unique; give each rule a Name of its own")))
		}
		errs = append(errs, within(r.place(), r.validate()))
		s.byName[r.Name] = r
	}
	patterns := make([][]string, len(rules))
	for i := range rules {
		patterns[i] = rules[i].Routes
	}
	index, mistakes := routes.New(patterns)
	for _, m := range mistakes {
		errs = append(errs, within(rules[m.Set].place(), invalid("%s", m.Text)))
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

// fewRules is the largest number of rules for which named compares names one by one instead of hashing the name.
const fewRules = 4

// named returns the rule that has this name, or nil.
func (s *ruleset) named(name string) *activeRule {
	if len(s.rules) > fewRules {
		return s.byName[name]
	}
	for i := range s.rules {
		if s.rules[i].Name == name {
			return &s.rules[i]
		}
	}
	return nil
}

// current returns the active rules. A Limiter that New did not make has none.
func (l *Limiter) current() (*ruleset, error) {
	if l == nil {
		return nil, invalid("the limiter is nil")
	}
	if s := l.rules.Load(); s != nil {
		return s, nil
	}
	return nil, invalid("the limiter was not made by New")
}

// Rules returns a copy of the active rules.
func (l *Limiter) Rules() []Rule {
	s, err := l.current()
	if err != nil {
		return nil
	}
	rules := make([]Rule, len(s.rules))
	for i := range s.rules {
		rules[i] = s.rules[i].Rule
	}
	return cloneRules(rules)
}

// SetRules replaces all rules of l at once, while requests are being decided. Its error joins all mistakes in rules; if
// it is not nil, l keeps its old rules. If a new rule has the name of an old one, and a new limit has the algorithm and
// period of an old one, what a key has used stays used. SetRules copies rules.
func (l *Limiter) SetRules(rules []Rule) error {
	if _, err := l.current(); err != nil {
		return prefix(err)
	}
	s, mistakes := newRuleset(rules)
	if err := allOf(mistakes...); err != nil {
		return prefix(err)
	}
	l.rules.Store(s)
	return nil
}

// noRule returns the error that s has no rule of this name.
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
