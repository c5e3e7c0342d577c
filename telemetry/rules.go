package telemetry

import "slices"

// maxRules is how many rules are counted separately. It bounds memory, because claims of Take can name any rule.
const maxRules = 1000

// other is the label of all rules and limits beyond these bounds.
const other = "other"

// rule returns the counts of a rule.
func (t *Telemetry) rule(name string) *rule {
	if r := (*t.rules.Load())[name]; r != nil {
		return r
	}
	return t.addRule(name)
}

func (t *Telemetry) addRule(name string) *rule {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := *t.rules.Load()
	if len(before) >= maxRules {
		name = other
	}
	if r := before[name]; r != nil {
		return r
	}
	after := make(map[string]*rule, len(before)+1)
	for k, v := range before {
		after[k] = v
	}
	after[name] = newRule(name, t.top)
	t.rules.Store(&after)
	return after[name]
}

// sorted returns all rules by name.
func (t *Telemetry) sorted() []*rule {
	var all []*rule
	for _, r := range *t.rules.Load() {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *rule) int { return compare(a.name, b.name) })
	return all
}
