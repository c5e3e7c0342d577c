package promtelemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/breaker"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/telemetry"
	promtelemetry "github.com/spillgate/spillgate/telemetry/prometheus"
)

func user(r *http.Request) (string, error) {
	if u := r.Header.Get("User"); u != "" {
		return "user:" + u, nil
	}
	return "", core.ErrNoKey
}

// driven returns the counts of three requests of ann and one request without a key, under a limit of two, and of three loads of a
// rules file.
func driven(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel := telemetry.New(telemetry.Options{})
	l := core.Must(core.New([]core.Rule{{Name: "api", Key: user, Limits: []core.Limit{core.PerHour(2)}}}, core.WithObserver(tel.Observe)))
	tel.Attach(l)
	for _, err := range []error{nil, nil, core.ErrInvalid} {
		tel.FileLoaded("spillgate.yaml", "abc", err)
	}
	for _, u := range []string{"ann", "ann", "ann", ""} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("User", u)
		_, _ = l.Check(r)
	}
	return tel
}

func TestCollectedCounts(t *testing.T) {
	want := `
		# HELP spillgate_requests_total Requests that a rule applied to.
		# TYPE spillgate_requests_total counter
		spillgate_requests_total{spillgate_degraded="false",spillgate_outcome="allowed"} 2
		spillgate_requests_total{spillgate_degraded="true",spillgate_outcome="allowed"} 0
		spillgate_requests_total{spillgate_degraded="false",spillgate_outcome="denied"} 1
		spillgate_requests_total{spillgate_degraded="true",spillgate_outcome="denied"} 0
		spillgate_requests_total{spillgate_degraded="false",spillgate_outcome="no_key"} 1
		spillgate_requests_total{spillgate_degraded="false",spillgate_outcome="bad_key"} 0
		spillgate_requests_total{spillgate_degraded="false",spillgate_outcome="invalid"} 0
		spillgate_requests_total{spillgate_degraded="false",spillgate_outcome="unavailable"} 0
		# HELP spillgate_results_total Results of each limit, by its own answer.
		# TYPE spillgate_results_total counter
		spillgate_results_total{spillgate_limit="2/1h",spillgate_result="allowed",spillgate_rule="api"} 1
		spillgate_results_total{spillgate_limit="2/1h",spillgate_result="near",spillgate_rule="api"} 1
		spillgate_results_total{spillgate_limit="2/1h",spillgate_result="denied",spillgate_rule="api"} 1
		spillgate_results_total{spillgate_limit="2/1h",spillgate_result="would_deny",spillgate_rule="api"} 0
		spillgate_results_total{spillgate_limit="2/1h",spillgate_result="would_wait",spillgate_rule="api"} 0
		# HELP spillgate_rule_requests_total Requests that a rule decided, each counted once.
		# TYPE spillgate_rule_requests_total counter
		spillgate_rule_requests_total{spillgate_outcome="allowed",spillgate_rule="api"} 2
		spillgate_rule_requests_total{spillgate_outcome="denied",spillgate_rule="api"} 1
		spillgate_rule_requests_total{spillgate_outcome="would_deny",spillgate_rule="api"} 0
		# HELP spillgate_held Claims that are held now.
		# TYPE spillgate_held gauge
		spillgate_held 0
		# HELP spillgate_keys Keys in memory, with state of their own, and states that keys share.
		# TYPE spillgate_keys gauge
		spillgate_keys{spillgate_state="own"} 1
		spillgate_keys{spillgate_state="shared"} 0
		# HELP spillgate_rulefile_loads_total Loads of the rules file.
		# TYPE spillgate_rulefile_loads_total counter
		spillgate_rulefile_loads_total{spillgate_result="failed"} 1
		spillgate_rulefile_loads_total{spillgate_result="ok"} 2
		# HELP spillgate_settled_total Requests that held something and were settled.
		# TYPE spillgate_settled_total counter
		spillgate_settled_total{spillgate_result="charged"} 0
		spillgate_settled_total{spillgate_result="failed"} 0
		spillgate_settled_total{spillgate_result="free"} 0
		# HELP spillgate_store_failures_total Calls of the store that failed or were late.
		# TYPE spillgate_store_failures_total counter
		spillgate_store_failures_total 0
		# HELP spillgate_store_up 1 while the store is used, 0 while calls are withheld from it.
		# TYPE spillgate_store_up gauge
		spillgate_store_up 1
	`
	err := testutil.CollectAndCompare(promtelemetry.NewCollector(driven(t)), strings.NewReader(want),
		"spillgate_requests_total", "spillgate_results_total", "spillgate_rule_requests_total", "spillgate_held", "spillgate_keys", "spillgate_rulefile_loads_total", "spillgate_settled_total", "spillgate_store_failures_total", "spillgate_store_up")
	expect.NoError(t, err, "the metrics")
}

func TestLinterFindsNothing(t *testing.T) {
	problems := must.Get(testutil.CollectAndLint(promtelemetry.NewCollector(driven(t))))(t)
	expect.AtMost(t, len(problems), 0, "%v", problems)
}

// A pedantic registry rejects series that are inconsistent or occur twice.
func TestRegistryAcceptsTheMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promtelemetry.NewCollector(driven(t)))
	expect.NoError(t, expect.ErrorOf(registry.Gather()), "Gather")
}

// The duration of store calls is a histogram whose buckets add up.
func TestStoreDuration(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	for _, d := range telemetry.Buckets {
		tel.Observe(t.Context(), &core.Observation{Store: d})
		tel.Observe(t.Context(), &core.Observation{Store: d + 1})
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promtelemetry.NewCollector(tel))
	for _, f := range must.Get(registry.Gather())(t) {
		if f.GetName() != "spillgate_store_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		n := uint64(len(telemetry.Buckets))
		expect.True(t, h.GetSampleCount() == 2*n && len(h.GetBucket()) == int(n) && h.GetSampleSum() >= 2*0.1+2*0.25+2, "got %v", h)
		for i, b := range h.GetBucket() {
			expect.True(t, b.GetUpperBound() == telemetry.Buckets[i].Seconds() && b.GetCumulativeCount() == uint64(2*i+1),
				"bucket %d: got %v", i, b)
		}
		return
	}
	t.Error("the histogram is missing")
}

// TestWaits checks the histogram of a rule's waits, and the number of waiting requests.
func TestWaits(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	limit := core.PerSecond(1)
	for _, d := range telemetry.WaitBuckets {
		tel.Observe(t.Context(), &core.Observation{
			Decision: core.Decision{Allowed: true, Wait: d, Results: []core.Result{{Rule: "api", Limit: limit, Allowed: true, Wait: d}}},
			Claims:   []core.Claim{{Rule: "api", Key: "k", Limits: []core.Limit{limit}}},
		})
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(promtelemetry.NewCollector(tel))
	families := must.Get(registry.Gather())(t)
	found := 0
	for _, f := range families {
		switch f.GetName() {
		case "spillgate_waiting":
			found++
		case "spillgate_wait_duration_seconds":
			found++
			m := f.GetMetric()[0]
			n := len(telemetry.WaitBuckets)
			if h := m.GetHistogram(); m.GetLabel()[0].GetValue() != "api" || h.GetSampleCount() != uint64(n) || len(h.GetBucket()) != n || h.GetBucket()[3].GetCumulativeCount() != 4 {
				t.Errorf("got %v", m)
			}
		}
	}
	expect.Equal(t, found, 2, "found of 2 metrics")
}

type leasing struct{ core.MemoryStore }

// Take is overloaded by the claims of a flood.
func (s *leasing) Take(ctx context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	if claims[0].Rule == "flood" {
		return nil, breaker.ErrTooMany
	}
	return s.MemoryStore.Take(ctx, claims, dst)
}

func (*leasing) LeaseStats() core.LeaseStats {
	return core.LeaseStats{Keys: 4, Decisions: 50, Returned: 6}
}

func TestStoreGauges(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	l := core.Must(core.New([]core.Rule{core.AtOnce(2).By(user)}, core.WithStore(new(leasing)), core.WithObserver(tel.Observe)))
	tel.Attach(l)
	must.Get(l.Take(t.Context(), core.Claim{Key: "user:ann", Hold: true}))(t)
	must.Get(l.Take(t.Context(), core.Claim{Rule: "flood", Key: "k", Limits: core.MustParseLimits("0/h")}))(t)
	want := `
		# HELP spillgate_held Claims that are held now.
		# TYPE spillgate_held gauge
		spillgate_held 1
		# HELP spillgate_lease_decisions_total Requests that were decided from a lease.
		# TYPE spillgate_lease_decisions_total counter
		spillgate_lease_decisions_total 50
		# HELP spillgate_lease_keys Keys that are leased to this process.
		# TYPE spillgate_lease_keys gauge
		spillgate_lease_keys 4
		# HELP spillgate_lease_returned_total Requests that were charged ahead, and returned or drained unused.
		# TYPE spillgate_lease_returned_total counter
		spillgate_lease_returned_total 6
		# HELP spillgate_store_overloads_total Requests that local limits decided because too many calls of the store were in flight.
		# TYPE spillgate_store_overloads_total counter
		spillgate_store_overloads_total 1
		`
	names := []string{"spillgate_held", "spillgate_lease_keys", "spillgate_lease_decisions_total", "spillgate_lease_returned_total", "spillgate_store_overloads_total"}
	expect.NoError(t, testutil.CollectAndCompare(promtelemetry.NewCollector(tel), strings.NewReader(want), names...), "CollectAndCompare")
}

// Clients choose a million keys and 10,000 paths. Neither adds a series.
func TestSeriesDoNotDependOnClients(t *testing.T) {
	tel := driven(t)
	limit := core.PerHour(2)
	o := &core.Observation{Claims: []core.Claim{{Rule: "api", Limits: []core.Limit{limit}}}}
	o.Results = []core.Result{{Rule: "api", Limit: limit}}
	o.Request = httptest.NewRequest(http.MethodGet, "/", nil)
	before := testutil.CollectAndCount(promtelemetry.NewCollector(tel))
	for i := range 1_000_000 {
		o.Claims[0].Key = "user:" + strconv.Itoa(i)
		o.Request.URL.Path = "/" + strconv.Itoa(i%10_000)
		o.Allowed, o.Results[0].Allowed = i%10 > 0, i%10 > 0
		tel.Observe(t.Context(), o)
	}
	after := testutil.CollectAndCount(promtelemetry.NewCollector(tel))
	expect.True(t, after == before && before != 0, "got %d series after, %d before", after, before)
}

// TestQuotas checks that decisions with limits from an override, and grants, are counted by rule.
func TestQuotas(t *testing.T) {
	tel := telemetry.New(telemetry.Options{})
	override := func(key string) []core.Limit { return []core.Limit{core.PerMonth(len(key))} }
	l := core.Must(core.New([]core.Rule{{Name: "plan", Key: user, Limits: []core.Limit{core.PerMonth(2)}, Override: override}}, core.WithObserver(tel.Observe)))
	tel.Attach(l)
	for range 3 {
		_, _ = l.Take(t.Context(), core.Claim{Rule: "plan", Key: "user:ann"})
	}
	must.Do(t, l.Grant(t.Context(), "plan", "user:ann", 5))
	want := `
		# HELP spillgate_rule_grants_total Grants that the limiters of this process made.
		# TYPE spillgate_rule_grants_total counter
		spillgate_rule_grants_total{spillgate_rule="plan"} 1
		# HELP spillgate_rule_overridden_total Decisions that used the limits of an override.
		# TYPE spillgate_rule_overridden_total counter
		spillgate_rule_overridden_total{spillgate_rule="plan"} 3
	`
	err := testutil.CollectAndCompare(promtelemetry.NewCollector(tel), strings.NewReader(want), "spillgate_rule_overridden_total", "spillgate_rule_grants_total")
	expect.NoError(t, err, "the metrics")
}
