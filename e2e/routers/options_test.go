package routers

import (
	"errors"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/internal/expect"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
	echov5limit "github.com/spillgate/spillgate/middleware/echov5"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
	grpclimit "github.com/spillgate/spillgate/middleware/grpc"
	mcplimit "github.com/spillgate/spillgate/middleware/mcp"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/telemetry"
	oteltelemetry "github.com/spillgate/spillgate/telemetry/otel"
)

// TestNilOptions checks that each constructor that takes options names one that is nil.
func TestNilOptions(t *testing.T) {
	l := new(core.Limiter)
	for name, construct := range map[string]func() error{
		"chi":    func() error { chilimit.New(l, nil); return nil },
		"echo":   func() error { echolimit.New(l, nil); return nil },
		"echov5": func() error { echov5limit.New(l, nil); return nil },
		"gin":    func() error { ginlimit.New(l, nil); return nil },
		"stream": func() error { grpclimit.Stream(l, nil); return nil },
		"unary":  func() error { grpclimit.Unary(l, nil); return nil },
		"mcp":    func() error { mcplimit.New(l, nil); return nil },
		"stdlib": func() error { stdlib.New(l, nil); return nil },
		"page":   func() error { dashboard.New(telemetry.New(telemetry.Options{}), nil); return nil },
		"otel":   func() error { return oteltelemetry.Register(telemetry.New(telemetry.Options{}), nil, nil) },
	} {
		_ = func() (err error) {
			defer func() {
				if v, ok := recover().(error); ok {
					err = v
				}
				expect.True(t, errors.Is(err, core.ErrInvalid) && strings.Contains(err.Error(), "option 1 of 1: option is nil; leave it out"), "%s: got %v", name, err)
			}()
			return construct()
		}()
	}
}
