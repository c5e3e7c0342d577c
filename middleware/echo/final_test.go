package echolimit_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
)

// answerAll answers every error 418.
func answerAll(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := next(c); err != nil {
			return c.NoContent(http.StatusTeapot)
		}
		return nil
	}
}

// recovering turns a panic into an error.
func recovering(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("%v", v)
			}
		}()
		return next(c)
	}
}

// A delayed writer behaves like Gzip: it sends the status later, and a body that is shorter.
type delayed struct {
	http.ResponseWriter
	status int
}

func (w *delayed) WriteHeader(status int) { w.status = status }
func (w *delayed) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write(p[:len(p)/2])
	return len(p), err
}
func (w *delayed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// delaying sends the status once the handlers inside have returned.
func delaying(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		w := &delayed{c.Response().Writer, 0}
		c.Response().Writer = w
		defer func() {
			if w.status != 0 {
				w.ResponseWriter.WriteHeader(w.status)
			}
		}()
		return next(c)
	}
}

// keeping replaces the response with a recorder.
func keeping(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Writer = httptest.NewRecorder()
		return next(c)
	}
}

// TestOutcome checks what Rule.CostAfter finds where echo has a say in the answer.
func TestOutcome(t *testing.T) {
	pass := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	returning := func(err error) echo.HandlerFunc { return func(echo.Context) error { return err } }
	answer := func(err error, c echo.Context) { c.Echo().DefaultHTTPErrorHandler(err, c) }
	silent := func(err error, c echo.Context) {}
	started, release := make(chan bool), make(chan bool)
	defer close(release)
	waiting := func(echo.Context) error {
		close(started)
		<-release // long after the response
		return nil
	}
	late := func(next echo.HandlerFunc) echo.HandlerFunc { // as echo's Timeout
		return func(c echo.Context) error {
			w := c.Response().Writer
			http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c.Response().Writer = w
				_ = next(c)
			}), time.Nanosecond, "").ServeHTTP(w, c.Request())
			<-started // the handler has c.Response by then
			return nil
		}
	}
	for why, row := range map[string]struct {
		around, inside echo.MiddlewareFunc
		onError        echo.HTTPErrorHandler
		handle         echo.HandlerFunc
		status, wire   int
		err            bool
	}{
		"an HTTPError":                    {pass, pass, answer, returning(echo.NewHTTPError(http.StatusForbidden)), 403, 403, false},
		"an error of another kind":        {pass, pass, answer, returning(errors.New("oops")), 500, 500, false},
		"an error that was answered":      {pass, pass, answer, func(c echo.Context) error { _ = c.NoContent(http.StatusBadRequest); return errors.New("oops") }, 400, 400, false},
		"an error that comes too late":    {pass, pass, answer, func(c echo.Context) error { _ = c.NoContent(http.StatusOK); return errors.New("oops") }, 200, 200, true},
		"an error that nobody answers":    {pass, pass, silent, returning(errors.New("oops")), 200, 200, true},
		"an error turned into a response": {pass, answerAll, answer, returning(errors.New("oops")), 418, 418, false},
		"an error seen around":            {answerAll, pass, answer, returning(echo.NewHTTPError(http.StatusForbidden)), 403, 403, false},
		"a Recover inside":                {pass, recovering, answer, func(echo.Context) error { panic("oops") }, 500, 500, false},
		"a Recover around":                {recovering, pass, answer, func(echo.Context) error { panic("oops") }, 500, 500, true},
		"an answer past echo": {pass, pass, answer, func(c echo.Context) error {
			http.Error(c.Response().Writer, "no", http.StatusUnauthorized)
			return nil
		}, 401, 401, false},
		"an answer past echo after a reader that fails": {pass, pass, answer, func(c echo.Context) error {
			_, _ = io.Copy(c.Response().Writer, iotest.ErrReader(io.ErrUnexpectedEOF))
			http.Error(c.Response().Writer, "no", http.StatusUnauthorized)
			return nil
		}, 401, 401, false},
		"an answer past echo, and an error": {pass, pass, answer, func(c echo.Context) error {
			http.Error(c.Response().Writer, "no", http.StatusUnauthorized)
			return errors.New("oops")
		}, 401, 401, false},
		"echo's Timeout inside":            {pass, late, answer, waiting, 503, 503, false},
		"an answer that is kept for later": {pass, keeping, answer, func(c echo.Context) error { return c.NoContent(http.StatusUnauthorized) }, 401, 200, false},
		"an answer that is sent later":     {delaying, pass, answer, func(c echo.Context) error { return c.NoContent(http.StatusUnauthorized) }, 401, 401, false},
		"a status":                         {pass, pass, answer, func(c echo.Context) error { return c.String(http.StatusAccepted, "ok") }, 202, 202, false},
	} {
		var got []core.Outcome
		rule := core.PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
		rule.CostAfter = func(_ *http.Request, o core.Outcome) int {
			got = append(got, o)
			return 0
		}
		e := echo.New()
		e.Logger.SetOutput(io.Discard)
		e.HTTPErrorHandler = row.onError
		e.Use(row.around, echolimit.New(core.Must(core.New([]core.Rule{rule}, core.WithStore(admitting{})))), row.inside)
		e.GET("/", row.handle)
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if len(got) != 1 || got[0].Status != row.status || (got[0].Err != nil) != row.err {
			t.Errorf("%s: the outcomes are %+v, want status %d, error %v", why, got, row.status, row.err)
		}
		if w.Code != row.wire {
			t.Errorf("%s: the client got %d, want %d", why, w.Code, row.wire)
		}
	}
}

// admitting is a store that admits every request.
type admitting struct{}

func (admitting) Take(_ context.Context, claims []core.Claim, dst []core.Result) ([]core.Result, error) {
	for _, c := range claims {
		dst = append(dst, core.Result{Rule: c.Rule, Limit: c.Limits[0], Allowed: true})
	}
	return dst, nil
}

func (admitting) Settle(context.Context, []core.Settlement) error { return nil }
func (admitting) Reset(context.Context, []core.Pair) error        { return nil }

// TestBytes counts the bytes of a body where a middleware or the handler goes past echo's Response.
func TestBytes(t *testing.T) {
	pass := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	through := func(c echo.Context) error { return c.String(http.StatusOK, "four") }
	past := func(c echo.Context) error { _, err := io.WriteString(c.Response().Writer, "four"); return err }
	for why, row := range map[string]struct {
		around, inside echo.MiddlewareFunc
		handle         echo.HandlerFunc
	}{
		"through echo":          {pass, pass, through},
		"past echo":             {pass, pass, past},
		"through echo, delayed": {delaying, pass, through},
		"past echo, delayed":    {delaying, pass, past},
		"kept for later":        {pass, keeping, through},
	} {
		var bytes int64
		rule := core.PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
		rule.CostAfter = func(_ *http.Request, o core.Outcome) int {
			bytes = o.Bytes
			return 0
		}
		e := echo.New()
		e.Use(row.around, echolimit.New(core.Must(core.New([]core.Rule{rule}, core.WithStore(admitting{})))), row.inside)
		e.GET("/", row.handle)
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if bytes != 4 {
			t.Errorf("%s: %d bytes, want 4", why, bytes)
		}
	}
}

// TestErrorThatWasAnsweredIsNotAnsweredAgain counts the calls of the HTTPErrorHandler: echo itself makes one.
func TestErrorThatWasAnsweredIsNotAnsweredAgain(t *testing.T) {
	rule := core.PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
	rule.CostAfter = core.Failures
	pass := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	for why, around := range map[string]echo.MiddlewareFunc{"alone": pass, "delayed": delaying} {
		calls := 0
		e := echo.New()
		e.HTTPErrorHandler = func(err error, c echo.Context) { calls++ }
		e.Use(around, echolimit.New(core.Must(core.New([]core.Rule{rule}, core.WithStore(admitting{})))))
		e.GET("/", func(c echo.Context) error {
			_ = c.NoContent(http.StatusUnauthorized)
			return errors.New("oops")
		})
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		if calls != 1 {
			t.Errorf("%s: %d calls, want 1", why, calls)
		}
	}
}

// A compressed writer compresses a body, like Gzip.
type compressed struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (w compressed) Write(p []byte) (int, error) { return w.z.Write(p) }
func (w compressed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func compressing(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		w := compressed{c.Response().Writer, gzip.NewWriter(c.Response().Writer)}
		defer w.z.Close()
		c.Response().Writer = w
		return next(c)
	}
}

// TestCallInGzip checks that the status of a call is read before Gzip compresses the response for the client.
func TestCallInGzip(t *testing.T) {
	for envelope, want := range map[string]int{"\x02\x00\x00\x00\x02{}": 200, "\x02\x00\x00\x00\x1c{\"error\":{\"code\":\"aborted\"}}": 409} {
		var got []core.Outcome
		rule := core.PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
		rule.CostAfter = func(_ *http.Request, o core.Outcome) int {
			got = append(got, o)
			return 0
		}
		e := echo.New()
		e.Use(compressing, echolimit.New(core.Must(core.New([]core.Rule{rule}))))
		e.POST("/", func(c echo.Context) error {
			c.Response().WriteHeader(http.StatusOK)
			_, err := io.WriteString(c.Response(), envelope)
			return err
		})
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", "application/connect+json")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if len(got) != 1 || got[0].Status != want || w.Body.String() == envelope {
			t.Errorf("%q: the outcomes are %+v, want status %d; body %q", envelope, got, want, w.Body)
		}
	}
}
