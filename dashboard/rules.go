package dashboard

import (
	"slices"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/telemetry"
)

type rule struct {
	Name      string   `json:"name"`
	Routes    []string `json:"routes,omitempty"`
	DryRun    bool     `json:"dryRun,omitempty"`
	OnFailure string   `json:"onFailure,omitempty"` // "" if no limiter has the rule: it was removed, or only claims name it
	Limits    []limit  `json:"limits"`
	Waited    uint64   `json:"waited,omitempty"`
	Own       uint64   `json:"own,omitempty"` // decisions with limits from an override
	Recent    [3]int   `json:"recent"`        // allowed, denied, would deny in the last 10 complete seconds
}

// A limit counts the results of one limit.
type limit struct {
	Limit   string            `json:"limit"`
	Results map[string]uint64 `json:"results"`
	Other   bool              `json:"other,omitempty"` // not one of Rule.Limits: from a tier, or from the rule before it was changed
}

// rules returns the rules of all limiters, in their order, and then the counted rules that no limiter has.
func (h *handler) rules(s telemetry.Snapshot) []rule {
	results := make(map[string][]limit)
	var names []string
	for _, r := range s.Results {
		limits, known := results[r.Rule]
		if !known {
			names = append(names, r.Rule)
		}
		if n := len(limits); n == 0 || limits[n-1].Limit != r.Limit {
			limits = append(limits, limit{Limit: r.Limit, Results: make(map[string]uint64)})
		}
		limits[len(limits)-1].Results[r.Result] = r.Count
		results[r.Rule] = limits
	}
	waited := make(map[string]uint64)
	for _, w := range s.Waits {
		waited[w.Rule] = w.Count
	}
	own := make(map[string]uint64)
	for _, q := range s.Quotas {
		own[q.Rule] = q.Overridden
	}
	all := []rule{} // an empty list in JSON, not null
	seen := make(map[string]bool)
	add := func(c core.Rule) {
		if !seen[c.Name] {
			seen[c.Name] = true
			all = append(all, rule{c.Name, c.Routes, c.DryRun, failureModes[c.OnFailure], arrange(c.Limits, results[c.Name]), waited[c.Name], own[c.Name], h.recent(c.Name)})
		}
	}
	for _, l := range h.telemetry.Limiters() {
		for _, c := range l.Rules() {
			add(c)
		}
	}
	for _, name := range names {
		if !seen[name] {
			all = append(all, rule{Name: name, Limits: results[name], Waited: waited[name], Own: own[name], Recent: h.recent(name)})
		}
	}
	return all
}

// arrange returns the limits of a rule in its order, with their counts, and then all other counted limits.
func arrange(own []core.Limit, counted []limit) (all []limit) {
	for _, l := range own {
		wanted := l.String()
		i := slices.IndexFunc(counted, func(c limit) bool { return c.Limit == wanted })
		if i < 0 {
			all = append(all, limit{Limit: wanted, Results: map[string]uint64{}})
			continue
		}
		all = append(all, counted[i])
	}
	for _, c := range counted {
		if !slices.ContainsFunc(all, func(l limit) bool { return l.Limit == c.Limit }) {
			c.Other = len(own) > 0
			all = append(all, c)
		}
	}
	return all
}

var failureModes = map[core.FailureMode]string{core.FailLocal: "local", core.FailOpen: "open", core.FailClosed: "closed"}
