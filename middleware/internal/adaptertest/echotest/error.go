package echotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/internal/expect"
)

const secret = "hunter2"

// causes are the reasons why a request is not admitted.
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

// limited returns an instance with a limit per hour for a key func.
func (v Version[E, C, H, M, R]) limited(n int, key core.KeyFunc) E {
	e := v.New()
	e.Use(v.limit(core.PerHour(n).By(key)))
	e.Add(http.MethodGet, "/", nothing[C])
	return e
}

// testErrorHandler checks that an application's error handler finds the error and the decision, and that its page stays as it wrote it,
// even if it renders the message.
func (v Version[E, C, H, M, R]) testErrorHandler(t *testing.T) {
	for _, row := range causes {
		e := v.limited(row.limit, row.key)
		v.SetErrorHandler(e, func(c C, err error) {
			status, message, ok := v.HTTPErrorOf(err)
			if !ok || status != row.status {
				t.Errorf("%s: error %#v, want an HTTPError with code %d", row.why, err, row.status)
				return
			}
			expect.True(t, row.wrapped == nil || errors.Is(err, row.wrapped), "%s: error %v does not wrap %v", row.why, err, row.wrapped)
			_, ok = core.FromContext(c.Request().Context())
			expect.Equal(t, ok, row.wrapped == nil, "%s: decision in the context", row.why)
			_ = c.JSON(status, map[string]any{"oops": message})
		})
		w := serve(e, http.MethodGet, "/")
		want := fmt.Sprintf("{\"oops\":%q}\n", http.StatusText(row.status))
		expect.True(t, w.Code == row.status && w.Body.String() == want && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json"),
			"%s: %d %v %s, want %s", row.why, w.Code, w.Header(), w.Body, want)
	}
}

// testErrorHandlerThatLogs checks that the response is the default one if the error handler logs the error and calls the default handler.
func (v Version[E, C, H, M, R]) testErrorHandlerThatLogs(t *testing.T) {
	for _, row := range causes {
		e := v.limited(row.limit, row.key)
		var log strings.Builder
		v.SetErrorHandler(e, func(c C, err error) {
			slog.New(slog.NewJSONHandler(&log, nil)).Error("failed", "err", err)
			v.HandleError(c, err)
		})
		w := serve(e, http.MethodGet, "/")
		var body map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != row.status || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %s, %v", row.why, w.Code, w.Header(), w.Body, err)
		}
		expect.True(t, strings.Contains(log.String(), fmt.Sprintf(`"err":"code=%d, message=%s`, row.status, http.StatusText(row.status))),
			"%s: logged %s", row.why, &log)
	}
}

// testDebugMode checks that the default handler shows no secret, even while it shows errors.
func (v Version[E, C, H, M, R]) testDebugMode(t *testing.T) {
	for _, row := range causes {
		e := v.limited(row.limit, row.key)
		v.Debug(e)
		w := serve(e, http.MethodGet, "/")
		if body := w.Body.String(); strings.Contains(body, secret) || strings.Contains(body, "spillgate") || w.Code != row.status {
			t.Errorf("%s: %d %s", row.why, w.Code, w.Body)
		}
	}
}

// testMiddlewareHandlesTheDenial checks that a middleware around the limiter can respond in its place.
func (v Version[E, C, H, M, R]) testMiddlewareHandlesTheDenial(t *testing.T) {
	e := v.New()
	e.Use(func(next H) H {
		return func(c C) error {
			if err := next(c); err != nil {
				return c.HTML(http.StatusTeapot, "<html>")
			}
			return nil
		}
	}, v.limit(core.PerHour(0).By(anyone)))
	e.Add(http.MethodGet, "/", nothing[C])
	w := serve(e, http.MethodGet, "/")
	expect.True(t, w.Code == http.StatusTeapot && w.Body.String() == "<html>" && strings.HasPrefix(w.Header().Get("Content-Type"), "text/html"),
		"%d %v %s", w.Code, w.Header(), w.Body)
}

// testErrorOfTheHandler checks that the adapter passes on the error of an admitted request.
func (v Version[E, C, H, M, R]) testErrorOfTheHandler(t *testing.T) {
	e := v.New()
	e.Use(v.limit(core.PerHour(1).By(anyone)))
	e.Add(http.MethodGet, "/", func(C) error { return v.NewHTTPError(http.StatusTeapot, "short and stout") })
	w := serve(e, http.MethodGet, "/")
	expect.True(t, w.Code == http.StatusTeapot && strings.Contains(w.Body.String(), "short and stout"), "%d %s", w.Code, w.Body)
}

// testCallsBypassTheErrorHandler checks that gRPC calls get their status even if the application renders errors as pages.
func (v Version[E, C, H, M, R]) testCallsBypassTheErrorHandler(t *testing.T) {
	for _, row := range causes {
		e := v.limited(row.limit, row.key)
		v.SetErrorHandler(e, func(c C, err error) { _ = c.HTML(http.StatusOK, err.Error()) })
		e.Add(http.MethodPost, "/", nothing[C])
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", "application/grpc")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		want := map[int]string{429: "8", 400: "3", 500: "13"}[row.status]
		expect.True(t, w.Code == http.StatusOK && w.Header().Get("Grpc-Status") == want && w.Body.Len() <= 0,
			"%s: %d %v %q, want Grpc-Status %s", row.why, w.Code, w.Header(), w.Body, want)
	}
}
