package oteltelemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/telemetry"
)

// annotate sets the attributes of the active span.
func annotate(ctx context.Context, o *core.Observation) {
	if ctx == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(outcomeKey.String(telemetry.OutcomeOf(o)))
	if rule := ruleOf(o); rule != "" {
		span.SetAttributes(ruleKey.String(rule))
	}
}

// ruleOf returns the rule that denied a request or, if it was allowed, constrains it most.
func ruleOf(o *core.Observation) string {
	for i := range o.Results {
		if r := &o.Results[i]; !r.Allowed && !r.DryRun {
			return r.Rule
		}
	}
	if r, ok := o.Tightest(); ok {
		return r.Rule
	}
	if n := len(o.Claims); n > 0 {
		return o.Claims[n-1].Rule
	}
	return ""
}
