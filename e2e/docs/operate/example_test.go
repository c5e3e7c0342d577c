package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/telemetry"
	promtelemetry "github.com/spillgate/spillgate/telemetry/prometheus"
)

func main() {
	t := telemetry.New(telemetry.Options{Log: slog.Default()})
	rules := []core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}
	limiter := core.Must(core.New(rules, core.WithObserver(t.Observe)))
	t.Attach(limiter)
	defer t.Flush()
	prometheus.MustRegister(promtelemetry.NewCollector(t))

	app := http.NewServeMux()
	http.Handle("/", stdlib.New(limiter)(app))

	admin := http.NewServeMux() // on an address that only you can reach, or behind your authentication
	admin.Handle("/limits/", dashboard.New(t))
	admin.Handle("/metrics", promhttp.Handler())
	go func() { slog.Error("admin", "error", http.ListenAndServe("127.0.0.1:9090", admin)) }()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	server := &http.Server{Addr: ":8080"}
	go func() {
		slog.Info("server ended", "reason", server.ListenAndServe())
		stop()
	}()
	<-ctx.Done()
	_ = server.Shutdown(context.Background()) // waits for the requests in flight; then t.Flush writes the last lines of the log
}
