package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/core/redisstore"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
	"github.com/spillgate/spillgate/telemetry"
)

// planOf returns the tier of a request. A real program looks up the account of its API key.
func planOf(r *http.Request) string {
	if r.Header.Get("X-Api-Key") == "the key of a pro" {
		return "pro"
	}
	return "" // the limits of the rule
}

// handler is the application.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "right" {
			http.Error(w, "wrong name or password", http.StatusUnauthorized) // counts
		}
	})
	mux.HandleFunc("GET /api/hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\n")) })
	return mux
}

func run(ctx context.Context) error {
	funcs := rulefile.Funcs{Tiers: map[string]func(*http.Request) string{"plan": planOf}}
	file, err := rulefile.Load("spillgate.yaml", funcs)
	if err != nil {
		return err // every mistake, with its line and column
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	store := redisstore.New(client, redisstore.WithPrefix("shop"))
	counts := telemetry.New(telemetry.Options{Log: slog.Default()})
	defer counts.Flush()
	limiter, err := core.New(file.Rules, core.WithStore(store), core.WithObserver(counts.Observe))
	if err != nil {
		return err
	}
	counts.Attach(limiter)
	go func() {
		_ = rulefile.Watch(ctx, "spillgate.yaml", limiter, funcs, rulefile.Options{Report: counts.FileLoaded})
	}()

	admin := http.NewServeMux()
	admin.Handle("/limits/", dashboard.New(counts)) // the page has no authentication: serve it where only you can reach it
	page := &http.Server{Addr: "127.0.0.1:9090", Handler: admin}
	app := &http.Server{Addr: "127.0.0.1:8080", Handler: stdlib.New(limiter)(handler())}
	return serve(ctx, app, page)
}

// serve returns once ctx is done and the requests in flight have been answered. It waits for them for at most 10 seconds.
func serve(ctx context.Context, app, page *http.Server) error {
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = app.Shutdown(end)
		_ = page.Shutdown(end)
	})
	go func() { log.Print(page.ListenAndServe()) }()
	if err := app.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped // ListenAndServe returns when Shutdown begins
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
