// Package usage tells core.Limiter.Usage which rules an adapter wants to know about.
package usage

import "context"

type key struct{}

// WithRules returns a context for requests whose Usage is about these rules only.
func WithRules(ctx context.Context, rules []string) context.Context {
	return context.WithValue(ctx, key{}, rules)
}

// Rules returns the rules that ctx names, or nil.
func Rules(ctx context.Context) []string {
	rules, _ := ctx.Value(key{}).([]string)
	return rules
}
