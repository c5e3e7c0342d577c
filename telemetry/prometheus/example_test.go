package promtelemetry_test

import (
	"fmt"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/telemetry"
	promtelemetry "github.com/spillgate/spillgate/telemetry/prometheus"
)

func ExampleNewCollector() {
	t := telemetry.New(telemetry.Options{})
	limiter := core.Must(core.New([]core.Rule{core.PerHour(2).By(keyfunc.RemoteIP)}, core.WithObserver(t.Observe)))
	t.Attach(limiter)
	registry := prometheus.NewRegistry() // a program has prometheus.DefaultRegisterer
	registry.MustRegister(promtelemetry.NewCollector(t))

	_, _ = limiter.Check(httptest.NewRequest("GET", "/", nil))
	families, err := registry.Gather()
	for _, f := range families {
		if f.GetName() == "spillgate_requests_total" {
			for _, m := range f.GetMetric() {
				if m.GetCounter().GetValue() > 0 {
					fmt.Println(m.GetLabel()[1].GetValue(), m.GetCounter().GetValue())
				}
			}
		}
	}
	fmt.Println(err)
	// Output:
	// allowed 1
	// <nil>
}
