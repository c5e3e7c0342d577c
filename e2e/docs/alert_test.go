package docs

import (
	"net/http/httptest"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/telemetry"
	promtelemetry "github.com/spillgate/spillgate/telemetry/prometheus"
)

// TestShareAlert evaluates the alert about the share of requests that a rule denies, for a rule with three limits,
// one of which denies. Counting the results of all limits would yield a third of the share.
func TestShareAlert(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/operate.md"))(t)
	query := regexp.MustCompile("(?s)```promql\n([^`]*spillgate_rule_requests_total[^`]*)```").FindSubmatch(text)
	must.True(t, query != nil, "docs/operate.md has no alert by rule")
	for denied, fires := range map[int]bool{15: false, 30: true} {
		tel := telemetry.New(telemetry.Options{})
		limits := []core.Limit{core.PerHour(100 - denied), core.PerDay(1000), core.PerMinute(1000)}
		l := core.Must(core.New([]core.Rule{{Name: "api", Key: keyfunc.RemoteIP, Limits: limits}}, core.WithObserver(tel.Observe)))
		tel.Attach(l)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(promtelemetry.NewCollector(tel))
		before := counters(t, registry)
		for range 100 {
			_, _ = l.Check(httptest.NewRequest("GET", "/", nil))
		}
		stored := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: selecting(before, counters(t, registry))}}
		engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1000, Timeout: time.Minute})
		q := must.Get(engine.NewInstantQuery(t.Context(), stored, nil, string(query[1]), time.Unix(0, 0).Add(scrapeInterval)))(t)
		got := must.Get(q.Exec(t.Context()).Vector())(t)
		expect.True(t, (len(got) > 0) == fires, "%d of 100 requests denied: got %v, want that it fires: %v", denied, got, fires)
	}
}

// scrapeInterval is the time between the two scrapes of the test.
const scrapeInterval = 5 * time.Minute

func counters(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families := must.Get(registry.Gather())(t)
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetCounter() == nil {
				continue
			}
			b := labels.NewBuilder(labels.FromStrings("__name__", f.GetName()))
			for _, l := range m.GetLabel() {
				b.Set(l.GetName(), l.GetValue())
			}
			all[string(b.Labels().Bytes(nil))] = m.GetCounter().GetValue()
			known[string(b.Labels().Bytes(nil))] = b.Labels()
		}
	}
	return all
}

var known = make(map[string]labels.Labels)

func selecting(before, after map[string]float64) func(bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
	return func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
	series:
		for id, value := range after {
			for _, m := range matchers {
				if !m.Matches(known[id].Get(m.Name)) {
					continue series
				}
			}
			found = append(found, promql.NewStorageSeries(promql.Series{
				Metric: known[id], Floats: []promql.FPoint{{T: 0, F: before[id]}, {T: scrapeInterval.Milliseconds(), F: value}},
			}))
		}
		return &seriesSet{rest: found}
	}
}

type seriesSet struct {
	rest []storage.Series
	at   storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.at, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
