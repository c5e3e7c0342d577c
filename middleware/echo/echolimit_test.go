package echolimit_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest/echotest"
)

type (
	adder  = echotest.Adder[echo.HandlerFunc, echo.MiddlewareFunc, *echo.Route]
	ending = echotest.Ending[echo.Context, echo.HandlerFunc, echo.MiddlewareFunc]
)

var version = echotest.Version[*echo.Echo, echo.Context, echo.HandlerFunc, echo.MiddlewareFunc, *echo.Route]{
	New: func() *echo.Echo {
		e := echo.New()
		e.Logger.SetOutput(io.Discard)
		return e
	},
	Group: func(e *echo.Echo, prefix string, ms ...echo.MiddlewareFunc) adder { return e.Group(prefix, ms...) },
	Host:  func(e *echo.Echo, host string) adder { return e.Host(host) },
	Wrap:  echo.WrapMiddleware,

	Limit: func(l *core.Limiter, h headers.Writer, deny func(echo.Context, core.Decision) error, fail func(echo.Context, error) error) echo.MiddlewareFunc {
		return echolimit.New(l, echolimit.WithHeaders(h), echolimit.WithDenyHandler(deny), echolimit.WithErrorHandler(fail))
	},
	WriteDenial: echolimit.WriteDenial,
	WriteError:  echolimit.WriteError,
	ContextOf:   echolimit.ContextOf,
	RealIP:      echolimit.RealIP,

	SetErrorHandler: func(e *echo.Echo, handle func(echo.Context, error)) {
		e.HTTPErrorHandler = func(err error, c echo.Context) { handle(c, err) }
	},
	HandleError: func(c echo.Context, err error) { c.Echo().DefaultHTTPErrorHandler(err, c) },
	Debug:       func(e *echo.Echo) { e.Debug = true },
	HTTPErrorOf: func(err error) (int, any, bool) {
		var he *echo.HTTPError
		if !errors.As(err, &he) {
			return 0, nil, false
		}
		return he.Code, he.Message, true
	},
	NewHTTPError: func(status int, message string) error { return echo.NewHTTPError(status, message) },

	Response:  func(c echo.Context) http.ResponseWriter { return c.Response() },
	Writer:    func(c echo.Context) http.ResponseWriter { return c.Response().Writer },
	SetWriter: func(c echo.Context, w http.ResponseWriter) { c.Response().Writer = w },
	Below:     func(c echo.Context) http.ResponseWriter { return c.Response().Writer },
	Record:    func(c echo.Context) { c.Response().Writer = httptest.NewRecorder() },

	SetExtractor: func(e *echo.Echo, extract func(*http.Request) string) { e.IPExtractor = extract },
	FromXFF: func(trusted ...*net.IPNet) func(*http.Request) string {
		var options []echo.TrustOption
		for _, n := range trusted {
			options = append(options, echo.TrustIPRange(n))
		}
		return echo.ExtractIPFromXFFHeader(options...)
	},
	FromRealIP: echo.ExtractIPFromRealIPHeader(),
	FromPeer:   echo.ExtractIPDirect(),
}

func TestContract(t *testing.T) {
	started, release := make(chan bool), make(chan bool)
	defer close(release)
	// echo's Timeout runs the handler in http.TimeoutHandler, and gives it that handler's writer.
	timeout := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			w := c.Response().Writer
			http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c.Response().Writer = w
				_ = next(c)
			}), time.Nanosecond, "").ServeHTTP(w, c.Request())
			<-started // by then, the handler has c.Response
			return nil
		}
	}
	late := func(echo.Context) error {
		close(started)
		<-release // after the response
		return nil
	}
	// echo's Timeout discards the response if the handler returns an error.
	around := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			w, buffer := c.Response().Writer, httptest.NewRecorder()
			http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c.Response().Writer = unwrapper{w}
				err = next(c)
			}), time.Hour, "").ServeHTTP(buffer, c.Request())
			if c.Response().Writer = w; err == nil {
				w.WriteHeader(buffer.Code)
			}
			return err
		}
	}
	unauthorized := func(echo.Context) error { return echo.ErrUnauthorized }
	version.Run(t, map[string]ending{
		"echo's Timeout inside": {Inside: timeout, Handle: late, Status: 503, Wire: 503},
		"echo's Timeout around": {Around: around, Handle: unauthorized, Status: 401, Wire: 401},
	})
}

// An unwrapper is a ResponseWriter as a middleware wraps it.
type unwrapper struct{ http.ResponseWriter }

func (w unwrapper) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func FuzzCalls(f *testing.F) { adaptertest.FuzzCalls(f, adaptertest.Adapter{Build: version.Used}) }
