package rulefile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// checkRules checks all rules together with core.New, for example for conflicting routes, and adds each error at the
// place of its rule or route. Of two rules that conflict, core.New reports the later one, so the rules of the program
// come first.
func (r *reader) checkRules() {
	if len(r.rules) == 0 {
		return
	}
	_, err := core.New(slices.Concat(r.also, r.rules))
	if err == nil {
		return
	}
	rules, routes := r.places()
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text := strings.TrimPrefix(strings.TrimPrefix(line, "spillgate: "), "invalid: ")
		name, _ := strconv.QuotedPrefix(strings.TrimPrefix(text, "rule "))
		d, ok := rules[name]
		if !ok {
			r.add(spot{1, 1}, "%s", text)
			continue
		}
		at := d.node.spot
		text = strings.TrimPrefix(text, "rule "+name+": ")
		about, _, _ := strings.Cut(text, " ")
		switch about {
		case "name", "lease", "max":
			if f, ok := d.fields[map[string]string{"name": "name", "lease": "lease", "max": "max_wait"}[about]]; ok {
				at = f.value.spot
			}
		case "route":
			route, _ := strconv.QuotedPrefix(strings.TrimPrefix(text, "route "))
			if n, ok := routes[name+route]; ok {
				at, text = n.spot, strings.TrimPrefix(text, "route "+route+": ")
			}
		}
		r.add(at, "%s%s", text, r.conflict(text))
	}
}

// conflict names the rule of the program whose pattern, according to text, conflicts with a pattern of the file, if
// there is one.
func (r *reader) conflict(text string) string {
	for _, rule := range r.also {
		for _, route := range rule.Routes {
			if strings.Contains(text, "conflicts with pattern "+strconv.Quote(route)) {
				return fmt.Sprintf(" Pattern %q belongs to rule %s in Options.Also.", route, rule.Name)
			}
		}
	}
	return ""
}

// checked returns a copy of the rules of a program, each with its name.
func checked(also []core.Rule) ([]core.Rule, error) {
	if len(also) == 0 {
		return nil, nil
	}
	l, err := core.New(also)
	if err != nil {
		return nil, fmt.Errorf("spillgate: mistakes in Options.Also:\n%w", err)
	}
	return l.Rules(), nil
}

// places returns the details of rules by their quoted names, and the nodes of routes by the quoted name of the rule and
// the quoted route.
func (r *reader) places() (rules map[string]detail, routes map[string]*node) {
	rules, routes = make(map[string]detail), make(map[string]*node)
	for i, d := range r.about {
		name := strconv.Quote(r.rules[i].Name)
		rules[name] = d
		f, ok := d.fields["match"]
		if !ok {
			continue
		}
		for _, n := range append(f.value.list, f.value) {
			if id := name + strconv.Quote(n.text); routes[id] == nil {
				routes[id] = n
			}
		}
	}
	return rules, routes
}
