package oteltelemetry_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/telemetry"
	oteltelemetry "github.com/spillgate/spillgate/telemetry/otel"
)

func ExampleRegister() {
	t := telemetry.New(telemetry.Options{})
	limiter := core.Must(core.New([]core.Rule{core.PerHour(2).By(keyfunc.RemoteIP)}, core.WithObserver(t.Observe)))
	t.Attach(limiter)
	reader := sdk.NewManualReader() // a program has a PeriodicReader with an exporter
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	if err := oteltelemetry.Register(t, provider.Meter("github.com/spillgate/spillgate")); err != nil {
		fmt.Println(err)
		return
	}

	_, _ = limiter.Check(httptest.NewRequest("GET", "/", nil))
	var metrics metricdata.ResourceMetrics
	err := reader.Collect(context.Background(), &metrics)
	fmt.Println(metrics.ScopeMetrics[0].Scope.Name, err)
	// Output: github.com/spillgate/spillgate <nil>
}

// The span that is active while a request is decided gets the outcome and the rule.
func ExampleWithSpanAttributes() {
	t := telemetry.New(telemetry.Options{})
	err := oteltelemetry.Register(t, otel.Meter("github.com/spillgate/spillgate"), oteltelemetry.WithSpanAttributes())
	fmt.Println(err)
	// Output: <nil>
}
