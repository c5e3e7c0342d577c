package core_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
)

// routed returns a rule for the requests that patterns name. It is named after them.
func routed(patterns ...string) core.Rule {
	return core.Rule{Name: strings.Join(patterns, " "), Key: constKey, Limits: []core.Limit{core.PerHour(1_000_000)}, Routes: patterns}
}

// applied returns the names of the rules of l that apply to r.
func applied(t testing.TB, l *core.Limiter, r *http.Request) (names []string) {
	t.Helper()
	d, err := l.Peek(r)
	if err != nil {
		t.Fatal(err)
	}
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
