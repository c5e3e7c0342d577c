package telemetry

import (
	"time"
)

// A Snapshot is all counts since the start.
type Snapshot struct {
	Start    time.Time
	Requests []Requests     // every outcome, including those with a count of 0
	Results  []Results      // by rule and limit: every result, including those with a count of 0
	Rules    []RuleRequests // by rule: every outcome, including those with a count of 0
	Waits    []Waits        // by rule: how long requests had to wait for their turn
	Quotas   []Quotas       // by rule
	Waiting  int            // requests that wait now, in the attached limiters
	Settled  []Settled      // every way, including those with a count of 0
	Held     int            // claims that are held now; see Keys
	Keys     Keys
	Leases   Leases
	Store    Store
	File     File
}

// Requests is the number of requests with one outcome: allowed, denied, no_key, bad_key, invalid or unavailable.
// Degraded means that they were decided without the store.
type Requests struct {
	Outcome  string
	Degraded bool
	Count    uint64
}

// Results is how often one limit of a rule had one result: allowed, near, denied, would_deny or would_wait. Each limit
// is counted by itself, whatever the other limits decide. A result is near instead of allowed if less than a fifth of
// the capacity remains. It is would_wait if a dry run would have made the request wait for its turn.
type Results struct {
	Rule   string
	Limit  string // such as "100/1m"; "other" beyond 50 for one rule; see Attach
	Result string
	Count  uint64
}

// RuleRequests is the number of requests with one outcome under a rule: allowed, denied or would_deny. A request counts
// once, however many limits the rule has. A request that only other rules denied is not counted.
type RuleRequests struct {
	Rule    string
	Outcome string
	Count   uint64
}

// Waits are how long the allowed requests of a rule had to wait for their turn: see core.Rule.MaxWait.
type Waits struct {
	Rule     string
	Count    uint64        // requests that had to wait
	Buckets  []uint64      // those by duration, as in WaitBuckets
	Duration time.Duration // all of them together
}

// Settled is the number of requests that held a cost and were settled in one way: free, charged or failed.
type Settled struct {
	Result string
	Count  uint64
}

// Keys counts the pairs of rule and key that have their own state, and the states that pairs share because there was no
// room for their own. It covers the stores of the attached limiters that report these numbers, as a MemoryStore does.
// Snapshot.Held also comes from the stores if all of them report it; otherwise it counts the requests in flight in this
// process.
type Keys struct{ Own, Shared int }

// Leases describes the leases of the attached limiters' stores in this process; see core.Rule.Lease.
type Leases struct {
	Keys      int    // keys that are leased now
	Decisions uint64 // requests that were decided from leases alone
	Returned  uint64 // requests that were charged ahead and returned unused, or that had drained by then
}

// A Store has the counts of store calls that decided a request or settled what it held, and the health of the attached
// limiters' stores. If a request that may wait asks the store twice, both calls count as one.
type Store struct {
	Calls    []uint64 // by duration, as in Buckets, and one bucket without a bound
	Duration time.Duration
	Failures uint64 // calls that failed or were late; overloads do not count

	// Overloads counts the requests that local limits decided because too many calls of a store were in flight, as
	// core.Health does.
	Overloads uint64

	Down  bool      // a store is not called now, because it has failed
	Since time.Time // of the last change of Down
	Err   error     // the last failure of a store, if any
}

// A File is the active rules file, if there is one.
type File struct {
	Path     string
	Hash     string    // hash of its content
	Loaded   time.Time // when its rules became active
	Loads    uint64    // that succeeded
	Failures uint64    // loads that failed; the rules stayed as they were
	Err      error     // of the last load; nil if that succeeded
}

// Snapshot returns the counts since the start. It may contain some counts of a request but not yet others.
func (t *Telemetry) Snapshot() Snapshot {
	s := Snapshot{Start: t.clock.start}
	for _, l := range t.Limiters() {
		t.addRules(l) // SetRules may have replaced them
		s.Waiting += l.StoreHealth().Waiting
	}
	for i := range t.requests {
		degraded := i == allowedDegraded || i == deniedDegraded
		s.Requests = append(s.Requests, Requests{outcomeNames[i], degraded, t.requests[i].Load()})
	}
	for _, r := range t.rules.Load().all {
		s.Results = append(s.Results, r.results()...)
		for i, n := range r.totals() {
			s.Rules = append(s.Rules, RuleRequests{r.name, ruleOutcomes[i], n})
		}
		s.Waits = append(s.Waits, r.waited())
	}
	s.Quotas = t.quotas()
	for i, name := range settlementNames {
		s.Settled = append(s.Settled, Settled{name, t.holds.settled[i].Load()})
	}
	s.Store = t.calls()
	s.Keys, s.Leases, s.Held = t.kept()
	t.mu.Lock()
	defer t.mu.Unlock()
	s.File = t.file
	return s
}

// results returns the results of each limit of r. Limits with the same label are one.
func (r *rule) results() (all []Results) {
	seen := make(map[string]bool)
	for _, l := range *r.limits.Load() {
		if seen[l.label] {
			continue
		}
		seen[l.label] = true
		for i, name := range resultNames {
			all = append(all, Results{r.name, l.label, name, l.results[i].Load()})
		}
	}
	return all
}

// FileLoaded counts a load of a rules file. If err is nil, hash identifies the active rules.
func (t *Telemetry) FileLoaded(path, hash string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.file
	f.Path, f.Err = path, err
	if err != nil {
		f.Failures++
		return
	}
	f.Loads++
	f.Hash, f.Loaded = hash, time.Now()
}
