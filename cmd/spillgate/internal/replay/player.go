package replay

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/cmd/spillgate/internal/accesslog"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/rulefile"
)

// Options say how to replay.
type Options struct {
	AtStart    bool              // decide requests at their start, if the log has durations
	SkipStatus map[int]bool      // requests with these statuses are not decided
	Knows      func(string) bool // reports whether the logs have a part of requests, as named by rulefile.File.Needs
	Progress   func(entries int) // called after every 16384 entries, with their number so far
}

// A player decides entries with a limiter.
type player struct {
	clockedLimiter
	requests *Requests
	seed     maphash.Seed
	rules    []*tally
	asks     []ask // claims of the current entry
	denied   bool  // by any rule
	would    bool  // denied by a dry run
}

// An ask is the claim of one rule for an entry.
type ask struct {
	rule   *tally
	key    string
	cost   int
	denied bool // by a limit of the rule itself
}

// A tally counts the decisions of a rule.
type tally struct {
	rule    core.Rule
	holds   bool // charges are held until a request ends
	slow    bool // see isSlow
	asked   int
	denied  int
	clients map[uint64]clientTally
	names   map[uint64]string // keys of denied clients by hash
	waits   waitTally
}

type clientTally struct{ asked, denied uint32 }

// Needs of rules in addition to rulefile.File.Needs.
const (
	Durations = "durations, with --at start" // for limits of requests in flight
	Statuses  = "status codes"               // for Rule.CostAfter
)

// newPlayer returns a player with the rules of a file that the logs suffice for. For each other rule, and for
// "skip.preflight", lacking says what the logs lack.
func newPlayer(f *rulefile.File, knows func(need string) bool) (p *player, lacking map[string]string, err error) {
	p = &player{requests: NewRequests(f), seed: maphash.MakeSeed()}
	lacking = make(map[string]string)
	if skipsPreflights(f) {
		if lacks := Lacking(preflightNeeds, knows); lacks != "" {
			lacking["skip.preflight"] = lacks
		}
	}
	var rules []core.Rule
	for i, rule := range f.Rules {
		needs := f.Needs(i)
		if hasInFlight(rule.Limits) {
			needs = append(needs, Durations)
		}
		if rule.CostAfter != nil {
			needs = append(needs, Statuses)
		}
		if lacks := Lacking(needs, knows); lacks != "" {
			lacking[rule.Name] = lacks
			continue
		}
		t := &tally{rule: rule, clients: make(map[uint64]clientTally), names: make(map[uint64]string)}
		t.holds, t.slow = rule.CostAfter != nil || hasInFlight(rule.Limits), rule.Override == nil && isSlow(rule.Limits)
		p.rules = append(p.rules, t)
		rules = append(rules, p.recording(t))
	}
	return p, lacking, p.open(rules)
}

// recording returns a copy of a tally's rule whose functions record each claim in p.asks.
func (p *player) recording(t *tally) core.Rule {
	rule, cost := t.rule, 1
	if of := rule.Cost; of != nil {
		rule.Cost = func(r *http.Request) int {
			cost = of(r)
			return cost
		}
	}
	of := rule.Key
	rule.Key = func(r *http.Request) (string, error) {
		key, err := of(r)
		p.asks = append(p.asks, ask{t, key, cost, false})
		return key, err
	}
	return rule
}

// Lacking returns the needs that the logs lack, separated by commas, or "".
func Lacking(needs []string, knows func(string) bool) string {
	lacks := slices.DeleteFunc(slices.Clone(needs), knows)
	return strings.Join(lacks, ", ")
}

// decide decides an entry at an instant. The clock does not go back.
func (p *player) decide(e *accesslog.Entry, at time.Time) {
	p.advance(at)
	p.denied, p.would, p.asks = false, false, p.asks[:0]
	p.requests.Set(e)
	if p.limiter == nil {
		return
	}
	d, err := p.limiter.Check(&p.requests.Request)
	if err != nil {
		p.fail(err)
		p.asks = p.asks[:0]
		return
	}
	p.count(d.Results, d.Allowed)
	if d.Allowed {
		p.hold(&d, p.asks, e.End(), e.Status)
	}
}

// count counts the decision of each rule. A rule denies a request if one of its own limits does.
func (p *player) count(results []core.Result, admitted bool) {
	for i := range p.asks {
		a := &p.asks[i]
		n := 0 // an override may have more or fewer limits than the rule
		for n < len(results) && results[n].Rule == a.rule.rule.Name {
			a.denied = a.denied || !results[n].Allowed
			if l := &results[n].Limit; a.rule.rule.CostAfter != nil && l.Algorithm != core.InFlight {
				a.cost = min(a.cost, max(l.Capacity(), 1)) // what is held: see core.Rule.CostAfter
			}
			n++
		}
		own := results[:n]
		results = results[n:]
		if a.rule.rule.DryRun {
			p.would = p.would || a.denied
		} else {
			p.denied = p.denied || a.denied
		}
		hash := maphash.String(p.seed, a.key)
		a.rule.count(hash, a.key, a.denied)
		if admitted && !a.denied {
			a.rule.waits.count(hash, a.key, own)
		}
	}
}

func (t *tally) count(hash uint64, key string, denied bool) {
	c := t.clients[hash]
	t.asked++
	c.asked++
	if denied {
		t.denied++
		if c.denied++; c.denied == 1 {
			t.names[hash] = strings.Clone(key)
		}
	}
	t.clients[hash] = c
}
