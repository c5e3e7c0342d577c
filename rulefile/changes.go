package rulefile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/core"
)

// changes describes how a file and rules differ from the active ones: one text for proxies, for skip and for each rule.
// rules begins with the rules of file. Proxies, skip and overrides can be long, so the texts only say that they differ.
func (w *watcher) changes(file *File, rules []core.Rule) (texts []string) {
	before := make(map[string]int)
	active := w.limiter.Rules()
	for i := range active {
		before[active[i].Name] = i
	}
	for _, name := range []string{"proxies", "skip"} {
		if w.active != nil && w.active.tables[name] != file.tables[name] {
			texts = append(texts, name+": edited")
		}
	}
	for i := range rules {
		now := &rules[i]
		j, known := before[now.Name]
		delete(before, now.Name)
		if !known {
			texts = append(texts, fmt.Sprintf("%s: new, %s", now.Name, limitsText(now.Limits)))
			continue
		}
		differences := ruleChanges(&active[j], now)
		if w.active != nil && i < len(file.details) && j < len(w.active.details) && w.active.Rules[j].Name == now.Name {
			differences = append(differences, detailChanges(&w.active.details[j], &file.details[i])...)
		}
		if len(differences) > 0 {
			texts = append(texts, now.Name+": "+strings.Join(differences, ", "))
		}
	}
	for i := range active {
		if _, gone := before[active[i].Name]; gone {
			texts = append(texts, active[i].Name+": removed")
		}
	}
	if len(texts) == 0 {
		return []string{"none"}
	}
	return texts
}

// ruleChanges describes how the data of two rules differ.
func ruleChanges(a, b *core.Rule) (differences []string) {
	add := func(what, from, to string) {
		if from != to {
			differences = append(differences, strings.TrimSpace(what+" "+from)+" → "+to)
		}
	}
	add("", limitsText(a.Limits), limitsText(b.Limits))
	add("match", routesText(a.Routes), routesText(b.Routes))
	add("dry run", fmt.Sprint(a.DryRun), fmt.Sprint(b.DryRun))
	if a.Lease != b.Lease {
		add("lease", a.Lease.String(), b.Lease.String())
	}
	if a.MaxWait != b.MaxWait {
		add("max wait", a.MaxWait.String(), b.MaxWait.String())
	}
	if a.OnFailure != b.OnFailure {
		add("on failure", failureText(a.OnFailure), failureText(b.OnFailure))
	}
	return differences
}

// detailChanges describes the differences between two versions of a rule that show only in the text of the file.
func detailChanges(a, b *detail) (differences []string) {
	for _, t := range []struct{ what, from, to string }{
		{"key", a.key, b.key}, {"cost", orNone(a.cost), orNone(b.cost)}, {"cost_after", orNone(a.costAfter), orNone(b.costAfter)}, {"tiers", a.tiers.String(), b.tiers.String()}, {"overrides", a.overrides.String(), b.overrides.String()},
		{"headers", headersText(a.headers), headersText(b.headers)}, {"functions", listText(a.matches), listText(b.matches)},
	} {
		if t.from != t.to {
			differences = append(differences, t.what+" "+t.from+" → "+t.to)
		}
	}
	if a.overrides.String() == b.overrides.String() && !reflect.DeepEqual(a.overrides, b.overrides) {
		differences = append(differences, "overrides edited")
	}
	return differences
}

func limitsText(limits []core.Limit) string {
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = l.String()
	}
	return strings.Join(texts, ", ")
}

func routesText(routes []string) string {
	if len(routes) == 0 {
		return "every request"
	}
	return strings.Join(routes, ", ")
}

func failureText(m core.FailureMode) string {
	if int(m) < len(failures) {
		return failures[m]
	}
	return fmt.Sprint(m)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func listText(list []string) string { return orNone(strings.Join(list, ", ")) }

func headersText(headers []header) string {
	texts := make([]string, len(headers))
	for i, h := range headers {
		texts[i] = h.name + ": " + strings.Join(h.values, " or ")
	}
	slices.Sort(texts)
	return listText(texts)
}

// String returns "plan: pro 100/1s, free 1/1s", or "none".
func (t tiers) String() string {
	if t.fn == "" {
		return "none"
	}
	texts := make([]string, len(t.names))
	for i, name := range t.names {
		texts[i] = name + " " + limitsText(t.limits[name])
	}
	return t.fn + ": " + strings.Join(texts, ", ")
}
