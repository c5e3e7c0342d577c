package telemetry

import (
	"time"
)

// A Snapshot is all counts since the start.
type Snapshot struct {
	Start    time.Time
	Requests []Requests     // every outcome, also those that did not happen
	Results  []Results      // by rule and limit: every result, also those that did not happen
	Rules    []RuleRequests // by rule: every outcome, also those that did not happen
	Waits    []Waits        // by rule: how long requests had to wait for their turn
	Waiting  int            // requests of the attached limiters that wait now
	Settled  []Settled      // every way, also those that did not happen
	Held     int            // claims that are held now; see Keys
	Keys     Keys
	Leases   Leases
	Store    Store
	File     File
}

// Requests is how many requests had an outcome: allowed, denied, no_key, bad_key, invalid or unavailable. Degraded
// decisions were made without the store.
type Requests struct {
	Outcome  string
	Degraded bool
	Count    uint64
}

// Results is how often a limit of a rule had a result: allowed, near, denied, would_deny or would_wait. Each limit counts by its
// own answer, whatever the others say. Near is in place of allowed if less than a fifth of the capacity remains, and would_wait if a dry
// run would let the request wait for its turn.
type Results struct {
	Rule   string
	Limit  string // such as "100/1m"; "other" beyond 50 for one rule
	Result string
	Count  uint64
}

// RuleRequests is how many requests had an outcome under a rule: allowed, denied or would_deny. A request counts once, however many
// limits the rule has. A request that only other rules denied is not counted.
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

// Settled is how many requests that held something were settled in one way: free, charged, or failed.
type Settled struct {
	Result string
	Count  uint64
}

// Keys counts pairs of rule and key with state of their own, and states that pairs share for lack of room, in the stores of the
// attached limiters that report them, as a MemoryStore does. Snapshot.Held comes from the stores too, if all of them report it;
// otherwise it counts the requests in flight of this process.
type Keys struct{ Own, Shared int }

// Leases is what the stores of the attached limiters have leased to this process; see core.Rule.Lease.
type Leases struct {
	Keys      int    // that are leased now
	Decisions uint64 // requests that were decided from a lease
	Returned  uint64 // requests that were charged ahead, and given back unused
}

// A Store counts the calls of stores, and has the health of the attached limiters' stores.
type Store struct {
	Calls    []uint64 // by duration, as in Buckets, and one bucket without a bound
	Duration time.Duration
	Failures uint64 // calls that failed or were late

	Down  bool      // calls to a store are withheld
	Since time.Time // of the last change of Down
	Err   error     // the last failure of a store, if any
}

// A File is the active rules file, if there is one.
type File struct {
	Path     string
	Hash     string    // of its content
	Loaded   time.Time // when it came into force
	Loads    uint64    // that succeeded
	Failures uint64    // loads that failed; the rules stayed as they were
	Err      error     // of the last load; nil if that succeeded
}

// Snapshot returns the counts since the start. Counts of one request may be in it while others of it are not yet.
func (t *Telemetry) Snapshot() Snapshot {
	s := Snapshot{Start: t.clock.start}
	for i := range t.requests {
		degraded := i == allowedDegraded || i == deniedDegraded
		s.Requests = append(s.Requests, Requests{outcomeNames[i], degraded, t.requests[i].Load()})
	}
	for _, r := range t.sorted() {
		s.Results = append(s.Results, r.results()...)
		for i, n := range r.totals() {
			s.Rules = append(s.Rules, RuleRequests{r.name, ruleOutcomes[i], n})
		}
		s.Waits = append(s.Waits, r.waited())
	}
	for i, name := range settlementNames {
		s.Settled = append(s.Settled, Settled{name, t.holds.settled[i].Load()})
	}
	s.Store = t.calls()
	s.Keys, s.Leases, s.Held = t.kept()
	for _, l := range t.Limiters() {
		s.Waiting += l.StoreHealth().Waiting
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.File = t.file
	return s
}

// results returns the results of each limit of r. Limits with one label are one.
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
