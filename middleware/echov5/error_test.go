package echolimit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
)

const secret = "hunter2"

// limited returns an instance with a limit per hour for a key func.
func limited(n int, key core.KeyFunc) *echo.Echo {
	e := echo.New()
	e.Use(echolimit.New(core.Must(core.New([]core.Rule{core.PerHour(n).By(key)}))))
	e.GET("/", func(*echo.Context) error { return nil })
	return e
}

func get(e *echo.Echo) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w
}

var causes = []struct {
	why     string
	limit   int
	key     core.KeyFunc
	status  int
	wrapped error
}{
	{"denied", 0, func(*http.Request) (string, error) { return "user:" + secret, nil }, 429, nil},
	{"no key", 1, func(*http.Request) (string, error) { return "", fmt.Errorf("%w: "+secret, core.ErrNoKey) }, 400, core.ErrNoKey},
	{"key func at fault", 1, func(*http.Request) (string, error) { return "", http.ErrBodyNotAllowed }, 500, http.ErrBodyNotAllowed},
}

// TestErrorHandlerOfApplication checks what an application's own handler finds, that its page is its own even if it
// renders the message, and that the decision is at hand.
func TestErrorHandlerOfApplication(t *testing.T) {
	for _, row := range causes {
		e := limited(row.limit, row.key)
		e.HTTPErrorHandler = func(c *echo.Context, err error) {
			var he *echo.HTTPError
			if !errors.As(err, &he) || he.Code != row.status {
				t.Errorf("%s: error %#v, want an HTTPError with code %d", row.why, err, row.status)
				return
			}
			if row.wrapped != nil && !errors.Is(err, row.wrapped) {
				t.Errorf("%s: error %v does not wrap %v", row.why, err, row.wrapped)
			}
			if _, ok := core.FromContext(c.Request().Context()); ok != (row.wrapped == nil) {
				t.Errorf("%s: decision in the context: %v", row.why, ok)
			}
			_ = c.JSON(he.Code, map[string]any{"oops": he.Message})
		}
		w := get(e)
		want := fmt.Sprintf("{\"oops\":%q}\n", http.StatusText(row.status))
		if w.Code != row.status || w.Body.String() != want || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			t.Errorf("%s: %d %v %s, want %s", row.why, w.Code, w.Header(), w.Body, want)
		}
	}
}

// TestErrorHandlerThatLogs checks a handler that passes on to the default one: the answer is the default one.
func TestErrorHandlerThatLogs(t *testing.T) {
	for _, row := range causes {
		e := limited(row.limit, row.key)
		var logged string
		e.HTTPErrorHandler = func(c *echo.Context, err error) {
			logged = err.Error()
			echo.DefaultHTTPErrorHandler(true)(c, err)
		}
		w := get(e)
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != row.status || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %s, %v", row.why, w.Code, w.Header(), w.Body, err)
		}
		if !strings.HasPrefix(logged, fmt.Sprintf("code=%d, message=%s", row.status, http.StatusText(row.status))) {
			t.Errorf("%s: logged %q", row.why, logged)
		}
	}
}

// TestDebugTellsNoSecret checks the default handler as it is while an application is developed.
func TestDebugTellsNoSecret(t *testing.T) {
	for _, row := range causes {
		e := limited(row.limit, row.key)
		e.HTTPErrorHandler = echo.DefaultHTTPErrorHandler(true)
		if w := get(e); strings.Contains(w.Body.String(), secret) || strings.Contains(w.Body.String(), "spillgate") || w.Code != row.status {
			t.Errorf("%s: %d %s", row.why, w.Code, w.Body)
		}
	}
}

// TestMiddlewareSeesError checks that a middleware around the limiter can take the denial over.
func TestMiddlewareSeesError(t *testing.T) {
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if err := next(c); err != nil {
				return c.HTML(http.StatusTeapot, "<html>")
			}
			return nil
		}
	}, echolimit.New(core.Must(core.New([]core.Rule{core.PerHour(0).By(causes[0].key)}))))
	e.GET("/", func(*echo.Context) error { return nil })
	if w := get(e); w.Code != http.StatusTeapot || w.Body.String() != "<html>" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestErrorOfHandler checks that an error of an admitted request stays what it is.
func TestErrorOfHandler(t *testing.T) {
	e := echo.New()
	e.Use(echolimit.New(core.Must(core.New([]core.Rule{core.PerHour(1).By(causes[0].key)}))))
	e.GET("/", func(*echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "short and stout") })
	if w := get(e); w.Code != http.StatusTeapot || !strings.Contains(w.Body.String(), "short and stout") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestCallsPassNoErrorHandler checks that calls of gRPC get their status even if the application renders errors as pages.
func TestCallsPassNoErrorHandler(t *testing.T) {
	for _, row := range causes {
		e := limited(row.limit, row.key)
		e.HTTPErrorHandler = func(c *echo.Context, err error) { _ = c.HTML(http.StatusOK, err.Error()) }
		e.POST("/", func(*echo.Context) error { return nil })
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", "application/grpc")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		want := map[int]string{429: "8", 400: "3", 500: "13"}[row.status]
		if w.Code != http.StatusOK || w.Header().Get("Grpc-Status") != want || w.Body.Len() > 0 {
			t.Errorf("%s: %d %v %q, want Grpc-Status %s", row.why, w.Code, w.Header(), w.Body, want)
		}
	}
}
