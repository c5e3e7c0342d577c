package mistakes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/telemetry"
)

const login = `rule "login": `

func ruleWith(change func(*core.Rule)) func() error { return func() error { return newRule(change) } }

func routed(patterns ...string) func() error {
	return ruleWith(func(r *core.Rule) { r.Routes = patterns })
}

var ofRules = []mistake{
	{"no rules", func() error { _, err := core.New(nil); return err }, "a limiter", "at least one rule", "such as core.PerMinute(100).By(keyfunc.RemoteIP)"},
	{"a request under a rule for Take", func() error {
		l := core.Must(core.New([]core.Rule{{Name: "login", Limits: []core.Limit{core.PerMinute(5)}}}))
		_, err := l.Check(httptest.NewRequest(http.MethodGet, "/", nil))
		return err
	}, login, "key func is missing", "set Key to one such as keyfunc.RemoteIP"},
	{"no limits", ruleWith(func(r *core.Rule) { r.Limits = nil }), login, "needs at least one limit", "such as core.PerMinute(100)"},
	{"too many limits", ruleWith(func(r *core.Rule) { r.Limits = make([]core.Limit, 17) }), login, "got 17", "at most 16 limits"},
	{"a name twice", ruleWith(func(r *core.Rule) { r.Name = "" }), `rule "default": `, "name is not unique", "give each rule a Name of its own"},
	{"a name that does not print", ruleWith(func(r *core.Rule) { r.Name = "größe" }), `rule "größe": `, "name", "must be printable ASCII"},
	{"no such failure mode", ruleWith(func(r *core.Rule) { r.OnFailure = 7 }), login, "no failure mode 7", "want FailLocal, FailOpen or FailClosed"},
	{"two limits at once", ruleWith(func(r *core.Rule) { r.Limits = []core.Limit{core.AtOnce(1), core.AtOnce(2)} }), login + "limits 1 and 2", "both of requests in flight", "a rule has one"},
	{"two limits of a name in one store", func() error {
		store := new(core.MemoryStore)
		first := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}, core.WithStore(store)))
		_, err := core.New([]core.Rule{core.PerMinute(5).By(keyfunc.RemoteIP)}, core.WithStore(store))
		runtime.KeepAlive(first)
		return err
	}, `rule "default": `, "the limits [100/1m], got [5/1m]", "use another name or Limiter.SetRules"},
}

var ofRoutes = []mistake{
	{"no slash", routed("POST login"), login + `route "POST login"`, "has no path", `did you mean "POST /login"?`},
	{"a host alone", routed("login"), login + `route "login"`, "has no path", `did you mean "/login"?`},
	{"no pattern", routed(""), login + `route ""`, "is empty", `such as "POST /login" or "/api/"`},
	{"a space", routed("/x y"), login + `route "/x y"`, "has a space in its path", `did you mean "/x%20y"?`},
	{"a method in lower case", routed("post /login"), login + `route "post /login"`, "not in upper case", `did you mean "POST /login"?`},
	{"no space behind the method", routed("POST/login"), login + `route "POST/login"`, "a method in place of a host", `did you mean "POST /login"?`},
	{"any method", routed("ANY /login"), login + `route "ANY /login"`, "for all methods", `did you mean "/login"?`},
	{"several methods", routed("GET|POST /login"), login + `route "GET|POST /login"`, "several methods", `a pattern for each, such as "GET /login"`},
	{"a line break", routed("POST /login\n"), login + `route "POST /login\n"`, "has a line break", `did you mean "POST /login"?`},
	{"a query", routed("/search?q="), login + `route "/search?q="`, "no part of a path", `did you mean "/search"?`},
	{"a method with a typing error", routed("PSOT /login"), login + `route "PSOT /login"`, "no method of HTTP", `did you mean "POST /login"?`},
	{"a path that is not clean", routed("/a//b/"), login + `route "/a//b/"`, "not clean", `did you mean "/a/b/"?`},
	{"a URL", routed("GET https://example.com/a"), login + `route "GET https://example.com/a"`, "has a scheme", `did you mean "GET example.com/a"?`},
	{"a parameter of gin", routed("GET /users/:id/x"), login + `route "GET /users/:id/x"`, "wildcard of another router", `did you mean "GET /users/{id}/x"?`},
	{"a wildcard of chi", routed("/static/*"), login + `route "/static/*"`, "wildcard of another router", `did you mean "/static/"?`},
	{"an open brace", routed("/{x"), login + `route "/{x"`, "bad wildcard segment", "must end with '}'"},
	{"patterns that cross", routed("/a/{x}", "/{y}/b"), login + `route "/{y}/b"`, `conflicts with pattern "/a/{x}"`, "neither is more specific"},
}

func redisWith(opts ...redisstore.Option) func() error {
	return options(core.WithStore(redisstore.New(redis.NewClient(&redis.Options{}), opts...)))
}

var ofOptions = []mistake{
	{"a nil option", options(core.WithTimeout(1), nil), "option 2 of 2", "is nil", "leave it out"},
	{"a nil store", options(core.WithStore(nil)), "WithStore", "store is nil", "leave the option out"},
	{"two stores", options(core.WithStore(new(core.MemoryStore)), core.WithStore(new(core.MemoryStore))), "WithStore", "a second store", "a limiter has one"},
	{"a nil skip", options(core.WithSkip(nil)), "WithSkip", "skip is nil", "want a func"},
	{"a nil observer", options(core.WithObserver(nil)), "WithObserver", "observer is nil", "want a func"},
	{"a nil logger", options(core.WithLogger(nil)), "WithLogger", "logger is nil", "leave the option out for slog.Default"},
	{"no timeout", options(core.WithTimeout(0)), "WithTimeout", "got 0s", "must be positive"},
	{"a nil fallback", options(core.WithFallback(nil)), "WithFallback", "fallback is nil", "leave the option out for a MemoryStore"},
	{"two fallbacks", options(core.WithFallback(new(core.MemoryStore)), core.WithFallback(new(core.MemoryStore))), "WithFallback", "a second fallback", "a limiter has one"},
	{"less than no keys", options(core.WithStore(&core.MemoryStore{MaxKeys: -1})), "MemoryStore: MaxKeys", "got -1", "must not be negative"},

	{"no client", options(core.WithStore(redisstore.New(nil))), "redisstore", "client is nil", "want one such as redis.NewClient returns"},
	{"a zero store", options(core.WithStore(new(redisstore.Store))), "redisstore", "the Store is zero", "want one that New returns"},
	{"a nil option of Redis", redisWith(nil), "redisstore", "option is nil", "leave it out"},
	{"no prefix", redisWith(redisstore.WithPrefix("")), "redisstore: WithPrefix", "prefix is empty", "want the name of your service"},
	{"a prefix with a brace", redisWith(redisstore.WithPrefix("a{b")), "redisstore: WithPrefix", `"a{b"`, "must be printable ASCII without spaces, braces or backslashes"},
	{"a short secret", redisWith(redisstore.WithKeySecret([]byte("x"))), "redisstore: WithKeySecret", "got 1", "at least 16 bytes"},
	{"less than nothing", redisWith(redisstore.WithDenyCache(-1)), "redisstore: WithDenyCache", "got -1", "0 turns the cache off"},

	{"no limiter", panicOf(func() { stdlib.New(nil) }), "spillgate", "the limiter is nil", "want one that core.New returned"},
	{"no next handler", panicOf(func() { stdlib.New(core.Must(core.New([]core.Rule{core.PerMinute(1).By(keyfunc.RemoteIP)})))(nil) }), "spillgate", "the next handler is nil", "such as http.DefaultServeMux"},
	{"a nil option of an adapter", panicOf(func() { stdlib.New(new(core.Limiter), stdlib.WithHeaders(nil), nil) }), "option 2 of 2", "is nil", "leave it out"},
	{"a nil option of the page", panicOf(func() { dashboard.New(telemetry.New(telemetry.Options{}), nil) }), "dashboard.New: option 1 of 1", "is nil", "leave it out"},
	{"no telemetry", panicOf(func() { dashboard.New(nil) }), "dashboard.New", "got nil", "such as telemetry.New returns"},
	{"a host with a port", panicOf(func() { dashboard.WithHosts("admin.example.com:8443") }), "dashboard.WithHosts", `"admin.example.com:8443"`, "without scheme and port"},
	{"no authorization", panicOf(func() { dashboard.WithReset(nil) }), "dashboard.WithReset", "got nil", "a func that says which senders may reset"},
	{"a limiter that New did not make", func() error {
		_, err := new(core.Limiter).Check(new(http.Request))
		return err
	}, "limiter", "was not made", "by New"},
}

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

func clientIP(c keyfunc.ClientIP) func() error {
	return func() error {
		_, err := keyfunc.NewClientIP(c)
		return err
	}
}

var ofKeys = []mistake{
	{"everybody is trusted", clientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}), "ClientIP.Trusted[0]", "got 0.0.0.0/0", "want the networks of your proxies"},
	{"no prefix is trusted", clientIP(keyfunc.ClientIP{Trusted: []netip.Prefix{{}}}), "ClientIP.Trusted[0]", "got invalid Prefix", "want a prefix such as 10.0.0.0/24"},
	{"too many hops", clientIP(keyfunc.ClientIP{Hops: 33}), "ClientIP.Hops", "got 33", "between 0 and 32"},
	{"no header", clientIP(keyfunc.ClientIP{Hops: 1, Header: "X Y"}), "ClientIP.Header", `got "X Y"`, "the name of a header other than Host"},
	{"too many bits", clientIP(keyfunc.ClientIP{IPv6Bits: 129}), "ClientIP.IPv6Bits", "got 129", "0 or between 32 and 128"},
	{"an API key in no header", panicOf(func() { keyfunc.APIKey("X Api Key") }), "APIKey", `got "X Api Key"`, "the name of a header other than Host"},
	{"the header Host", panicOf(func() { keyfunc.Header("Host") }), "Header", `got "Host"`, "the name of a header other than Host"},
	{"no cookie", panicOf(func() { keyfunc.Cookie("") }), "Cookie", `got ""`, "the name of a cookie"},
	{"no constant", panicOf(func() { keyfunc.Const("") }), "Const", "got an empty one", "needs a key"},
	{"no user func", panicOf(func() { keyfunc.User(nil) }), "User", "got nil", "needs a func"},
	{"nothing first", panicOf(func() { keyfunc.First() }), "First", "at least one", "key func"},
	{"nothing joined", panicOf(func() { keyfunc.Join(keyfunc.RemoteIP, nil) }), "Join", "key func 2 of 2", "is nil"},
	{"no secret", panicOf(func() { keyfunc.Hash(nil, keyfunc.RemoteIP) }), "Hash", "got an empty one", "needs a secret"},
}
