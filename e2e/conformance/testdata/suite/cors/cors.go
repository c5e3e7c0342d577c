// Package cors replaces a middleware of the suite's servers with a limiter that denies nothing.
package cors

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	_ "unsafe" // for go:linkname

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"
	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
	echov5limit "github.com/spillgate/spillgate/middleware/echov5"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// Options has the fields that programs set.
type Options struct {
	AllowCredentials                               bool
	AllowOriginFunc                                func(string) bool
	AllowedMethods, AllowedHeaders, ExposedHeaders []string
	MaxAge                                         int
}

// A Cors is the limiter.
type Cors struct{}

// New ignores the options.
func New(Options) *Cors { return new(Cors) }

// Handler limits h by the adapter that the environment variable names before a colon, unless it names grpc.
func (*Cors) Handler(h http.Handler) http.Handler {
	switch adapter, file, ok := limited(); {
	case !ok, adapter == "grpc":
		return h
	default:
		return behind(adapter, limiter(file), h)
	}
}

// init limits the servers of grpc-go if the environment variable names grpc.
func init() {
	if adapter, file, _ := limited(); adapter == "grpc" {
		l := limiter(file)
		addGlobalServerOptions.(func(...grpc.ServerOption))(grpc.ChainUnaryInterceptor(grpclimit.Unary(l)), grpc.ChainStreamInterceptor(grpclimit.Stream(l)))
	}
}

//go:linkname addGlobalServerOptions google.golang.org/grpc/internal.AddGlobalServerOptions
var addGlobalServerOptions any

func limited() (adapter, file string, ok bool) {
	return strings.Cut(os.Getenv("SPILLGATE_E2E_CONFORMANCE"), ":")
}

// limiter returns a limiter that denies nothing. It appends the name of each test case, a tab and the status of the call to the file.
func limiter(name string) *core.Limiter {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	rule := core.PerSecond(1_000_000).By(keyfunc.Const("all"))
	rule.CostAfter = func(r *http.Request, o core.Outcome) int {
		fmt.Fprintf(file, "%s\t%d\n", r.Header.Get("X-Test-Case-Name"), o.Status)
		return core.Failures(r, o)
	}
	return core.Must(core.New([]core.Rule{rule}))
}

func behind(adapter string, l *core.Limiter, h http.Handler) http.Handler {
	switch adapter {
	case "stdlib":
		return stdlib.New(l)(h)
	case "chi":
		r := chi.NewRouter()
		r.Use(chilimit.New(l))
		r.Handle("/*", h)
		return r
	case "gin":
		gin.SetMode(gin.ReleaseMode)
		e := gin.New()
		e.Use(ginlimit.New(l))
		e.Any("/*path", gin.WrapH(h))
		return e
	case "echo":
		e := echo.New()
		e.Use(echolimit.New(l))
		e.Any("/*", echo.WrapHandler(h))
		return e
	case "echov5":
		e := echov5.New()
		e.Use(echov5limit.New(l))
		e.Any("/*", echov5.WrapHandler(h))
		return e
	}
	panic(adapter)
}
