package routers

import (
	"net/http"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/keyfunc"
)

// TestMountedTwice checks that one limiter charges a request once, however often and wherever it is mounted, and that
// another one counts for itself.
func TestMountedTwice(t *testing.T) {
	for _, m := range apps.Mountings {
		for _, p := range wire.Protocols {
			t.Run(m.Name+"/"+p.Name, func(t *testing.T) {
				g, other := apps.Guard{Limiter: wire.PerHour(3)}, apps.Guard{Limiter: wire.PerHour(100)}
				app := apps.App{Guards: []apps.Guard{g, other, g}, Routes: []apps.Route{{Pattern: "/a", Guards: []apps.Guard{g, other}, Handler: wire.OK}}}
				s := wire.Serve(t, m.Build(app), p.HTTP2)
				for _, remaining := range []string{"2", "1", "0"} {
					got := s.Get("/a")
					got.WantStatus(t, 200)
					wire.WantRemaining(t, got.Header, remaining)
				}
				s.Get("/a").WantStatus(t, 429)
			})
		}
	}
}

// A list records keys in the order in which they were asked for.
type list struct {
	mu   sync.Mutex
	keys []string
}

func (l *list) pattern(r *http.Request) (string, error) {
	key, err := keyfunc.Pattern(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, key)
	return key, err
}

// take returns the keys and forgets them.
func (l *list) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.keys
	l.keys = nil
	return keys
}

// sayPattern is a handler that says which pattern it finds.
func sayPattern(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Pattern", core.RoutePattern(r))
}

// TestPatterns checks the key of keyfunc.Pattern in every place where a limiter can be mounted.
func TestPatterns(t *testing.T) {
	for _, m := range apps.Mountings {
		t.Run(m.Name, func(t *testing.T) {
			var asked list
			app := apps.App{Guards: []apps.Guard{{Limiter: core.Must(core.New([]core.Rule{core.PerHour(1000).By(asked.pattern)}))}}}
			for _, pattern := range []string{"/users", "/users/{id}", "/users/{id}/posts/{post}", "/api/v1/items/{item}"} {
				app.Routes = append(app.Routes, apps.Route{Pattern: pattern, Handler: sayPattern})
			}
			s := wire.Serve(t, m.Build(app), false)
			for _, row := range []struct{ method, path, pattern string }{
				{"GET", "/users", "/users"},
				{"GET", "/users/42", "/users/{id}"},
				{"GET", "/users/43?id=1", "/users/{id}"},
				{"GET", "/users/a%2Fb", "/users/{id}"},
				{"GET", "/users/%7Bid%7D", "/users/{id}"},
				{"POST", "/users/42", "/users/{id}"},
				{"HEAD", "/users/42", "/users/{id}"},
				{"DELETE", "/users/42/posts/7", "/users/{id}/posts/{post}"},
				{"PATCH", "/api/v1/items/9", "/api/v1/items/{item}"},
			} {
				got := s.Do(row.method, row.path)
				if got.StatusCode == http.StatusNotFound {
					// Some routers do not route an escaped slash within a parameter: then no pattern is right.
					if keys := asked.take(); row.path != "/users/a%2Fb" || len(keys) > 0 && keys[0] == "route:/users/a/b" {
						t.Errorf("%s %s: not found, keys %q", row.method, row.path, keys)
					}
					continue
				}
				if keys, want := asked.take(), "route:"+row.pattern; len(keys) != 1 || keys[0] != want {
					t.Errorf("%s %s: keys %q, want %q", row.method, row.path, keys, want)
				}
				if p := got.Header.Get("Pattern"); p != row.pattern {
					t.Errorf("%s %s: the handler finds %q, want %q", row.method, row.path, p, row.pattern)
				}
			}
			checkOthers(t, s, &asked)
		})
	}
}

// TestNestedPatterns checks that the pattern of a route in a router under a prefix is whole, prefix included.
func TestNestedPatterns(t *testing.T) {
	for _, n := range apps.Nested {
		t.Run(n.Name, func(t *testing.T) {
			var asked list
			s := wire.Serve(t, n.Build(apps.App{
				Guards: []apps.Guard{{Limiter: core.Must(core.New([]core.Rule{core.PerHour(1000).By(asked.pattern)}))}},
				Routes: []apps.Route{{Pattern: "/users", Handler: sayPattern}, {Pattern: "/users/{id}", Handler: sayPattern}},
			}), false)
			for path, want := range map[string]string{"/api/v1/users": apps.Prefix + "/users", "/api/v2/users/42": apps.Prefix + "/users/{id}"} {
				got := s.Get(path)
				got.WantStatus(t, 200)
				if keys := asked.take(); len(keys) != 1 || keys[0] != "route:"+want || got.Header.Get("Pattern") != want {
					t.Errorf("%s: keys %q, the handler finds %q, want %q", path, keys, got.Header.Get("Pattern"), want)
				}
			}
		})
	}
}

// checkOthers checks that requests that match no route share one key, whatever their method. Where the limiter is
// behind the router, it may not see them at all.
func checkOthers(t *testing.T, s *wire.Server, asked *list) {
	for _, pair := range [][2][2]string{
		{{"GET", "/nowhere"}, {"GET", "/nowhere/else/42"}},
		{{"BREW", "/users/42"}, {"STEEP", "/users/43"}},
	} {
		s.Do(pair[0][0], pair[0][1])
		one := asked.take()
		s.Do(pair[1][0], pair[1][1])
		other := asked.take()
		if len(one) != len(other) || len(one) > 1 || len(one) == 1 && one[0] != other[0] {
			t.Errorf("%v: keys %q and %q, want one", pair, one, other)
		}
	}
}
