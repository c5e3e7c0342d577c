package dashboard

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/spillgate/spillgate/telemetry"
)

const (
	historySeconds = 3600
	recentSeconds  = 3 // of history in each event but the first: the current second, and the seconds that may have changed since the last event
	topKeys        = 20
	topRules       = 50 // whose keys are compared, if the page shows all rules: the rules with the highest counts
)

// A report is the content of an event. Its times are in Unix milliseconds.
type report struct {
	Now      int64             `json:"now"`
	Start    int64             `json:"start"`
	Requests map[string]uint64 `json:"requests"` // by outcome
	Degraded uint64            `json:"degraded"`
	Rules    []rule            `json:"rules"`
	Rule     string            `json:"rule"`    // that History and Top are of; "" for all
	From     int64             `json:"from"`    // the first second of History, in seconds
	History  [3][]int          `json:"history"` // allowed, denied, would deny; per second
	Top      []key             `json:"top"`
	Own      []overridden      `json:"own,omitempty"` // keys with limits of their own
	Grants   []grant           `json:"grants,omitempty"`
	Held     int               `json:"held"`
	Settled  map[string]uint64 `json:"settled"` // by result
	Keys     keys              `json:"keys"`
	Leases   leases            `json:"leases"`
	Store    store             `json:"store"`
	File     *rulesFile        `json:"file,omitempty"`
	Reset    bool              `json:"reset"` // whether the client may reset keys
}

// keys and leases have the fields of telemetry.Keys and telemetry.Leases.
type keys struct {
	Own    int `json:"own"`
	Shared int `json:"shared"`
}

type leases struct {
	Keys      int    `json:"keys"`
	Decisions uint64 `json:"decisions"`
	Returned  uint64 `json:"returned"`
}

type key struct {
	Rule  string `json:"rule"`
	Key   string `json:"key"`
	ID    string `json:"id"`
	Count uint64 `json:"count"`
}

// An overridden key has limits from an override. Count is how many decisions used them.
type overridden struct {
	key
	Limits string `json:"limits"`
	Last   int64  `json:"last"`
}

type grant struct {
	Rule     string `json:"rule"`
	Key      string `json:"key"`
	Requests int    `json:"requests"`
	At       int64  `json:"at"`
}

type store struct {
	Down     bool      `json:"down"`
	Since    int64     `json:"since,omitempty"`
	Error    string    `json:"error,omitempty"`
	Failures uint64    `json:"failures"`
	Seconds  float64   `json:"seconds"` // of all calls
	Calls    []uint64  `json:"calls"`   // by duration
	Bounds   []float64 `json:"bounds"`  // of the durations, in seconds
}

type rulesFile struct {
	Path     string `json:"path"`
	Hash     string `json:"hash"`
	Loaded   int64  `json:"loaded,omitempty"`
	Failures uint64 `json:"failures"`
	Error    string `json:"error,omitempty"`
}

// report returns the state now, with the last seconds of the history of a rule, or of all.
func (h *handler) report(r *http.Request, name string, seconds int) report {
	s := h.telemetry.Snapshot()
	now, age := time.Now(), time.Since(s.Start)
	e := report{
		Now: now.UnixMilli(), Start: now.Add(-age).UnixMilli(), Requests: make(map[string]uint64),
		Rules: h.rules(s), Rule: name, Held: s.Held, Settled: make(map[string]uint64), Keys: keys(s.Keys), Leases: leases(s.Leases), Store: storeOf(s.Store), File: fileOf(s.File), Reset: h.authorize(r),
	}
	denied, own := make(map[string]uint64), make(map[string]uint64) // by rule
	for _, r := range s.Rules {
		if r.Outcome == "denied" {
			denied[r.Rule] = r.Count
		}
	}
	for _, q := range s.Quotas {
		own[q.Rule] = q.Overridden
	}
	for _, q := range s.Requests {
		e.Requests[q.Outcome] += q.Count
		if q.Degraded {
			e.Degraded += q.Count
		}
	}
	for _, q := range s.Settled {
		e.Settled[q.Result] = q.Count
	}
	shown := []string{name}
	if name == "" {
		shown = shown[:0]
		for _, r := range e.Rules {
			shown = append(shown, r.Name)
		}
	}
	e.From, e.History = h.history(age, name, seconds)
	e.Top = h.top(busiest(shown, denied))
	e.Own, e.Grants = h.overridden(busiest(shown, own)), h.grants(shown)
	return e
}

// busiest returns the topRules rules with the highest counts.
func busiest(names []string, counts map[string]uint64) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return names[:min(len(names), topRules)]
}

// overridden returns the keys with limits of their own for which rules decided most.
func (h *handler) overridden(names []string) (all []overridden) {
	for _, name := range names {
		for _, k := range h.telemetry.Overridden(name, topKeys) {
			all = append(all, overridden{key{name, k.Key, k.ID, k.Count}, k.Limits, k.Last.UnixMilli()})
		}
	}
	slices.SortStableFunc(all, func(a, b overridden) int { return cmp.Compare(b.Count, a.Count) })
	return all[:min(len(all), topKeys)]
}

// grants returns the last grants under rules.
func (h *handler) grants(names []string) (all []grant) {
	for _, g := range h.telemetry.Grants(math.MaxInt) {
		if len(all) < topKeys && slices.Contains(names, g.Rule) {
			all = append(all, grant{g.Rule, g.Key, g.Requests, g.At.UnixMilli()})
		}
	}
	return all
}

// recent returns the counts of the last 10 complete seconds.
func (h *handler) recent(name string) (sum [3]int) {
	seconds := h.telemetry.Recent(name, 11)
	for _, s := range seconds[:max(len(seconds)-1, 0)] {
		sum[0] += s.Allowed
		sum[1] += s.Denied
		sum[2] += s.WouldDeny
	}
	return sum
}

// history returns the last seconds of a rule, or of all requests, and the first of them.
func (h *handler) history(age time.Duration, name string, seconds int) (from int64, sums [3][]int) {
	seconds = max(1, min(seconds, int(age/time.Second)+2)) // not by the wall clock, which may have been set
	from = time.Now().Unix() - int64(seconds) + 1
	for i := range sums {
		sums[i] = make([]int, seconds)
	}
	for _, s := range h.telemetry.Recent(name, seconds) {
		if i := s.Time.Unix() - from; i >= 0 && i < int64(len(sums[0])) {
			sums[0][i], sums[1][i], sums[2][i] = s.Allowed, s.Denied, s.WouldDeny
		}
	}
	return from, sums
}

// top returns the keys that rules denied most. Several keys may have the same text, because keys are masked, or because
// several rules denied one key. They are next to each other and count as one of topKeys, so that they do not displace
// other keys.
func (h *handler) top(names []string) (all []key) {
	denials := make(map[string]uint64) // by the text of the key
	for _, name := range names {
		for _, row := range h.telemetry.Top(name, topKeys) {
			all = append(all, key{name, row.Key, row.ID, row.Count})
			denials[row.Key] += row.Count
		}
	}
	slices.SortStableFunc(all, func(a, b key) int {
		return cmp.Or(cmp.Compare(denials[b.Key], denials[a.Key]), cmp.Compare(a.Key, b.Key), cmp.Compare(b.Count, a.Count))
	})
	shown := 0
	for i := range all {
		if i == 0 || all[i].Key != all[i-1].Key {
			if shown++; shown > topKeys {
				return all[:i]
			}
		}
	}
	return all
}

func storeOf(s telemetry.Store) store {
	out := store{Down: s.Down, Failures: s.Failures, Seconds: s.Duration.Seconds(), Calls: s.Calls}
	if !s.Since.IsZero() {
		out.Since = s.Since.UnixMilli()
	}
	if s.Err != nil {
		out.Error = s.Err.Error()
	}
	for _, d := range telemetry.Buckets {
		out.Bounds = append(out.Bounds, d.Seconds())
	}
	return out
}

func fileOf(f telemetry.File) *rulesFile {
	if f.Path == "" {
		return nil
	}
	out := rulesFile{Path: f.Path, Hash: f.Hash, Failures: f.Failures}
	if !f.Loaded.IsZero() {
		out.Loaded = f.Loaded.UnixMilli()
	}
	if f.Err != nil {
		out.Error = f.Err.Error()
	}
	return &out
}
