package mistakes

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
)

// call returns a maker of the error of a call to a limiter with the rules api and login.
func call(f func(context.Context, *core.Limiter) error) func() error {
	return func() error {
		api, login := core.PerMinute(100).By(keyfunc.RemoteIP), core.PerMinute(5).By(keyfunc.RemoteIP)
		api.Name, login.Name = "api", "login"
		return f(context.Background(), core.Must(core.New([]core.Rule{api, login})))
	}
}

func take(claims ...core.Claim) func() error {
	return call(func(ctx context.Context, l *core.Limiter) error { _, err := l.Take(ctx, claims...); return err })
}

var ofCalls = []mistake{
	{"nothing to take", take(), "Take", "needs at least one", "claim"},
	{"a rule with a typing error", take(core.Claim{Rule: "logni", Key: "k"}), `claim 1: rule "logni"`, "no rule of this name", "did you mean login?"},
	{"a claim without a rule", take(core.Claim{Key: "k"}), `claim 1: rule "default"`, "no rule of this name", "there is api, login"},
	{"a claim without a key", take(core.Claim{Rule: "api", Key: "k"}, core.Claim{Rule: "login"}), "claim 2", `rule "login"`, "no key"},
	{"a negative cost", take(core.Claim{Rule: "api", Key: "k", Cost: -1}), `claim 1: rule "api"`, "got -1", "cost must not be negative"},
	{"a claim in flight that is not held", take(core.Claim{Key: "k", Limits: []core.Limit{core.AtOnce(1)}}), "claim 1", "a limit of requests in flight", "needs Hold or Peek"},
	{"a reset of no rule", call(func(ctx context.Context, l *core.Limiter) error { return l.Reset(ctx, "aip", "k") }), "reset", `no rule "aip"`, "did you mean api?"},
	{"a ban of no rule", call(func(ctx context.Context, l *core.Limiter) error { return l.Ban(ctx, "search", "k", time.Hour) }), "ban", `no rule "search"`, "there is api, login"},
	{"a ban of no time", call(func(ctx context.Context, l *core.Limiter) error { return l.Ban(ctx, "api", "k", 0) }), "ban", "got 0s", "duration must be more than 0 and at most 87600h0m0s"},
	{"rules that are swapped for none", call(func(_ context.Context, l *core.Limiter) error { return l.SetRules([]core.Rule{{Name: "api"}}) }), `rule "api": `, "needs at least one limit", "such as core.PerMinute(100)"},
}
