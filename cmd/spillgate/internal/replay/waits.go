package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/core"
)

// A WaitReport has the clients that would have waited for their turn under a rule, and for how long.
type WaitReport struct {
	Waited  int           `json:"waited"` // requests
	Mean    time.Duration `json:"mean_ns"`
	Longest time.Duration `json:"longest_ns"`
	Clients []ClientWaits `json:"clients"` // the clients with the most waiting requests
}

// ClientWaits are the requests of a client that would have waited.
type ClientWaits struct {
	Key     string        `json:"key"`
	Waited  int           `json:"waited"`
	Longest time.Duration `json:"longest_ns"`
}

// waitTally counts the requests of a rule that wait.
type waitTally struct {
	total   time.Duration
	clients map[uint64]ClientWaits
}

// count counts an admitted request with these results of a rule. hash is the hash of its key.
func (w *waitTally) count(hash uint64, key string, results []core.Result) {
	wait := time.Duration(0)
	for i := range results {
		wait = max(wait, results[i].Wait)
	}
	if wait == 0 {
		return
	}
	if w.clients == nil {
		w.clients = make(map[uint64]ClientWaits)
	}
	c, known := w.clients[hash]
	if !known {
		c.Key = strings.Clone(key)
	}
	c.Waited++
	c.Longest = max(c.Longest, wait)
	w.total += wait
	w.clients[hash] = c
}

// report returns nil if no request waits.
func (w *waitTally) report() *WaitReport {
	if len(w.clients) == 0 {
		return nil
	}
	r := &WaitReport{Clients: slices.Collect(maps.Values(w.clients))}
	for _, c := range r.Clients {
		r.Waited += c.Waited
		r.Longest = max(r.Longest, c.Longest)
	}
	r.Mean = w.total / time.Duration(r.Waited)
	slices.SortFunc(r.Clients, func(a, b ClientWaits) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(b.Longest, a.Longest), cmp.Compare(a.Key, b.Key))
	})
	r.Clients = r.Clients[:min(len(r.Clients), shown)]
	return r
}
