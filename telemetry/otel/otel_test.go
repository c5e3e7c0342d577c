package oteltelemetry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
	oteltelemetry "github.com/spillgate/spillgate/telemetry/otel"
)

func user(r *http.Request) (string, error) {
	if u := r.Header.Get("User"); u != "" {
		return "user:" + u, nil
	}
	return "", core.ErrNoKey
}

// A store is a MemoryStore that reports leases.
type store struct{ core.MemoryStore }

// Take is overloaded by the claims of a flood.
func (s *store) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if claims[0].Rule == "flood" {
		return nil, breaker.ErrTooMany
	}
	return s.MemoryStore.Take(ctx, claims, dst)
}

func (*store) LeaseStats() core.LeaseStats {
	return core.LeaseStats{Keys: 4, Decisions: 50, Returned: 6}
}

// limited returns a limiter of two per hour and user, after the rules before, observed by tel.
func limited(tel *telemetry.Telemetry, before ...core.Rule) *core.Limiter {
	rules := append(slices.Clone(before), core.Rule{Name: "api", Key: user, Limits: []core.Limit{core.PerHour(2)}})
	l := core.Must(core.New(rules, core.WithObserver(tel.Observe), core.WithStore(new(store))))
	tel.Attach(l)
	return l
}

func ask(ctx context.Context, l *core.Limiter, user string) {
	r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	r.Header.Set("User", user)
	_, _ = l.Check(r)
}

func registered(t *testing.T) (*telemetry.Telemetry, metric.Reader) {
	t.Helper()
	tel, reader := telemetry.New(telemetry.Options{}), metric.NewManualReader()
	must.Do(t, oteltelemetry.Register(tel, metric.NewMeterProvider(metric.WithReader(reader)).Meter("test")))
	return tel, reader
}

// collect returns the sums and gauges other than 0, as "name attributes", and the histograms by name.
func collect(t *testing.T, reader metric.Reader) (map[string]int64, map[string][]metricdata.HistogramDataPoint[float64]) {
	t.Helper()
	var data metricdata.ResourceMetrics
	must.Do(t, reader.Collect(t.Context(), &data))
	numbers := make(map[string]int64)
	histograms := make(map[string][]metricdata.HistogramDataPoint[float64])
	add := func(name string, points []metricdata.DataPoint[int64]) {
		for _, p := range points {
			if p.Value != 0 {
				numbers[name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
			}
		}
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				add(m.Name, d.DataPoints)
			case metricdata.Gauge[int64]:
				add(m.Name, d.DataPoints)
			case metricdata.Histogram[float64]:
				histograms[m.Name] = d.DataPoints
			}
		}
	}
	return numbers, histograms
}

// canceled returns the context of a client that has disconnected.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestRegisteredInstruments(t *testing.T) {
	tel, reader := registered(t)
	l := limited(tel)
	for _, u := range []string{"ann", "ann", "ann", ""} {
		ask(t.Context(), l, u)
	}
	for _, err := range []error{nil, nil, core.ErrInvalid} {
		tel.FileLoaded("spillgate.yaml", "abc", err)
	}
	must.Get(l.Take(t.Context(), core.Claim{Rule: "job", Key: "k", Limits: core.MustParseLimits("2 at once"), Hold: true}))(t)
	must.Get(l.Take(t.Context(), core.Claim{Rule: "flood", Key: "k", Limits: core.MustParseLimits("0/h")}))(t)
	tel.Observe(canceled(), &core.Observation{Store: 3 * time.Millisecond, Err: core.ErrUnavailable})
	got, histograms := collect(t, reader)
	want := map[string]int64{
		"spillgate.requests spillgate.degraded=false,spillgate.outcome=allowed":                   3,
		"spillgate.requests spillgate.degraded=false,spillgate.outcome=denied":                    1,
		"spillgate.requests spillgate.degraded=false,spillgate.outcome=no_key":                    1,
		"spillgate.requests spillgate.degraded=false,spillgate.outcome=unavailable":               1,
		"spillgate.requests spillgate.degraded=true,spillgate.outcome=denied":                     1,
		"spillgate.results spillgate.limit=0/1h,spillgate.result=denied,spillgate.rule=flood":     1,
		"spillgate.rule.requests spillgate.outcome=denied,spillgate.rule=flood":                   1,
		"spillgate.results spillgate.limit=2/1h,spillgate.result=allowed,spillgate.rule=api":      1,
		"spillgate.results spillgate.limit=2/1h,spillgate.result=near,spillgate.rule=api":         1,
		"spillgate.results spillgate.limit=2/1h,spillgate.result=denied,spillgate.rule=api":       1,
		"spillgate.results spillgate.limit=2 at once,spillgate.result=allowed,spillgate.rule=job": 1,
		"spillgate.rule.requests spillgate.outcome=allowed,spillgate.rule=api":                    2,
		"spillgate.rule.requests spillgate.outcome=allowed,spillgate.rule=job":                    1,
		"spillgate.rule.requests spillgate.outcome=denied,spillgate.rule=api":                     1,
		"spillgate.rulefile.loads spillgate.result=failed":                                        1,
		"spillgate.rulefile.loads spillgate.result=ok":                                            2,
		"spillgate.keys spillgate.state=own":                                                      2,
		"spillgate.held ":                                                                         1,
		"spillgate.lease.keys ":                                                                   4,
		"spillgate.lease.decisions ":                                                              50,
		"spillgate.lease.returned ":                                                               6,
		"spillgate.store.failures ":                                                               1,
		"spillgate.store.overloads ":                                                              1,
		"spillgate.store.up ":                                                                     1,
	}
	expect.True(t, fmt.Sprint(got) == fmt.Sprint(want), "got %v\nwant %v", got, want)
	h := histograms["spillgate.store.duration"][0]
	var calls uint64
	for _, n := range tel.Snapshot().Store.Calls {
		calls += n
	}
	expect.True(t, h.Count == calls && calls != 0 && len(h.Bounds) == len(telemetry.Buckets) && h.Sum >= 0.003, "got the histogram %+v", h)
}

// TestQuotas checks that decisions with limits from an override, and grants, are counted by rule.
func TestQuotas(t *testing.T) {
	tel, reader := registered(t)
	override := func(key string) []core.Limit { return []core.Limit{core.PerMonth(len(key))} }
	l := core.Must(core.New([]core.Rule{{Name: "plan", Key: user, Limits: []core.Limit{core.PerMonth(2)}, Override: override}}, core.WithObserver(tel.Observe)))
	tel.Attach(l)
	for range 3 {
		ask(t.Context(), l, "ann")
	}
	must.Do(t, l.Grant(t.Context(), "plan", "user:ann", 5))
	numbers, _ := collect(t, reader)
	for name, want := range map[string]int64{"spillgate.rule.overridden spillgate.rule=plan": 3, "spillgate.rule.grants spillgate.rule=plan": 1} {
		expect.Equal(t, numbers[name], want, "%s, of %v", name, numbers)
	}
}

// TestWaits checks that the waits of allowed requests are recorded by rule, for a bounded number of rules.
func TestWaits(t *testing.T) {
	tel, reader := registered(t)
	rule := core.Rule{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithBurst(1), core.PerHour(7200).WithBurst(1)}, MaxWait: time.Minute}
	dry := core.Rule{Name: "dry", Limits: []core.Limit{core.PerMinute(6).WithBurst(1)}, MaxWait: time.Minute, DryRun: true}
	l := core.Must(core.New([]core.Rule{rule, dry}, core.WithObserver(tel.Observe)))
	for range 3 {
		must.Get(l.Take(t.Context(), core.Claim{Rule: "api", Key: "k"}, core.Claim{Rule: "dry", Key: "k"}))(t)
	}
	waited := core.Decision{Allowed: true, Wait: time.Second, Results: []core.Result{{Rule: "api", Wait: time.Second}}}
	tel.Observe(t.Context(), &core.Observation{Decision: waited, Outcome: new(core.Outcome)}) // a settlement
	_, histograms := collect(t, reader)
	h := histograms["spillgate.wait.duration"][0]
	if name, _ := h.Attributes.Value("spillgate.rule"); h.Count != 2 || h.Sum > 3 || h.Sum < 1.6 || len(h.Bounds) != len(telemetry.WaitBuckets) || name.AsString() != "api" {
		t.Errorf("got the histogram %+v", h)
	}
	for i := range 2000 { // claims can name any rule
		d := core.Decision{Allowed: true, Wait: time.Second, Results: []core.Result{{Rule: fmt.Sprint(i), Wait: time.Second}}}
		tel.Observe(canceled(), &core.Observation{Decision: d})
	}
	_, histograms = collect(t, reader)
	expect.Equal(t, len(histograms["spillgate.wait.duration"]), 1001, "rules with waits, one of them other")
}

func TestSpanAttributes(t *testing.T) {
	err := oteltelemetry.Register(telemetry.New(telemetry.Options{}), metric.NewMeterProvider().Meter("test"), nil)
	expect.True(t, errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), "option 1 of 1: option is nil"), "a nil option: got %v", err)
	for _, c := range []struct{ user, want string }{
		{"ann", "[{spillgate.outcome allowed} {spillgate.rule api}]"},
		{"ann", "[{spillgate.outcome allowed} {spillgate.rule api}]"},
		{"", "[{spillgate.outcome no_key} {spillgate.rule api}]"},
	} {
		expect.Equal(t, spanOf(t, nil, []string{c.user}, oteltelemetry.WithSpanAttributes()), c.want, "user %q", c.user)
	}
	got, want := spanOf(t, nil, []string{"ann", "ann", "ann"}, oteltelemetry.WithSpanAttributes()), "[{spillgate.outcome denied} {spillgate.rule api}]"
	expect.Equal(t, got, want, "a denied request")
	expect.Equal(t, spanOf(t, nil, []string{"ann"}), "[]", "without the option")
}

// TestSpanNamesTheDecidingRule checks which of several rules an attribute names, after a dry run and a wide rule.
func TestSpanNamesTheDecidingRule(t *testing.T) {
	before := []core.Rule{
		{Name: "trial", Key: user, Limits: []core.Limit{core.PerHour(1)}, DryRun: true},
		{Name: "wide", Key: user, Limits: []core.Limit{core.PerHour(100)}},
	}
	for outcome, users := range map[string][]string{"allowed": {"ann", "ann"}, "denied": {"ann", "ann", "ann"}} {
		got := spanOf(t, before, users, oteltelemetry.WithSpanAttributes())
		expect.Equal(t, got, "[{spillgate.outcome "+outcome+"} {spillgate.rule api}]", "%d requests", len(users))
	}
}

// spanOf returns the attributes of the span in which the last user asked a limiter with these rules before its own.
func spanOf(t *testing.T, before []core.Rule, users []string, opts ...oteltelemetry.Option) string {
	t.Helper()
	tel := telemetry.New(telemetry.Options{})
	must.Do(t, oteltelemetry.Register(tel, metric.NewMeterProvider().Meter("test"), opts...))
	l := limited(tel, before...)
	recorder := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("test")
	for _, u := range users {
		ctx, span := tracer.Start(t.Context(), "request")
		ask(ctx, l, u)
		span.End()
	}
	var all []string
	for _, a := range recorder.Ended()[len(users)-1].Attributes() {
		all = append(all, fmt.Sprintf("{%s %s}", a.Key, fmt.Sprint(a.Value.AsInterface())))
	}
	return fmt.Sprint(all)
}
