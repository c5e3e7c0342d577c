package routers

import (
	"net/http"

	"github.com/gorilla/mux"
	"github.com/julienschmidt/httprouter"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func withGorilla(limiter *core.Limiter, h http.HandlerFunc) http.Handler {
	r := mux.NewRouter()
	r.Use(stdlib.New(limiter))
	r.HandleFunc("/items/{id}", h)
	return r
}

func withHTTPRouter(limiter *core.Limiter, h httprouter.Handle) http.Handler {
	r := httprouter.New()
	r.GET("/items/:id", h)
	return stdlib.New(limiter)(r)
}
