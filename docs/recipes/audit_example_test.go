package recipes

import (
	"context"
	"io"
	"log/slog"

	"github.com/spillgate/spillgate/core"
)

// audited logs denials as JSON to out, such as a file that logrotate rotates: a line for each rule that denied the request. It
// logs a burst of 1,000 denials, then 1,000 per second.
func audited(rules []core.Rule, out io.Writer) (*core.Limiter, error) {
	log := slog.New(slog.NewJSONHandler(out, nil))
	lines := core.Must(core.New([]core.Rule{{Name: "audit", Limits: []core.Limit{core.PerSecond(1000)}}}))
	return core.New(rules, core.WithObserver(func(ctx context.Context, o *core.Observation) {
		if o.Err != nil || o.Allowed {
			return
		}
		if d, err := lines.Take(ctx, core.Claim{Rule: "audit", Key: "all"}); err != nil || !d.Allowed {
			return
		}
		for _, c := range o.Claims {
			if result, ok := deniedBy(o.Results, c.Rule); ok {
				log.LogAttrs(ctx, slog.LevelInfo, "denied", slog.String("rule", c.Rule), slog.String("key", c.Key),
					slog.String("limit", result.Limit.String()), slog.Time("at", o.At))
			}
		}
	}))
}

// deniedBy returns the first limit of a rule that denied the request.
func deniedBy(results []core.Result, rule string) (core.Result, bool) {
	for _, r := range results {
		if r.Rule == rule && !r.Allowed && !r.DryRun {
			return r, true
		}
	}
	return core.Result{}, false
}
