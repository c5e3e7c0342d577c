// Package promtelemetry exports the counts of a telemetry.Telemetry to Prometheus.
//
//	prometheus.MustRegister(promtelemetry.NewCollector(t))
//
// The metrics are:
//
//	spillgate_requests_total{spillgate_outcome, spillgate_degraded}
//	spillgate_results_total{spillgate_rule, spillgate_limit, spillgate_result}
//	spillgate_rule_requests_total{spillgate_rule, spillgate_outcome}
//	spillgate_rule_overridden_total{spillgate_rule}
//	spillgate_rule_grants_total{spillgate_rule}
//	spillgate_wait_duration_seconds{spillgate_rule}
//	spillgate_waiting
//	spillgate_settled_total{spillgate_result}
//	spillgate_held
//	spillgate_keys{spillgate_state}
//	spillgate_lease_keys
//	spillgate_lease_decisions_total
//	spillgate_lease_returned_total
//	spillgate_store_duration_seconds
//	spillgate_store_failures_total
//	spillgate_store_overloads_total
//	spillgate_store_up
//	spillgate_rulefile_loads_total{spillgate_result}
//
// Package telemetry explains the values of the labels. Counts are read when Prometheus scrapes, and never while a
// request is decided.
package promtelemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillgate/spillgate/telemetry"
)

var (
	requests = prometheus.NewDesc("spillgate_requests_total",
		"Requests that a rule applied to.", []string{"spillgate_outcome", "spillgate_degraded"}, nil)
	results = prometheus.NewDesc("spillgate_results_total",
		"Results of each limit, by its own answer.", []string{"spillgate_rule", "spillgate_limit", "spillgate_result"}, nil)
	rules = prometheus.NewDesc("spillgate_rule_requests_total",
		"Requests that a rule decided, each counted once.", []string{"spillgate_rule", "spillgate_outcome"}, nil)
	overridden = prometheus.NewDesc("spillgate_rule_overridden_total",
		"Decisions that used the limits of an override.", []string{"spillgate_rule"}, nil)
	grants = prometheus.NewDesc("spillgate_rule_grants_total",
		"Grants that the limiters of this process made.", []string{"spillgate_rule"}, nil)
	waits = prometheus.NewDesc("spillgate_wait_duration_seconds",
		"How long requests had to wait for their turn.", []string{"spillgate_rule"}, nil)
	waiting = prometheus.NewDesc("spillgate_waiting",
		"Requests that wait for their turn now.", nil, nil)
	settled = prometheus.NewDesc("spillgate_settled_total",
		"Requests that held something and were settled.", []string{"spillgate_result"}, nil)
	held = prometheus.NewDesc("spillgate_held",
		"Claims that are held now.", nil, nil)
	keys = prometheus.NewDesc("spillgate_keys",
		"Keys in memory, with state of their own, and states that keys share.", []string{"spillgate_state"}, nil)
	leaseKeys = prometheus.NewDesc("spillgate_lease_keys",
		"Keys that are leased to this process.", nil, nil)
	leaseDecisions = prometheus.NewDesc("spillgate_lease_decisions_total",
		"Requests that were decided from a lease.", nil, nil)
	leaseReturned = prometheus.NewDesc("spillgate_lease_returned_total",
		"Requests that were charged ahead, and returned or drained unused.", nil, nil)
	storeDuration = prometheus.NewDesc("spillgate_store_duration_seconds",
		"How long calls of the store took.", nil, nil)
	storeFailures = prometheus.NewDesc("spillgate_store_failures_total",
		"Calls of the store that failed or were late.", nil, nil)
	storeOverloads = prometheus.NewDesc("spillgate_store_overloads_total",
		"Requests that local limits decided because too many calls of the store were in flight.", nil, nil)
	storeUp = prometheus.NewDesc("spillgate_store_up",
		"1 while the store is used, 0 while calls are withheld from it.", nil, nil)
	loads = prometheus.NewDesc("spillgate_rulefile_loads_total",
		"Loads of the rules file.", []string{"spillgate_result"}, nil)
)

// A collector reads a snapshot on each scrape.
type collector struct{ t *telemetry.Telemetry }

// NewCollector returns a collector of the counts of t, to be registered with Prometheus.
func NewCollector(t *telemetry.Telemetry) prometheus.Collector { return collector{t} }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		requests, results, rules, overridden, grants, waits, waiting, settled, held, keys, leaseKeys, leaseDecisions, leaseReturned, storeDuration, storeFailures,
		storeOverloads, storeUp, loads,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.t.Snapshot()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for _, r := range s.Requests {
		counter(requests, r.Count, r.Outcome, strconv.FormatBool(r.Degraded))
	}
	for _, r := range s.Results {
		counter(results, r.Count, r.Rule, r.Limit, r.Result)
	}
	for _, r := range s.Rules {
		counter(rules, r.Count, r.Rule, r.Outcome)
	}
	for _, q := range s.Quotas {
		counter(overridden, q.Overridden, q.Rule)
		counter(grants, q.Grants, q.Rule)
	}
	for _, q := range s.Settled {
		counter(settled, q.Count, q.Result)
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(waiting, s.Waiting)
	for _, w := range s.Waits {
		ch <- histogram(waits, telemetry.WaitBuckets, w.Buckets, w.Duration, w.Rule)
	}
	gauge(held, s.Held)
	gauge(keys, s.Keys.Own, "own")
	gauge(keys, s.Keys.Shared, "shared")
	gauge(leaseKeys, s.Leases.Keys)
	counter(leaseDecisions, s.Leases.Decisions)
	counter(leaseReturned, s.Leases.Returned)
	ch <- histogram(storeDuration, telemetry.Buckets, s.Store.Calls, s.Store.Duration)
	counter(storeFailures, s.Store.Failures)
	counter(storeOverloads, s.Store.Overloads)
	up := 1
	if s.Store.Down {
		up = 0
	}
	gauge(storeUp, up)
	counter(loads, s.File.Loads, "ok")
	counter(loads, s.File.Failures, "failed")
}

// histogram returns the counts of a histogram with these bounds, counted cumulatively.
func histogram(d *prometheus.Desc, bounds []time.Duration, counts []uint64, sum time.Duration, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds))
	var count uint64
	for i, n := range counts {
		count += n
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(d, count, sum.Seconds(), buckets, labels...)
}
