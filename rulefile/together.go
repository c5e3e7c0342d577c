package rulefile

import (
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// checkRules checks all rules together with core.New, such as routes against each other, and adds what it reports at the place of
// the rule or route.
func (r *reader) checkRules() {
	if len(r.rules) == 0 {
		return
	}
	_, err := core.New(r.rules)
	if err == nil {
		return
	}
	places := r.places()
	for line := range strings.SplitSeq(err.Error(), "\n") {
		at := spot{1, 1}
		text := strings.TrimPrefix(strings.TrimPrefix(line, "spillgate: "), "invalid: ")
		for _, p := range places {
			if strings.HasPrefix(text, p.prefix) {
				at, text = p.at, strings.TrimPrefix(text, p.cut)
				break
			}
		}
		r.add(at, "%s", text)
	}
}

// A place is the spot of mistakes whose text begins with a prefix. cut is removed from the text.
type place struct {
	prefix, cut string
	at          spot
}

// places returns the places of routes and then those of rules.
func (r *reader) places() (places []place) {
	for i, d := range r.about {
		rule := fmt.Sprintf("rule %q: ", r.rules[i].Name)
		if f, ok := d.fields["match"]; ok {
			for _, n := range append(f.value.list, f.value) {
				route := rule + fmt.Sprintf("route %q", n.text)
				places = append(places, place{route + ": ", route + ": ", n.spot}, place{route, rule, n.spot})
			}
		}
	}
	for i, d := range r.about {
		rule := fmt.Sprintf("rule %q: ", r.rules[i].Name)
		at := d.node.spot
		if f, ok := d.fields["name"]; ok {
			places = append(places, place{rule + "name ", rule, f.value.spot})
		}
		if f, ok := d.fields["lease"]; ok {
			places = append(places, place{rule + "lease ", rule, f.value.spot})
		}
		places = append(places, place{rule, rule, at})
	}
	return places
}
