package telemetry

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Quotas is how many decisions of a rule used the limits that core.Rule.Override has for a key, and how many grants the
// attached limiters have made.
type Quotas struct {
	Rule       string
	Overridden uint64
	Grants     uint64
}

// An OverriddenKey is a key whose limits come from core.Rule.Override. Count is how many decisions used them.
type OverriddenKey struct {
	Row
	Limits string    // of the last decision, such as "100000/month"
	Last   time.Time // when it was made, to the second
}

// A Grant is a grant that an attached limiter has made.
type Grant struct {
	Rule     string
	Key      string // masked, unless Options.Unmask is set
	Requests int    // negative if they were taken away
	At       time.Time
}

// overridden are the decisions of a rule that used limits from an Override.
type overridden struct {
	count atomic.Uint64

	mu  sync.Mutex
	top top // of the keys
}

func (o *overridden) add(c *core.Claim, second int64) {
	o.count.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	e, _ := o.top.add(c.Key)
	e.limits, e.second = c.Limits, second
}

// Overridden returns the n keys of a rule for which an Override set the limits of most decisions since the start. It
// returns nil if there are none. A key stays in the list after its override was removed, but its Last no longer
// changes.
func (t *Telemetry) Overridden(rule string, n int) (keys []OverriddenKey) {
	r := t.rules.Load().named(rule)
	if r == nil {
		return nil
	}
	r.overridden.mu.Lock()
	defer r.overridden.mu.Unlock()
	for _, e := range r.overridden.top.most(n) {
		var limits []string
		for _, l := range e.limits {
			limits = append(limits, l.String())
		}
		keys = append(keys, OverriddenKey{t.rowOf(e), strings.Join(limits, ", "), t.clock.time(e.second)})
	}
	return keys
}

// Grants returns the last n grants of the attached limiters, the newest first. Each limiter remembers its last 100.
func (t *Telemetry) Grants(n int) (all []Grant) {
	for _, l := range t.Limiters() {
		for _, g := range l.Grants().Last {
			key := g.Key
			if !t.mask.off {
				key = t.mask.text(key)
			}
			all = append(all, Grant{g.Rule, key, g.Requests, g.At})
		}
	}
	slices.SortStableFunc(all, func(a, b Grant) int { return b.At.Compare(a.At) })
	return all[:max(0, min(n, len(all)))]
}

// quotas returns the counts of each rule.
func (t *Telemetry) quotas() (all []Quotas) {
	granted := make(map[string]uint64)
	for _, l := range t.Limiters() {
		for rule, n := range l.Grants().Made {
			granted[t.rule(rule).name] += n
		}
	}
	for _, r := range t.rules.Load().all {
		all = append(all, Quotas{r.name, r.overridden.count.Load(), granted[r.name]})
	}
	return all
}
