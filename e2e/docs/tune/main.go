package main

import (
	"context"
	"log"
	"net/http"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/dashboard"
	"github.com/spillgate/spillgate/middleware/stdlib"
	"github.com/spillgate/spillgate/rulefile"
	"github.com/spillgate/spillgate/telemetry"
)

func main() {
	const rules = "spillgate.yaml"
	file, err := rulefile.Load(rules, rulefile.Funcs{})
	if err != nil {
		log.Fatal(err) // every mistake, with its line and column
	}
	counts := telemetry.New(telemetry.Options{})
	limiter, err := core.New(file.Rules, core.WithObserver(counts.Observe))
	if err != nil {
		log.Fatal(err)
	}
	counts.Attach(limiter)
	go func() {
		log.Print(rulefile.Watch(context.Background(), rules, limiter, rulefile.Funcs{}, rulefile.Options{Report: counts.FileLoaded}))
	}()
	go func() { log.Print(http.ListenAndServe("127.0.0.1:8081", dashboard.New(counts))) }()

	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "hunter2" {
			http.Error(w, "wrong password", http.StatusUnauthorized)
		}
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", stdlib.New(limiter)(mux)))
}
