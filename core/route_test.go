package core_test

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/must"
)

// A known is a router that finds the same pattern for every request.
type known string

// An unknown is a router that cannot find the pattern of any request.
type unknown struct{ error }

func (p known) RoutePattern(*http.Request) (string, error) { return string(p), nil }

func (u unknown) RoutePattern(*http.Request) (string, error) { return "", u }

// TestUnknownRouteIsAnError asks for the route in each callback that runs before the route is known.
func TestUnknownRouteIsAnError(t *testing.T) {
	hint := errors.New("mount it elsewhere")
	pattern := core.RoutePattern
	rule := func(change func(*core.Rule)) []core.Rule {
		r := perHour("login", 5)
		change(&r)
		return []core.Rule{perHour("first", 5), r}
	}
	for why, row := range map[string]struct {
		rules []core.Rule
		opts  []core.Option
		place string
	}{
		"Match": {rules: rule(func(r *core.Rule) { r.Match = func(r *http.Request) bool { return pattern(r) == "/login" } })},
		"Cost":  {rules: rule(func(r *core.Rule) { r.Cost = func(r *http.Request) int { return len(pattern(r)) } })},
		"Tier": {rules: rule(func(r *core.Rule) {
			r.Tier = func(r *http.Request) []core.Limit { pattern(r); return []core.Limit{{}} }
		})},
		"skip": {rules: rule(func(*core.Rule) {}), opts: []core.Option{core.WithSkip(func(r *http.Request) bool { return pattern(r) == "" })}, place: "skip"},
		"Key, in an adapter": {rules: rule(func(r *core.Rule) {
			r.Key = func(r *http.Request) (string, error) { return "route:" + pattern(r), nil }
		})},
	} {
		l := core.Must(core.New(row.rules, append(row.opts, core.WithLogger(slog.New(slog.DiscardHandler)))...))
		place := cmp.Or(row.place, `rule "login"`)
		g, err := l.Guard(t.Context(), get("/login"), unknown{hint})
		if g.Admitted() {
			t.Errorf("%s: admitted", why)
		}
		wantError(t, err, core.ErrInvalid, place)
		wantError(t, err, core.ErrInvalid, hint.Error())
		if _, err := l.Guard(t.Context(), get("/login"), known("/login")); err != nil {
			wantError(t, err, core.ErrInvalid, "tier") // the limit that Tier returns
		}
		if why == "Key, in an adapter" {
			continue
		}
		_, err = l.Check(get("/login"))
		wantError(t, err, core.ErrInvalid, "not known here")
		_, err = l.Peek(get("/login"))
		wantError(t, err, core.ErrInvalid, "not known here")
		if d, err := l.Peek(get("/login")); err == nil || d.Allowed {
			t.Errorf("%s: got %+v, %v", why, d, err)
		}
	}
}

// TestHandlerMayAskForUnknownRoute asks for the route after the decision.
func TestHandlerMayAskForUnknownRoute(t *testing.T) {
	l := unlimited()
	g, err := l.Guard(t.Context(), get("/"), unknown{io.EOF})
	if pattern := core.RoutePattern(g.Request()); err != nil || pattern != "" || !g.Admitted() {
		t.Errorf("got %q, %v", pattern, err)
	}
	if _, err := core.Route(g.Request()); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Route returns the error %v, want ErrInvalid", err)
	}
	if d, ok := core.FromContext(g.Request().Context()); !ok || len(d.Results) != 1 {
		t.Errorf("the question changed the decision to %+v", d)
	}
}

func TestRoutePattern(t *testing.T) {
	var found []string
	byRoute := func(r *http.Request) (string, error) {
		found = append(found, core.RoutePattern(r))
		return "k", nil
	}
	l := core.Must(core.New([]core.Rule{core.PerHour(9).By(byRoute)}))
	other := core.Must(core.New([]core.Rule{core.PerHour(9).By(byRoute)}))
	ask := func(l *core.Limiter, r *http.Request, router core.Router) *http.Request {
		g, err := l.Guard(r.Context(), r, router)
		if err != nil {
			t.Error(err)
		}
		return g.Request()
	}
	plain := get("/users/7")
	plain.Pattern = "GET /users/{id}"
	nested := ask(l, plain, known("/outer/*")) // 1: the adapter's
	ask(other, nested, known("/outer/inner"))  // 2: the innermost adapter's
	ask(other, nested, known(""))              // 3: it knows that there is none
	ask(other, nested, unknown{io.EOF})        // 4: the adapter around it knows its route
	ask(other, nested, nil)                    // 5: as in 4
	ask(l, plain, nil)                         // 6: ServeMux knows its route
	ask(l, plain, unknown{io.EOF})             // 7: as in 6
	ask(l, get("/"), known(""))                // 8: none
	want := []string{"/outer/*", "/outer/inner", "", "/outer/*", "/outer/*", "GET /users/{id}", "GET /users/{id}", ""}
	if !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

// The adapter around the handler knows the route.
func TestCheckInsideAnAdapterFindsItsRoute(t *testing.T) {
	outer := core.Must(core.New([]core.Rule{perHour("outer", 5)}))
	g := must.Get(outer.Guard(t.Context(), get("/"), known("/p")))(t)
	rule := perHour("inner", 5)
	rule.Match = func(r *http.Request) bool { return core.RoutePattern(r) == "/p" }
	if d, err := core.Must(core.New([]core.Rule{rule})).Check(g.Request()); err != nil || len(d.Results) != 1 {
		t.Errorf("got %+v, %v; want the rule to apply", d, err)
	}
}

func TestRoutePatternOfARequestThatNoLimiterHasSeen(t *testing.T) {
	r := get("/")
	if pattern := core.RoutePattern(r); pattern != "" {
		t.Errorf("got %q", pattern)
	}
	if r.Pattern = "/p"; core.RoutePattern(r) != "/p" {
		t.Errorf("got %q, want the pattern of the mux", core.RoutePattern(r))
	}
}

// A callback may read the body of a request, which can be read only once.
func TestCheckLeavesWhatACallbackHasParsed(t *testing.T) {
	rule := perHour("login", 5)
	rule.Match = func(r *http.Request) bool { return r.PostFormValue("user") == "ann" }
	l := core.Must(core.New([]core.Rule{rule}))
	for verb, ask := range map[string]func(*http.Request) (core.Decision, error){"Check": l.Check, "Peek": l.Peek} {
		r := get("/")
		r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader("user=ann"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if d, err := ask(r); err != nil || len(d.Results) != 1 || r.PostForm.Get("user") != "ann" {
			t.Errorf("%s: got %+v, %v; the request has the form %v", verb, d, err, r.PostForm)
		}
	}
}

// routed returns a rule for the requests that patterns name. It is named after them.
func routed(patterns ...string) core.Rule {
	return core.Rule{Name: strings.Join(patterns, " "), Key: constKey, Limits: []core.Limit{core.PerHour(1_000_000)}, Routes: patterns}
}

// applied returns the names of the rules of l that apply to r.
func applied(t testing.TB, l *core.Limiter, r *http.Request) (names []string) {
	t.Helper()
	d := must.Get(l.Peek(r))(t)
	for _, res := range d.Results {
		names = append(names, res.Rule)
	}
	return names
}

func TestAllRulesThatMatchApplyInOrder(t *testing.T) {
	never := routed("/login")
	never.Name, never.Match = "never", func(*http.Request) bool { return false }
	everywhere := routed()
	everywhere.Name = "everywhere"
	l := core.Must(core.New([]core.Rule{routed("GET /login"), everywhere, never, routed("/"), routed("POST /login"), routed("/login", "/{page}")}))
	for path, want := range map[string][]string{
		"/login":  {"GET /login", "everywhere", "/", "/login /{page}"},
		"//login": {"GET /login", "everywhere", "/", "/login /{page}"},
		"/a/b":    {"everywhere", "/"},
	} {
		if got := applied(t, l, get(path)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestRouteMistakesNameTheirRule(t *testing.T) {
	err := newErr(routed("POST login", "/a/../b"), routed("/a/{x}"), routed("/{y}/b"), named("n"))
	for _, want := range []string{
		`rule "POST login /a/../b": route "POST login" has no path; did you mean "POST /login"?`,
		`rule "POST login /a/../b": route "/a/../b" can never match`,
		`rule "/{y}/b": route "/{y}/b": pattern "/{y}/b" conflicts with pattern "/a/{x}"`,
	} {
		wantError(t, err, core.ErrInvalid, want)
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 3 {
		t.Errorf("got %d mistakes, want 3:\n%v", got, err)
	}
}
