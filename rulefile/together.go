package rulefile

import (
	"fmt"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// checkRules has core.New check what only it knows, above all routes against each other, and places what it reports.
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

// A place is where a mistake is whose text begins with a prefix. What says where it is, is cut off.
type place struct {
	prefix, cut string
	at          spot
}

// places returns those of routes before those of rules.
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
