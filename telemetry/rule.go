package telemetry

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

// maxLimits is how many limits of a rule are counted separately. If tiers, or rules that SetRules has replaced, have used them
// up, the limits of the active rules are counted separately until there are maxActive.
const (
	maxLimits = 50
	maxActive = 100
)

// A rule holds the counts of one rule name.
type rule struct {
	name   string
	limits atomic.Pointer[[]limit] // replaced as a whole under mu

	// Requests since the start, each counted once whatever the number of limits. Requests that only other rules denied are not
	// counted, so that no rule shows more allowed requests than there were.
	allowed, denied, wouldDeny atomic.Uint64
	waits                      waits
	overridden                 overridden
	history                    history

	mu      sync.Mutex
	top     top
	pending uint64        // denials of keys in top that are in no log line yet
	rest    uint64        // denials of other keys that are in no log line yet
	restAt  time.Duration // time of the last line about rest since the start; 0: none was written
}

// limitCounts are the counts of all limits of a rule with the same label.
type limitCounts struct {
	label   string
	results [results]atomic.Uint64
}

// A limit is a limit and its counts. Limits with the same label share them.
type limit struct {
	core.Limit
	*limitCounts
}

func newRule(name string, size int) *rule {
	r := &rule{name: name, top: top{size: size}, overridden: overridden{top: top{size: size}}}
	r.limits.Store(&[]limit{})
	return r
}

// count counts the results of one claim of a request that was allowed or denied. It returns the first result that denied the
// request, or nil, and whether a dry run would have denied it.
func (r *rule) count(all []core.Result, allowed bool) (denied *core.Result, would bool) {
	wait := time.Duration(0)
	for i := range all {
		result := &all[i]
		kind := resultAllowed
		l := r.limit(&result.Limit)
		if !result.DryRun {
			wait = max(wait, result.Wait)
		}
		switch {
		case result.DryRun && result.Wait > 0:
			kind = resultWouldWait
		case result.Allowed && int64(result.Remaining)*5 < int64(result.Quota()): // an int may have 32 bits
			kind = resultNear
		case result.Allowed:
		case result.DryRun:
			kind, would = resultWouldDeny, true
		default:
			kind = resultDenied
			if denied == nil {
				denied = result
			}
		}
		l.results[kind].Add(1)
	}
	switch {
	case denied != nil:
		r.denied.Add(1)
	case !allowed:
	case would:
		r.wouldDeny.Add(1)
	default:
		r.allowed.Add(1)
		r.waits.count(wait)
	}
	return denied, would
}

// limit returns the counts of a limit.
func (r *rule) limit(wanted *core.Limit) *limitCounts {
	known := *r.limits.Load()
	for i := range known {
		if known[i].Limit == *wanted {
			return known[i].limitCounts
		}
	}
	if len(known) > maxLimits {
		return known[maxLimits].limitCounts
	}
	return r.addLimit(*wanted, maxLimits)
}

// addLimit adds a limit, which shares the counts of a limit with the same label, if there is one. Once r has as many limits as
// most, all further limits share one count.
func (r *rule) addLimit(wanted core.Limit, most int) *limitCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := *r.limits.Load()
	if i := slices.IndexFunc(before, func(l limit) bool { return l.Limit == wanted }); i >= 0 {
		return before[i].limitCounts // added in the meantime
	}
	after := slices.Clone(before)
	if len(after) == maxLimits {
		after = append(after, limit{core.Limit{}, &limitCounts{label: other}})
	}
	at := maxLimits
	if len(after) < most {
		added := limit{wanted, &limitCounts{label: wanted.String()}}
		if i := slices.IndexFunc(before, func(l limit) bool { return l.label == added.label }); i >= 0 {
			added.limitCounts = before[i].limitCounts
		}
		at, after = len(after), append(after, added)
	}
	r.limits.Store(&after)
	return after[at].limitCounts
}

// ruleOutcomes are the names of the values that totals returns.
var ruleOutcomes = [3]string{"allowed", "denied", "would_deny"}

// totals returns how many requests were allowed, denied, and would have been denied.
func (r *rule) totals() [3]uint64 {
	return [3]uint64{r.allowed.Load(), r.denied.Load(), r.wouldDeny.Load()}
}
