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
	Other   bool              `json:"other,omitempty"` // in no limiter's Rule.Limits: from a tier, or from the rule before it was changed
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
	place := make(map[string]int)
	active := make(map[string][]core.Limit)
	for _, l := range h.telemetry.Limiters() {
		for _, c := range l.Rules() {
			i, known := place[c.Name]
			if !known {
				i, place[c.Name] = len(all), len(all)
				all = append(all, rule{Name: c.Name, Routes: c.Routes, DryRun: c.DryRun, OnFailure: failureModes[c.OnFailure]})
			}
			all[i].DryRun = all[i].DryRun && c.DryRun // a limiter may enforce what another one tries
			active[c.Name] = append(active[c.Name], c.Limits...)
		}
	}
	for _, name := range names {
		if _, known := place[name]; !known {
			all = append(all, rule{Name: name})
		}
	}
	for i := range all {
		r := &all[i]
		r.Limits, r.Waited, r.Own, r.Recent = arrange(active[r.Name], results[r.Name]), waited[r.Name], own[r.Name], h.recent(r.Name)
	}
	return all
}

// arrange returns the active limits of a rule in their order, with their counts, and then all other counted limits.
func arrange(own []core.Limit, counted []limit) (all []limit) {
	for _, l := range own {
		wanted := l.String()
		if slices.ContainsFunc(all, func(l limit) bool { return l.Limit == wanted }) {
			continue // two limiters have it
		}
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
