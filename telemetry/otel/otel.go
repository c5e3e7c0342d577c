// Package oteltelemetry exports the counts of a telemetry.Telemetry to OpenTelemetry.
//
//	err := oteltelemetry.Register(t, otel.Meter("github.com/spillgate/spillgate"))
//
// The instruments are:
//
//	spillgate.requests {spillgate.outcome, spillgate.degraded}
//	spillgate.results {spillgate.rule, spillgate.limit, spillgate.result}
//	spillgate.rule.requests {spillgate.rule, spillgate.outcome}
//	spillgate.rule.overridden {spillgate.rule}
//	spillgate.rule.grants {spillgate.rule}
//	spillgate.wait.duration {spillgate.rule}
//	spillgate.waiting
//	spillgate.settled {spillgate.result}
//	spillgate.held
//	spillgate.keys {spillgate.state}
//	spillgate.lease.keys
//	spillgate.lease.decisions
//	spillgate.lease.returned
//	spillgate.store.duration
//	spillgate.store.failures
//	spillgate.store.overloads
//	spillgate.store.up
//	spillgate.rulefile.loads {spillgate.result}
//
// Package telemetry explains the values of the attributes. Counts are read when OpenTelemetry collects them. Only
// durations are recorded at each store call and each decision, because OpenTelemetry has no observable histograms.
package oteltelemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/telemetry"
)

// An Option changes what is exported.
type Option func(*config)

type config struct{ spans bool }

// WithSpanAttributes sets the attributes spillgate.outcome and spillgate.rule on the active span of each request. The
// rule is the one that denied the request, or the one whose limit constrains it most. It does not create spans.
func WithSpanAttributes() Option { return func(c *config) { c.spans = true } }

// Register creates the instruments in m. Its error joins the errors of m, or names an option that is nil. Register a Telemetry only once.
func Register(t *telemetry.Telemetry, m metric.Meter, opts ...Option) error {
	var c config
	for i, o := range opts {
		if o == nil {
			return fmt.Errorf("spillgate: %w: oteltelemetry.Register: option %d of %d: option is nil; leave it out", core.ErrInvalid, i+1, len(opts))
		}
		o(&c)
	}
	err := errors.Join(registerCounts(t, m), registerDuration(t, m), registerWaits(t, m))
	if c.spans {
		t.Forward(annotate)
	}
	return err
}

// registerDuration records each call of a store.
func registerDuration(t *telemetry.Telemetry, m metric.Meter) error {
	h, err := histogram(m, "spillgate.store.duration", "How long calls of the store took.", telemetry.Buckets)
	if err != nil {
		return err
	}
	t.Forward(func(ctx context.Context, o *core.Observation) {
		if o.Store > 0 {
			record(ctx, h, o.Store)
		}
	})
	return nil
}

// registerWaits records how long each allowed request has to wait for its turn, under each rule.
func registerWaits(t *telemetry.Telemetry, m metric.Meter) error {
	h, err := histogram(m, "spillgate.wait.duration", "How long requests had to wait for their turn.", telemetry.WaitBuckets)
	if err != nil {
		return err
	}
	waited := labels{known: make(map[string]bool)}
	t.Forward(func(ctx context.Context, o *core.Observation) {
		if o.Wait == 0 || o.Outcome != nil {
			return
		}
		for rule, wait := range waitsOf(o.Results) {
			record(ctx, h, wait, metric.WithAttributes(ruleKey.String(waited.of(rule))))
		}
	})
	return nil
}

// maxRules is how many rules have an attribute of their own, as in package telemetry, because claims of Wait can name any
// rule.
const maxRules = 1000

// labels are the rules that have an attribute of their own. All others have the attribute "other".
type labels struct {
	mu    sync.Mutex
	known map[string]bool
}

// of returns the attribute of a rule.
func (l *labels) of(rule string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known[rule] {
		if len(l.known) >= maxRules {
			return "other"
		}
		l.known[rule] = true
	}
	return rule
}

// waitsOf returns the longest wait for each rule that makes the request wait.
func waitsOf(results []core.Result) map[string]time.Duration {
	waits := make(map[string]time.Duration)
	for _, r := range results {
		if r.Wait > 0 && !r.DryRun {
			waits[r.Rule] = max(waits[r.Rule], r.Wait)
		}
	}
	return waits
}

// record records a duration, even if the client has disconnected: SDKs before 1.22 drop measurements of a canceled context.
func record(ctx context.Context, h metric.Float64Histogram, d time.Duration, opts ...metric.RecordOption) {
	if ctx != nil && ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	h.Record(ctx, d.Seconds(), opts...)
}

func histogram(m metric.Meter, name, description string, buckets []time.Duration) (metric.Float64Histogram, error) {
	var bounds []float64
	for _, d := range buckets {
		bounds = append(bounds, d.Seconds())
	}
	return m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
}

// instruments are read from a snapshot.
type instruments struct {
	requests, results, rules, overridden, grants, settled, decisions, returned, failures, overloads, loads metric.Int64ObservableCounter
	held, waiting, keys, leased                                                                            metric.Int64ObservableUpDownCounter
	up                                                                                                     metric.Int64ObservableGauge
}

func registerCounts(t *telemetry.Telemetry, m metric.Meter) error {
	maker := instrumentMaker{meter: m}
	counter, number := maker.counter, maker.number
	i := instruments{
		requests:   counter("spillgate.requests", "{request}", "Requests that a rule applied to."),
		results:    counter("spillgate.results", "{result}", "Results of each limit, by its own answer."),
		rules:      counter("spillgate.rule.requests", "{request}", "Requests that a rule decided, each counted once."),
		overridden: counter("spillgate.rule.overridden", "{request}", "Decisions that used the limits of an override."),
		grants:     counter("spillgate.rule.grants", "{grant}", "Grants that the limiters of this process made."),
		settled:    counter("spillgate.settled", "{request}", "Requests that held something and were settled."),
		waiting:    number("spillgate.waiting", "{request}", "Requests that wait for their turn now."),
		held:       number("spillgate.held", "{claim}", "Claims that are held now."),
		keys:       number("spillgate.keys", "{key}", "Keys in memory, with state of their own, and states that keys share."),
		leased:     number("spillgate.lease.keys", "{key}", "Keys that are leased to this process."),
		decisions:  counter("spillgate.lease.decisions", "{request}", "Requests that were decided from a lease."),
		returned:   counter("spillgate.lease.returned", "{request}", "Requests that were charged ahead, and returned or drained unused."),
		failures:   counter("spillgate.store.failures", "{call}", "Calls of the store that failed or were late."),
		overloads:  counter("spillgate.store.overloads", "{request}", "Requests that local limits decided because too many calls of the store were in flight."),
		up:         maker.gauge("spillgate.store.up", "", "1 while the store is used, 0 while calls are withheld from it."),
		loads:      counter("spillgate.rulefile.loads", "{load}", "Loads of the rules file."),
	}
	if err := errors.Join(maker.errs...); err != nil {
		return err
	}
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		i.observe(o, t.Snapshot())
		return nil
	}, i.requests, i.results, i.rules, i.overridden, i.grants, i.settled, i.decisions, i.returned, i.failures, i.overloads, i.loads, i.held, i.waiting, i.keys, i.leased, i.up)
	return err
}

// An instrumentMaker creates instruments and collects the errors.
type instrumentMaker struct {
	meter metric.Meter
	errs  []error
}

func (m *instrumentMaker) counter(name, unit, description string) metric.Int64ObservableCounter {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.errs = append(m.errs, err)
	return c
}

// number returns an instrument of a number that rises and falls, and that can be added up over processes.
func (m *instrumentMaker) number(name, unit, description string) metric.Int64ObservableUpDownCounter {
	c, err := m.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.errs = append(m.errs, err)
	return c
}

func (m *instrumentMaker) gauge(name, unit, description string) metric.Int64ObservableGauge {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.errs = append(m.errs, err)
	return g
}

// observe reports the counts of s.
func (i *instruments) observe(o metric.Observer, s telemetry.Snapshot) {
	for _, r := range s.Requests {
		o.ObserveInt64(i.requests, int64(r.Count), metric.WithAttributes(
			outcomeKey.String(r.Outcome), attribute.Bool("spillgate.degraded", r.Degraded)))
	}
	for _, r := range s.Results {
		o.ObserveInt64(i.results, int64(r.Count), metric.WithAttributes(
			ruleKey.String(r.Rule), attribute.String("spillgate.limit", r.Limit), resultKey.String(r.Result)))
	}
	for _, r := range s.Rules {
		o.ObserveInt64(i.rules, int64(r.Count), metric.WithAttributes(ruleKey.String(r.Rule), outcomeKey.String(r.Outcome)))
	}
	for _, q := range s.Quotas {
		o.ObserveInt64(i.overridden, int64(q.Overridden), metric.WithAttributes(ruleKey.String(q.Rule)))
		o.ObserveInt64(i.grants, int64(q.Grants), metric.WithAttributes(ruleKey.String(q.Rule)))
	}
	for _, q := range s.Settled {
		o.ObserveInt64(i.settled, int64(q.Count), metric.WithAttributes(resultKey.String(q.Result)))
	}
	o.ObserveInt64(i.waiting, int64(s.Waiting))
	o.ObserveInt64(i.held, int64(s.Held))
	o.ObserveInt64(i.keys, int64(s.Keys.Own), metric.WithAttributes(stateKey.String("own")))
	o.ObserveInt64(i.keys, int64(s.Keys.Shared), metric.WithAttributes(stateKey.String("shared")))
	o.ObserveInt64(i.leased, int64(s.Leases.Keys))
	o.ObserveInt64(i.decisions, int64(s.Leases.Decisions))
	o.ObserveInt64(i.returned, int64(s.Leases.Returned))
	o.ObserveInt64(i.failures, int64(s.Store.Failures))
	o.ObserveInt64(i.overloads, int64(s.Store.Overloads))
	o.ObserveInt64(i.loads, int64(s.File.Loads), metric.WithAttributes(resultKey.String("ok")))
	o.ObserveInt64(i.loads, int64(s.File.Failures), metric.WithAttributes(resultKey.String("failed")))
	up := int64(1)
	if s.Store.Down {
		up = 0
	}
	o.ObserveInt64(i.up, up)
}

const (
	outcomeKey = attribute.Key("spillgate.outcome")
	ruleKey    = attribute.Key("spillgate.rule")
	resultKey  = attribute.Key("spillgate.result")
	stateKey   = attribute.Key("spillgate.state")
)
