package main

import (
	"log"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/keyfunc"
	chilimit "github.com/spillgate/spillgate/middleware/chi"
)

func main() {
	limiter := core.Must(core.New([]core.Rule{core.PerMinute(100).By(keyfunc.RemoteIP)}))

	r := chi.NewRouter()
	r.Use(chilimit.New(limiter))
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("hello\n"))
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", r))
}
