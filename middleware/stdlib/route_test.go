package stdlib_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// patterns returns a middleware whose key func stores the pattern it finds.
func patterns(found *string) func(http.Handler) http.Handler {
	return stdlib.New(core.Must(core.New([]core.Rule{core.PerHour(100).By(func(r *http.Request) (string, error) {
		*found = core.RoutePattern(r)
		return "const:all", nil
	})})))
}

func TestPatternNotations(t *testing.T) {
	for _, row := range []struct{ why, pattern, path, want string }{
		{"the method is not part of it", "GET /users/{id}", "/users/1", "/users/{id}"},
		{"the host is", "GET example.com/users/{id}", "/users/1", "example.com/users/{id}"},
		{"a subtree", "/files/", "/files/a/b", "/files/"},
		{"the rest of the path", "/files/{path...}", "/files/a/b", "/files/{path...}"},
		{"a path that is redirected belongs to where it leads", "/files/", "/files", "/files/"},
		{"no route", "/files/", "/", ""},
	} {
		var outside, inside string
		mux := http.NewServeMux()
		mux.Handle(row.pattern, patterns(&inside)(http.NotFoundHandler()))
		patterns(&outside)(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, row.path, nil))
		if outside != row.want {
			t.Errorf("%s: outside %q, want %q", row.why, outside, row.want)
		}
		if inside != "" && inside != row.want {
			t.Errorf("%s: inside %q, want %q", row.why, inside, row.want)
		}
	}
}

// TestPatternBeyondMux checks which patterns are known in front of handlers that do not report them.
func TestPatternBeyondMux(t *testing.T) {
	opaque := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	api := http.NewServeMux()
	api.Handle("/api/", http.StripPrefix("/api", opaque))
	for _, row := range []struct {
		why  string
		next http.Handler
		want string
	}{
		{"the mux knows no further than its handler", api, "/api/"},
		{"a mux that contains itself is not asked for ever", loop{}, "/"},
	} {
		var found string
		patterns(&found)(row.next).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/users/1", nil))
		if found != row.want {
			t.Errorf("%s: %q, want %q", row.why, found, row.want)
		}
	}
}

// TestPatternOutsideOpaqueHandler checks that a rule that asks for an unknown route admits nothing.
func TestPatternOutsideOpaqueHandler(t *testing.T) {
	login := core.PerHour(1).By(func(*http.Request) (string, error) { return "const:all", nil })
	login.Match = func(r *http.Request) bool { return core.RoutePattern(r) == "/login" }
	var failure error
	limit := stdlib.New(core.Must(core.New([]core.Rule{login}, core.WithLogger(slog.New(slog.DiscardHandler)))),
		stdlib.WithErrorHandler(func(w http.ResponseWriter, r *http.Request, err error) {
			failure = err
			stdlib.WriteError(w, r, err)
		}))
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	w := httptest.NewRecorder()
	limit(http.HandlerFunc(mux.ServeHTTP)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/login", nil))
	if w.Code != http.StatusInternalServerError || !errors.Is(failure, core.ErrInvalid) || !strings.Contains(failure.Error(), "mount the limiter directly around an http.ServeMux") {
		t.Errorf("status %d, error %v", w.Code, failure)
	}
}

// TestPatternBetweenMuxes checks which mux's pattern is found if the middleware is between two muxes.
func TestPatternBetweenMuxes(t *testing.T) {
	for _, row := range []struct{ why, outer, inner, want string }{
		{"the inner one divides a subtree", "/api/", "/api/users/{id}", "/api/users/{id}"},
		{"however the subtree is written", "/api/{rest...}", "/api/users/{id}", "/api/users/{id}"},
		{"an inner one that does not know the request", "/api/", "/other/", "/api/"},
		{"a route is not made coarser", "/api/users/{id}", "/", "/api/users/{id}"},
	} {
		var found string
		inner, outer := http.NewServeMux(), http.NewServeMux()
		inner.Handle(row.inner, http.NotFoundHandler())
		outer.Handle(row.outer, patterns(&found)(inner))
		outer.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/users/1", nil))
		if found != row.want {
			t.Errorf("%s: %q, want %q", row.why, found, row.want)
		}
	}
}

type loop struct{}

func (l loop) Handler(*http.Request) (http.Handler, string)   { return l, "/" }
func (loop) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

func TestNilLimiter(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New(nil) did not panic")
		}
	}()
	stdlib.New(nil)
}
