// Package cors replaces the outermost middleware of the reference server with a limiter that denies nothing.
package cors

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
	echov5limit "github.com/spillgate/spillgate/middleware/echov5"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
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

// Handler limits h by the adapter that the environment variable names before a colon. It appends the name of each test case, a tab and
// the status of the call to the file named after the colon.
func (*Cors) Handler(h http.Handler) http.Handler {
	adapter, name, ok := strings.Cut(os.Getenv("SPILLGATE_E2E_CONFORMANCE"), ":")
	if !ok {
		return h
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	rule := core.PerSecond(1_000_000).By(keyfunc.Const("all"))
	rule.CostAfter = func(r *http.Request, o core.Outcome) int {
		fmt.Fprintf(file, "%s\t%d\n", r.Header.Get("X-Test-Case-Name"), o.Status)
		return core.Failures(r, o)
	}
	return behind(adapter, core.Must(core.New([]core.Rule{rule})), h)
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
