package echolimit_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	echolimit "github.com/spillgate/spillgate/middleware/echov5"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest/echotest"
)

type (
	adder  = echotest.Adder[echo.HandlerFunc, echo.MiddlewareFunc, echo.RouteInfo]
	ending = echotest.Ending[*echo.Context, echo.HandlerFunc, echo.MiddlewareFunc]
)

var version = echotest.Version[*echo.Echo, *echo.Context, echo.HandlerFunc, echo.MiddlewareFunc, echo.RouteInfo]{
	New: func() *echo.Echo {
		e := echo.New()
		e.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		return e
	},
	Group: func(e *echo.Echo, prefix string, ms ...echo.MiddlewareFunc) adder { return e.Group(prefix, ms...) },
	Wrap:  echo.WrapMiddleware,

	Limit: func(l *core.Limiter, h headers.Writer, deny func(*echo.Context, core.Decision) error, fail func(*echo.Context, error) error) echo.MiddlewareFunc {
		return echolimit.New(l, echolimit.WithHeaders(h), echolimit.WithDenyHandler(deny), echolimit.WithErrorHandler(fail))
	},
	WriteDenial: echolimit.WriteDenial,
	WriteError:  echolimit.WriteError,
	ContextOf:   echolimit.ContextOf,
	RealIP:      echolimit.RealIP,
	ProblemType: problemType(),

	SetErrorHandler: func(e *echo.Echo, handle func(*echo.Context, error)) { e.HTTPErrorHandler = handle },
	HandleError:     echo.DefaultHTTPErrorHandler(true),
	Debug:           func(e *echo.Echo) { e.HTTPErrorHandler = echo.DefaultHTTPErrorHandler(true) },
	HTTPErrorOf: func(err error) (int, any, bool) {
		var he *echo.HTTPError
		if !errors.As(err, &he) {
			return 0, nil, false
		}
		return he.Code, he.Message, true
	},
	NewHTTPError: func(status int, message string) error { return echo.NewHTTPError(status, message) },

	Response:  func(c *echo.Context) http.ResponseWriter { return c.Response() },
	Writer:    func(c *echo.Context) http.ResponseWriter { return c.Response() },
	SetWriter: func(c *echo.Context, w http.ResponseWriter) { c.SetResponse(w) },
	Below: func(c *echo.Context) http.ResponseWriter {
		r, _ := echo.UnwrapResponse(c.Response())
		return r.ResponseWriter
	},
	Record: func(c *echo.Context) { c.SetResponse(echo.NewResponse(httptest.NewRecorder(), c.Logger())) },

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

	ReadsMethod: true,
}

// A header is a value that sets a header field when it is marshaled.
type header http.Header

func (h header) MarshalJSON() ([]byte, error) {
	http.Header(h).Set("X-Marshaled", "yes")
	return []byte("{}"), nil
}

// problemType returns the content type of the default pages. Echo 5.0.0 sends the header before it marshals the body; later
// versions send it afterwards, so that the page can set its own type.
func problemType() string {
	w := httptest.NewRecorder()
	c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/", nil), w)
	_ = c.JSON(http.StatusOK, header(w.Header()))
	if w.Result().Header.Get("X-Marshaled") == "" {
		return echo.MIMEApplicationJSON
	}
	return ""
}

// setting returns a middleware that replaces the response with what w returns.
func setting(w func(c *echo.Context) http.ResponseWriter) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.SetResponse(w(c))
			return next(c)
		}
	}
}

// These replace the response with a writer that hides the one below it, with one that hides a recorder, and with a recorder.
var (
	hide       = setting(func(c *echo.Context) http.ResponseWriter { return hidden{c.Response()} })
	hideRecord = setting(func(*echo.Context) http.ResponseWriter { return hidden{httptest.NewRecorder()} })
	record     = setting(func(c *echo.Context) http.ResponseWriter { return echo.NewResponse(httptest.NewRecorder(), c.Logger()) })
)

type hidden struct{ http.ResponseWriter }

func TestContract(t *testing.T) {
	unauthorized := func(c *echo.Context) error { return c.NoContent(http.StatusUnauthorized) }
	replace := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			defer c.Response().WriteHeader(http.StatusAccepted)
			return record(next)(c)
		}
	}
	bypass := func(c *echo.Context) error {
		http.Error(version.Below(c), "no", http.StatusUnauthorized)
		return c.NoContent(http.StatusOK)
	}
	version.Run(t, map[string]ending{
		"a delayed response past echo":              {Around: version.Delay, Handle: bypass, Status: 401, Wire: 401},
		"a response in place of another":            {Inside: replace, Handle: unauthorized, Status: 202, Wire: 202},
		"a recorded and hidden response":            {Inside: hideRecord, Handle: unauthorized, Status: 200, Wire: 200, Err: true},
		"a response through a hidden writer":        {Around: hide, Handle: unauthorized, Status: 401, Wire: 401},
		"a response through a writer hidden inside": {Inside: hide, Handle: unauthorized, Status: 401, Wire: 401},
		"no response through a hidden writer":       {Around: hide, Handle: func(*echo.Context) error { return nil }, Status: 200, Wire: 200},
	})
}

func FuzzCalls(f *testing.F) { adaptertest.FuzzCalls(f, adaptertest.Adapter{Build: version.Used}) }

// TestResponseIsRestored checks which response the handler, and afterwards a middleware around the limiter, finds in echo's Context.
func TestResponseIsRestored(t *testing.T) {
	pass := func(next echo.HandlerFunc) echo.HandlerFunc { return next }
	for why, row := range map[string]struct {
		around, inside  echo.MiddlewareFunc
		unwrapped, same bool
	}{
		"unchanged":                {pass, pass, true, true},
		"replaced by a middleware": {version.Delay, pass, false, true},
		"replaced inside":          {version.Delay, record, true, false},
	} {
		rule := core.PerHour(9).By(func(*http.Request) (string, error) { return "k", nil })
		rule.CostAfter = core.Failures
		e := echo.New()
		var before, after http.ResponseWriter
		e.Use(row.around, func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				before = c.Response()
				defer func() { after = c.Response() }()
				return next(c)
			}
		}, echolimit.New(core.Must(core.New([]core.Rule{rule}))), row.inside)
		e.GET("/", func(c *echo.Context) error {
			_, ok := c.Response().(*echo.Response)
			expect.Equal(t, ok, row.unwrapped, "%s: the handler finds a %T", why, c.Response())
			return nil
		})
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		expect.Equal(t, before == after, row.same, "%s: same response", why)
	}
}
