package rulefile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// limitsOf reads the limits of a rule and of its tiers.
func (r *reader) limitsOf(n *node, fields map[string]field, rule *core.Rule, d *detail) {
	f, ok := fields["limits"]
	if !ok {
		r.add(n.spot, "a rule needs limits, such as 100/m")
	} else if limits := r.limits(f); limits != nil {
		rule.Limits = limits
	}
	if f, ok := fields["tiers"]; ok {
		r.tiers(f, rule, d)
	}
}

// limits reads limits that are a text or a list of texts. It returns nil after a mistake.
func (r *reader) limits(f field) (limits []core.Limit) {
	ok := true
	var words []string
	for _, n := range r.texts(f) {
		for offset, word := range items(n.text) {
			if words = append(words, word); len(words) > 2*maxLimits {
				r.add(n.within(offset), "%s: there are more than %d limits", f.key.text, 2*maxLimits)
				return nil
			}
			one, err := core.ParseLimits(word)
			if err != nil {
				ok = false
				r.addError(n.within(offset), err)
			}
			limits = append(limits, one...)
		}
	}
	if !ok || len(limits) == 0 {
		return nil
	}
	if _, err := core.ParseLimits(strings.Join(words, ", ")); err != nil { // each is valid, but not all together
		r.addError(f.value.spot, err)
		return nil
	}
	for _, l := range limits {
		if i := slices.IndexFunc(limits, func(a core.Limit) bool { return isLaxer(l, a) }); i >= 0 {
			r.warn(f.value.spot, fmt.Sprintf("%s: %v never denies, because %v is used up first", f.key.text, l, limits[i]))
		}
	}
	return limits
}

// isLaxer reports whether a limit never denies what another limit of the same rule admits. It does not find all of them.
func isLaxer(l, a core.Limit) bool {
	if l == a || l.Algorithm != a.Algorithm || l.Period == 0 || a.Period == 0 || l.Ban > 0 || a.Rate == 0 {
		return false
	}
	switch l.Algorithm {
	case core.FixedWindow, core.SlidingLog:
		if l.Period%a.Period != 0 {
			return false
		}
	case core.SlidingWindow:
		return false
	}
	return l.Capacity() >= a.Capacity() && float64(l.Rate)*float64(a.Period) >= float64(a.Rate)*float64(l.Period)
}

// limitsInstead is limits for limits that replace the rule's own limits. It also checks that requests can wait under
// them, if the rule has a MaxWait.
func (r *reader) limitsInstead(f field, rule *core.Rule) []core.Limit {
	limits := r.limits(f)
	if limits == nil || rule.MaxWait <= 0 {
		return limits
	}
	claim := core.Claim{Limits: limits, MaxWait: min(rule.MaxWait, time.Hour)}
	if err := claim.Validate(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			_, text, _ := strings.Cut(line, `rule "default": `)
			r.add(f.value.spot, "%s: %s", f.key.text, text)
		}
	}
	return limits
}

// maxLimits is how many limits core accepts. The reader reads up to twice as many, to report the mistakes in them.
const maxLimits = 16

// items yields the items of a text that is separated by commas, without white space around them, and their offsets.
func items(text string) func(func(int, string) bool) {
	return func(yield func(int, string) bool) {
		start := 0
		for item := range strings.SplitSeq(text, ",") {
			word := strings.TrimLeft(item, " \t\n")
			if !yield(start+len(item)-len(word), strings.TrimRight(word, " \t\n")) {
				return
			}
			start += len(item) + 1
		}
	}
}

// addError adds each line of an error of core as a mistake.
func (r *reader) addError(at spot, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimPrefix(strings.TrimPrefix(line, "spillgate: "), "invalid: ")
		r.add(at, "%s", line)
	}
}

// tiers are the limits of a rule by the name of the tier.
type tiers struct {
	fn     string
	names  []string
	limits map[string][]core.Limit
}

func (r *reader) tiers(f field, rule *core.Rule, d *detail) {
	if f.value.kind != aTable {
		r.unexpected(f, f.value, "a table with func and the limits of each tier")
		return
	}
	d.tiers.limits = make(map[string][]core.Limit)
	var fn field
	seen := make(map[string]spot)
	for _, t := range f.value.table {
		switch name := t.key.text; {
		case r.isRepeated(seen, name, t.key.spot):
		case name == "func":
			fn = t
		default:
			d.tiers.names = append(d.tiers.names, name)
			d.tiers.limits[name] = r.limitsInstead(t, rule)
		}
	}
	if fn.key == nil {
		r.add(f.key.spot, "tiers: func is missing: the function that returns the tier of a request")
		return
	}
	if len(d.tiers.names) == 0 {
		r.add(f.key.spot, "tiers: there are no tiers")
	}
	if d.tiers.fn = r.text(fn); d.tiers.fn == "" {
		return
	}
	if tierOf, ok := find(r, fn.value.spot, d.tiers.fn, "tier function", r.funcs.Tiers, assumedTier, nil); ok {
		limits := d.tiers.limits
		rule.Tier = func(req *http.Request) []core.Limit { return limits[tierOf(req)] }
	}
}
