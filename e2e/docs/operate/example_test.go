package main

import (
	"log/slog"
	"net/http"

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

	slog.Error("server", "error", http.ListenAndServe(":8080", nil))
}
