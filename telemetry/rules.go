package telemetry

import (
	"maps"
	"slices"
	"strings"
)

// maxRules is how many rules are counted separately. It bounds memory, because claims of Take can name any rule.
const maxRules = 1000

// other is the label of all rules and limits beyond these bounds.
const other = "other"

// rules are the counts of all rules. They never change.
type rules struct {
	all    []*rule // by name
	byName map[string]*rule
}

// fewRules is the largest number of rules for which named compares names one by one instead of hashing the name.
const fewRules = 4

// named returns the counts of a rule, or nil.
func (s *rules) named(name string) *rule {
	if len(s.all) > fewRules {
		return s.byName[name]
	}
	for _, r := range s.all {
		if r.name == name {
			return r
		}
	}
	return nil
}

// rule returns the counts of a rule.
func (t *Telemetry) rule(name string) *rule {
	if r := t.rules.Load().named(name); r != nil {
		return r
	}
	return t.addRule(name)
}

func (t *Telemetry) addRule(name string) *rule {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.rules.Load()
	if len(before.all) >= maxRules {
		name = other
	}
	if r := before.named(name); r != nil {
		return r
	}
	added := newRule(name, t.top)
	after := &rules{append(slices.Clone(before.all), added), maps.Clone(before.byName)}
	slices.SortFunc(after.all, func(a, b *rule) int { return strings.Compare(a.name, b.name) })
	after.byName[name] = added
	t.rules.Store(after)
	return added
}
