package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/core"
)

const defaultTop = 500

// Options configure a Telemetry. The zero value is ready to use.
type Options struct {
	// Top is how many denied keys a Telemetry remembers for each rule. If 0, it is 500.
	Top int

	// Log receives a bounded number of lines about denials and failures. If nil, nothing is logged.
	Log *slog.Logger

	// Unmask shows keys unmasked in the log, in Top and on the page. Keys are personal data.
	Unmask bool
}

// A Telemetry counts what limiters decide. Its methods are safe for concurrent use.
type Telemetry struct {
	top      int
	mask     masker
	clock    clock
	requests [outcomes]atomic.Uint64
	would    atomic.Uint64 // allowed requests that a dry run would have denied
	store    storeCalls
	holds    holds
	log      *logbook                        // nil if nothing is logged
	total    history                         // of all requests
	forward  atomic.Pointer[[]core.Observer] // replaced as a whole under mu
	rules    atomic.Pointer[rules]           // likewise

	mu       sync.Mutex
	limiters []*core.Limiter
	file     File
}

// New returns a Telemetry that has counted nothing.
func New(o Options) *Telemetry {
	t := &Telemetry{top: o.Top, mask: newMasker(o.Unmask), clock: clock{start: time.Now()}}
	if t.top <= 0 {
		t.top = defaultTop
	}
	if o.Log != nil {
		t.log = newLogbook(o.Log, t.mask, &t.clock)
	}
	t.forward.Store(new([]core.Observer))
	t.rules.Store(&rules{byName: make(map[string]*rule)})
	return t
}

// Attach adds a limiter, so that t knows its rules and the health of its store. Beyond 50 limits of a rule, t still counts
// the limits of the active rules separately, up to 100; it reads them now and at each Snapshot. The counts of several
// limiters are added up by rule name. Attach does not make t count the limiter's decisions: use
// core.WithObserver(t.Observe) for that.
func (t *Telemetry) Attach(l *core.Limiter) {
	t.mu.Lock()
	if !slices.Contains(t.limiters, l) {
		t.limiters = append(t.limiters, l)
	}
	t.mu.Unlock()
	t.addRules(l)
}

// addRules adds the active rules of l, and their limits.
func (t *Telemetry) addRules(l *core.Limiter) {
	for _, configured := range l.Rules() {
		r := t.rule(configured.Name)
		for _, own := range configured.Limits {
			r.addLimit(own, maxActive)
		}
	}
}

// Limiters returns the attached limiters.
func (t *Telemetry) Limiters() []*core.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.limiters)
}

// Forward passes every observation on to o after t has counted it. It is for exporters that record each request.
func (t *Telemetry) Forward(o core.Observer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(slices.Clone(*t.forward.Load()), o)
	t.forward.Store(&all)
}

// Observe counts an observation. It is a core.Observer.
func (t *Telemetry) Observe(ctx context.Context, o *core.Observation) {
	if o.Store > 0 {
		t.store.count(o)
	}
	switch {
	case o.Outcome != nil:
		t.settled(ctx, o)
	case o.Err != nil:
		t.undecided(ctx, o)
	default:
		t.decided(ctx, o)
	}
	for _, observer := range *t.forward.Load() {
		observer(ctx, o)
	}
}

// decided counts a request that was allowed or denied, and its results by rule.
func (t *Telemetry) decided(ctx context.Context, o *core.Observation) {
	second, turned := t.clock.second(o.At)
	if turned {
		t.tick(ctx, second)
	}
	t.requests[outcomeOf(o)].Add(1)
	if o.Degraded != nil && t.log != nil {
		t.log.warn(ctx, second, withoutStore, ruleOf(o), o.Degraded)
	}
	first, would := 0, false
	for i := range o.Claims {
		c := &o.Claims[i]
		end := first + len(c.Limits)
		if len(o.Results) < end || first == end || o.Results[first].Rule != c.Rule {
			continue // a rule that fails open has no results
		}
		own := o.Results[first:end]
		first = end
		if c.Peek && (o.Allowed || !slices.ContainsFunc(own, isDenied)) { // what would be held at the turn is a peek that may deny
			continue
		}
		r := t.rule(c.Rule)
		if r.history.second.Load() != second {
			r.history.turn(second, r.totals())
		}
		if c.Overridden {
			r.overridden.add(c, second)
		}
		denied, wouldDeny := r.count(own, o.Allowed)
		if denied != nil {
			r.deny(ctx, t.log, second, c.Key, denied)
		}
		would = would || wouldDeny
		if c.Hold && o.Allowed {
			t.holds.begin(own)
		}
	}
	if would && o.Allowed {
		t.would.Add(1)
	}
}

func isDenied(r core.Result) bool { return !r.Allowed }

// undecided counts a request that was neither allowed nor denied.
func (t *Telemetry) undecided(ctx context.Context, o *core.Observation) {
	outcome := outcomeOf(o)
	t.requests[outcome].Add(1)
	t.failed(ctx, warningOf[outcome], o)
}

// failed logs the error of o, so that the limiter does not log it again.
func (t *Telemetry) failed(ctx context.Context, w warning, o *core.Observation) {
	second, turned := t.clock.second(time.Time{})
	if turned {
		t.tick(ctx, second)
	}
	if t.log != nil && t.log.log.Enabled(ctx, w.level()) {
		o.Logged = true
		t.log.warn(ctx, second, w, ruleOf(o), o.Err)
	}
}

// ruleOf returns the name of the rule whose evaluation failed: the rule of the last claim, because later rules were not
// evaluated.
func ruleOf(o *core.Observation) string {
	if len(o.Claims) == 0 {
		return ""
	}
	return o.Claims[len(o.Claims)-1].Rule
}

// Flush writes the pending log lines, up to the 10 per second that the package documentation names; the others wait for the
// next Flush. Call it at shutdown.
func (t *Telemetry) Flush() {
	if t.log != nil {
		t.log.flush(context.Background(), t.clock.now(), t.rules.Load().all)
	}
}

// tick begins a new second of the total, and writes the log lines that are due. It runs once a second while there are
// observations.
func (t *Telemetry) tick(ctx context.Context, second int64) {
	t.total.turn(second, t.totals())
	if t.log != nil {
		t.log.tick(ctx, second, t.rules.Load().all)
	}
}
