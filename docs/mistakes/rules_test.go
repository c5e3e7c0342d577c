package mistakes

import (
	"net/http"
	"net/http/httptest"
	"runtime"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
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
	{"a method with a typing error", routed("PSOT /login"), login + `route "PSOT /login"`, "no method of HTTP", `did you mean "POST /login"?`},
	{"a path that is not clean", routed("/a//b/"), login + `route "/a//b/"`, "not clean", `did you mean "/a/b/"?`},
	{"a URL", routed("GET https://example.com/a"), login + `route "GET https://example.com/a"`, "has a scheme", `did you mean "GET example.com/a"?`},
	{"a parameter of gin", routed("GET /users/:id/x"), login + `route "GET /users/:id/x"`, "wildcard of another router", `did you mean "GET /users/{id}/x"?`},
	{"a wildcard of chi", routed("/static/*"), login + `route "/static/*"`, "wildcard of another router", `did you mean "/static/"?`},
	{"an open brace", routed("/{x"), login + `route "/{x"`, "bad wildcard segment", "must end with '}'"},
	{"patterns that cross", routed("/a/{x}", "/{y}/b"), login + `route "/{y}/b"`, `conflicts with pattern "/a/{x}"`, "neither is more specific"},
}
