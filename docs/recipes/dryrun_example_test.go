package recipes

import (
	"context"
	"log"

	"github.com/spillgate/spillgate/core"
)

// measured tries a rule on live traffic. It logs what the rule would deny, and denies nothing.
func measured(rule core.Rule) (*core.Limiter, error) {
	rule.DryRun = true
	return core.New([]core.Rule{rule}, core.WithObserver(func(_ context.Context, o *core.Observation) {
		for _, r := range o.Results {
			if !r.Allowed && o.Request != nil { // nil: of Limiter.Take
				log.Printf("rule %s would deny %s", r.Rule, o.Request.URL.Path)
			}
		}
	}))
}
