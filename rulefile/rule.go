package rulefile

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// A detail has the texts of a rule, as Explain shows them.
type detail struct {
	node      *node
	fields    map[string]field
	key       string
	headers   []header
	matches   []string // names of functions
	tiers     tiers
	forms     keyForms
	overrides *overrideTable // nil if there are none
	skip      *skip          // nil if there is none
	cost      string
	costAfter string
	needs     []string
}

type header struct {
	name   string
	values []string
}

// rule reads a rule. Despite mistakes, it adds a rule that can be checked together with the others.
func (r *reader) rule(n *node) {
	fields := r.fields(n, "a rule", ruleFields)
	if fields == nil {
		return
	}
	d := detail{node: n, fields: fields}
	r.needs = nil
	rule := core.Rule{Name: "default", Key: assumedKey, Limits: []core.Limit{core.PerMinute(1)}}
	if f, ok := fields["name"]; ok {
		rule.Name = r.text(f)
	}
	rule.MaxWait = r.duration(fields["max_wait"], "5s") // before the limits, which it needs to be token buckets
	r.key(n, fields, &rule, &d)
	r.limitsOf(n, fields, &rule, &d)
	var tests []func(*http.Request) bool
	if f, ok := fields["match"]; ok {
		rule.Routes, tests = r.match(f, &d)
	}
	if f, ok := fields["headers"]; ok {
		tests = append(tests, r.headers(f, &d)...)
	}
	if d.skip = r.skip; d.skip != nil {
		tests = append(tests, d.skip.passes)
	}
	rule.Match = all(tests)
	if f, ok := fields["overrides"]; ok {
		r.overrides(f, &rule, &d)
	}
	r.cost(fields, &rule, &d)
	if f, ok := fields["cost_after"]; ok {
		d.costAfter = r.text(f)
		rule.CostAfter = r.costAfter(f, d.costAfter)
	}
	r.modes(fields, &rule)
	d.needs = r.needs
	if r.isNew(rule.Name, n, fields) {
		r.rules, r.about = append(r.rules, rule), append(r.about, d)
	}
}

// isNew reports whether no earlier rule has this name.
func (r *reader) isNew(name string, n *node, fields map[string]field) bool {
	at := n.spot
	if f, ok := fields["name"]; ok {
		at = f.value.spot
	}
	first, again := r.names[name]
	switch {
	case name == "":
		return false
	case slices.ContainsFunc(r.also, func(rule core.Rule) bool { return rule.Name == name }):
		r.add(at, "there is another rule named %s, in Options.Also of the program", name)
		return false
	case again:
		r.add(at, "there is another rule named %s, in line %d", name, first.line)
		return false
	}
	r.names[name] = at
	return true
}

func (r *reader) key(n *node, fields map[string]field, rule *core.Rule, d *detail) {
	f, ok := fields["key"]
	if !ok {
		r.add(n.spot, "a rule needs a key, such as ip")
		return
	}
	if d.key = r.text(f); d.key == "" {
		return
	}
	if key := r.parseKey(f.value, &d.forms); key != nil {
		rule.Key = key
	}
}

// match returns the patterns and the functions. A name without a slash is a function.
func (r *reader) match(f field, d *detail) (routes []string, tests []func(*http.Request) bool) {
	for _, n := range r.texts(f) {
		if strings.Contains(n.text, "/") || strings.ContainsAny(n.text, " \t") {
			if !r.paths.add(n.text) {
				r.add(n.spot, "there are too many patterns, with wildcards or a slash at the end, or for one path")
				break
			}
			host, path, _ := strings.Cut(n.text[strings.LastIndexAny(n.text, " \t")+1:], "/")
			if host != "" && host != "localhost" && (!strings.Contains(host, ".") || strings.ToLower(host) != host) && !strings.Contains(host, ":") {
				r.warn(n.spot, fmt.Sprintf("match: %q is in place of a host; for all hosts, want /%s/%s", host, host, path))
			}
			routes = append(routes, n.text)
			continue
		}
		if test, ok := find(r, n.spot, n.text, "match", r.funcs.Matches, assumedMatch, nil); ok {
			tests = append(tests, test)
		}
		d.matches = append(d.matches, n.text)
	}
	return routes, tests
}

// headers returns a test for each header field, which must have one of some values.
func (r *reader) headers(f field, d *detail) (tests []func(*http.Request) bool) {
	if f.value.kind != aTable {
		r.unexpected(f, f.value, "a table of header fields and values")
		return nil
	}
	seen := make(map[string]spot)
	for _, h := range f.value.table {
		name := http.CanonicalHeaderKey(h.key.text)
		switch {
		case r.isRepeated(seen, name, h.key.spot):
		case name == "Host":
			r.add(h.key.spot, "headers: write the host in front of a pattern in match instead: example.com/login")
		case !isToken(name):
			r.add(h.key.spot, "headers: %q is not the name of a header field", h.key.text)
		}
		var values []string
		for _, v := range r.texts(h) {
			values = append(values, v.text)
		}
		d.headers = append(d.headers, header{name, values})
		r.needs = append(r.needs, "header "+name)
		tests = append(tests, func(req *http.Request) bool {
			return slices.ContainsFunc(req.Header.Values(name), func(v string) bool { return slices.Contains(values, v) })
		})
	}
	return tests
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func all(tests []func(*http.Request) bool) func(*http.Request) bool {
	if len(tests) == 0 {
		return nil
	}
	return func(r *http.Request) bool {
		for _, test := range tests {
			if !test(r) {
				return false
			}
		}
		return true
	}
}

func (r *reader) cost(fields map[string]field, rule *core.Rule, d *detail) {
	f, ok := fields["cost"]
	if !ok {
		return
	}
	if d.cost = r.text(f); d.cost == "" {
		return
	}
	n, err := strconv.Atoi(d.cost)
	switch {
	case err != nil && isName(d.cost) && (d.cost[0] < '0' || d.cost[0] > '9') && d.cost[0] != '-':
		rule.Cost, _ = find(r, f.value.spot, d.cost, "cost", r.funcs.Costs, assumedCost, nil)
	case err != nil, n < 1, n > 1_000_000_000:
		r.add(f.value.spot, "cost: want a whole number from 1 to 1000000000, or a function, got %q", d.cost)
	default:
		rule.Cost = func(*http.Request) int { return n }
		if _, held := fields["cost_after"]; held {
			return // at most a capacity is held
		}
		for _, l := range rule.Limits {
			if l.Algorithm != core.InFlight && l.Rate > 0 && n > l.Capacity() {
				r.warn(f.value.spot, fmt.Sprintf("cost: %v does not admit %d at once; want a larger rate or burst, or a smaller cost", l, n))
			}
		}
	}
}

func (r *reader) costAfter(f field, name string) (cost func(*http.Request, core.Outcome) int) {
	switch name {
	case "":
	case "failures":
		return core.Failures
	default:
		cost, _ = find(r, f.value.spot, name, "cost_after", r.funcs.CostsAfter, assumedFinal, []string{"failures"})
	}
	return cost
}
