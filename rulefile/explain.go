package rulefile

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// An Explanation says whether a rule applies to a request, and why.
type Explanation struct {
	Rule      string   `json:"rule"`
	Applies   string   `json:"applies"` // yes, no, or depends: on functions of the program
	Why       []string `json:"why"`
	Key       string   `json:"key"`
	ClientKey string   `json:"client_key,omitempty"` // of the request; empty if it depends on functions of the program or on what a server knows
	NoKey     string   `json:"no_key,omitempty"`     // why the request has no key, which gets status 400
	Limits    string   `json:"limits"`
	Tiers     string   `json:"tiers,omitempty"`
	Overrides int      `json:"overrides,omitempty"`  // number of keys and networks with their own limits
	OwnLimits string   `json:"own_limits,omitempty"` // of ClientKey, in place of Limits and Tiers
	Cost      string   `json:"cost,omitempty"`
	CostAfter string   `json:"cost_after,omitempty"`
	DryRun    bool     `json:"dry_run,omitempty"`
	OnFailure string   `json:"on_failure"`
	Lease     string   `json:"lease,omitempty"`
	MaxWait   string   `json:"max_wait,omitempty"`
}

// Explain returns for each rule, in order, whether it applies to a request and why.
func (f *File) Explain(r *http.Request) ([]Explanation, error) {
	matched, err := f.matchedRoutes(r)
	if err != nil {
		return nil, err
	}
	all := make([]Explanation, len(f.Rules))
	for i := range f.Rules {
		rule, d := &f.Rules[i], &f.details[i]
		e := Explanation{
			Rule: rule.Name, Applies: "yes", Key: d.key, Limits: limitsText(rule.Limits), Cost: d.cost, CostAfter: d.costAfter, DryRun: rule.DryRun,
			OnFailure: failureText(rule.OnFailure),
		}
		if d.tiers.fn != "" {
			e.Tiers = d.tiers.String()
		}
		if rule.Lease > 0 {
			e.Lease = rule.Lease.String()
		}
		if rule.MaxWait > 0 {
			e.MaxWait = rule.MaxWait.String()
		}
		if d.overrides != nil {
			e.Overrides = d.overrides.count
		}
		e.routes(rule.Routes, matched[i])
		e.headers(d.headers, r)
		if len(d.matches) > 0 {
			e.Why = append(e.Why, "the program decides by "+strings.Join(d.matches, ", "))
			if e.Applies == "yes" {
				e.Applies = "depends"
			}
		}
		if d.skip != nil {
			if why := d.skip.why(r); why != "" {
				e.Applies, e.Why = "no", []string{"skipped: " + why}
			} else if d.skip.networks != nil && r.RemoteAddr == "" && e.Applies != "no" {
				e.Why = append(e.Why, "the request has no address here, so skip.addresses was left out")
			}
		}
		if e.Applies != "no" {
			e.clientKey(rule.Key, r)
		}
		if d.overrides != nil && e.ClientKey != "" {
			e.OwnLimits = limitsText(rule.Override(e.ClientKey))
		}
		all[i] = e
	}
	return all, nil
}

// clientKey sets the key of r. A request without a client is missing an address, not a key.
func (e *Explanation) clientKey(key core.KeyFunc, r *http.Request) {
	k, err := key(r)
	switch {
	case err == nil:
		e.ClientKey = k
	case r.RemoteAddr != "" && errors.Is(err, core.ErrNoKey), errors.Is(err, core.ErrBadKey):
		e.NoKey = err.Error()
	}
}

// matchedRoutes returns the patterns that match r, by the index of their rule, as a limiter finds them.
func (f *File) matchedRoutes(r *http.Request) (map[int][]string, error) {
	type pattern struct {
		rule int
		text string
	}
	var patterns []pattern
	var rules []core.Rule
	for i := range f.Rules {
		for _, text := range f.Rules[i].Routes {
			name := fmt.Sprint(len(patterns))
			patterns = append(patterns, pattern{i, text})
			rules = append(rules, core.Rule{Name: name, Key: assumedKey, Limits: []core.Limit{core.PerSecond(1)}, Routes: []string{text}})
		}
	}
	matched := make(map[int][]string)
	if len(rules) == 0 {
		return matched, nil
	}
	l, err := core.New(rules)
	if err != nil {
		return nil, err
	}
	d, err := l.Peek(r)
	for _, res := range d.Results {
		var n int
		if _, err := fmt.Sscan(res.Rule, &n); err != nil {
			return nil, err
		}
		matched[patterns[n].rule] = append(matched[patterns[n].rule], patterns[n].text)
	}
	return matched, err
}

func (e *Explanation) routes(routes, matched []string) {
	switch {
	case len(routes) == 0:
		e.Why = append(e.Why, "it has no patterns, so it applies to every path")
	case len(matched) == 0:
		e.Applies = "no"
		e.Why = append(e.Why, "no pattern matches: "+strings.Join(routes, ", "))
	default:
		e.Why = append(e.Why, "matches "+strings.Join(matched, ", "))
	}
}

func (e *Explanation) headers(headers []header, r *http.Request) {
	for _, h := range headers {
		want, got := strings.Join(h.values, " or "), r.Header.Values(h.name)
		switch {
		case slices.ContainsFunc(got, func(v string) bool { return slices.Contains(h.values, v) }):
			e.Why = append(e.Why, fmt.Sprintf("%s is %s", h.name, want))
		case len(got) == 0:
			e.Applies = "no"
			e.Why = append(e.Why, fmt.Sprintf("%s is not there, want %s", h.name, want))
		default:
			e.Applies = "no"
			e.Why = append(e.Why, fmt.Sprintf("%s is %s, want %s", h.name, strings.Join(got, ", "), want))
		}
	}
}
