package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	echov4 "github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/headers"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
	echolimit "github.com/spillgate/spillgate/middleware/echo"
	echov5limit "github.com/spillgate/spillgate/middleware/echov5"
	ginlimit "github.com/spillgate/spillgate/middleware/gin"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
	"github.com/spillgate/spillgate/telemetry"
)

// routers are the five that the demo serves, each under /NAME/.
var routers = []struct {
	name  string
	mount func(*core.Limiter, headers.Writer) http.Handler
}{
	{"stdlib", mountStdlib},
	{"chi", mountChi},
	{"gin", mountGin},
	{"echo", mountEcho},
	{"echov5", mountEchoV5},
}

// An app serves all routers, the shop, and the page about them at "/".
type app struct {
	http.Handler
	shop   *core.Limiter
	counts *telemetry.Telemetry
}

// newApp returns the app of a plan. Each router has its own rule, so that no router uses up the limits of another.
func newApp(p plan, opts ...core.Option) (*app, error) {
	counts := telemetry.New(telemetry.Options{Unmask: true}) // the demo's clients are made up
	opts = append(opts, core.WithObserver(counts.Observe))
	mux := http.NewServeMux()
	mux.Handle("/", dashboard.New(counts, pageOptions(p.addr)...))
	shop, shopLimiter, err := newShop(p.shop.Rules, opts...)
	if err != nil {
		return nil, err
	}
	counts.Attach(shopLimiter)
	if p.rules == "" {
		counts.FileLoaded("built in", p.shop.Hash, nil)
	}
	mux.Handle(shopPath, shop)
	for _, r := range routers {
		limiter, err := core.New([]core.Rule{{Name: r.name, Key: p.key.of, Limits: p.limits}}, opts...)
		if err != nil {
			return nil, err
		}
		counts.Attach(limiter)
		mux.Handle("/"+r.name+"/", r.mount(limiter, p.write))
	}
	return &app{mux, shopLimiter, counts}, nil
}

// watch keeps the rules of the shop equal to the rules of a file, until stop is called or ctx is done.
func (a *app) watch(ctx context.Context, path string, stderr io.Writer) (stop func()) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		o := rulefile.Options{Log: log, Report: a.counts.FileLoaded}
		if err := rulefile.Watch(ctx, path, a.shop, shopFuncs, o); err != nil {
			log.Error("rules are not watched", "err", err)
		}
	})
	return func() { cancel(); watching.Wait() }
}

// pageOptions returns the options of the page of a demo that listens on an address. The page can be opened at the
// address that the demo prints. It can reset and ban keys if only this machine can reach the demo.
func pageOptions(listen string) (options []dashboard.Option) {
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil
	}
	host, _, _ := net.SplitHostPort(reachable(addr))
	options = append(options, dashboard.WithHosts(host))
	if addr.IP.IsLoopback() {
		options = append(options, dashboard.WithReset(func(*http.Request) bool { return true }))
	}
	return options
}

func mountStdlib(l *core.Limiter, w headers.Writer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stdlib/hello", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, greeting(r.Context(), "net/http"))
	})
	return stdlib.New(l, stdlib.WithHeaders(w))(mux)
}

func mountChi(l *core.Limiter, w headers.Writer) http.Handler {
	r := chi.NewRouter()
	r.Use(chilimit.New(l, chilimit.WithHeaders(w)))
	r.Get("/chi/hello", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, greeting(r.Context(), "chi"))
	})
	return r
}

func mountGin(l *core.Limiter, w headers.Writer) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(ginlimit.New(l, ginlimit.WithHeaders(w)))
	r.GET("/gin/hello", func(c *gin.Context) {
		c.String(http.StatusOK, greeting(c.Request.Context(), "gin"))
	})
	return r
}

func mountEcho(l *core.Limiter, w headers.Writer) http.Handler {
	e := echov4.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(echolimit.New(l, echolimit.WithHeaders(w)))
	e.GET("/echo/hello", func(c echov4.Context) error {
		return c.String(http.StatusOK, greeting(c.Request().Context(), "echo v4"))
	})
	return e
}

func mountEchoV5(l *core.Limiter, w headers.Writer) http.Handler {
	e := echov5.New()
	e.Logger = slog.New(slog.DiscardHandler)
	e.Use(echov5limit.New(l, echov5limit.WithHeaders(w)))
	e.GET("/echov5/hello", func(c *echov5.Context) error {
		return c.String(http.StatusOK, greeting(c.Request().Context(), "echo v5"))
	})
	return e
}

// greeting returns the answer of the handlers, with the decision that admitted the request.
func greeting(ctx context.Context, framework string) string {
	d, _ := core.FromContext(ctx)
	tightest, ok := d.Tightest()
	if !ok {
		return fmt.Sprintf("hello from %s\n", framework)
	}
	return fmt.Sprintf("hello from %s, %d of %d left\n", framework, tightest.Remaining, tightest.Limit.Capacity())
}
