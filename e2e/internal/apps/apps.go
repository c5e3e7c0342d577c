// Package apps builds one application with each framework, limited by the adapter for it.
package apps

import (
	"net/http"
	"strings"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
)

// An App is an application in terms that every framework can build. Each path is served whatever the method.
type App struct {
	Guards []Guard // of all routes, the first outermost
	Routes []Route
}

// A Guard is one mounting of the middleware. Nil fields are options that are not set.
type Guard struct {
	Limiter *core.Limiter
	Headers headers.Writer
}

// A Route is a handler for a pattern like "/users/{id}".
type Route struct {
	Pattern string
	Guards  []Guard // of this route alone, after the application's guards
	Handler http.HandlerFunc
}

// A Framework is one way to build an App.
type Framework struct {
	Name  string
	Build func(App) http.Handler
}

// Frameworks are the five adapters, each mounted in the way that its documentation shows first.
var Frameworks = []Framework{{"stdlib", stdlibAround}, {"chi", chiUse}, {"gin", ginUse}, {"echo", echoUse}, {"echov5", echov5Use}}

// One is an App with one guard and one handler, at "/".
func One(g Guard, h http.HandlerFunc) App {
	return App{Guards: []Guard{g}, Routes: []Route{{Pattern: "/", Handler: h}}}
}

func Limited(l *core.Limiter, h http.HandlerFunc) App { return One(Guard{Limiter: l}, h) }

// methods are the methods of every route, for frameworks that need a list.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// colons returns pattern as gin and echo write it: "/users/:id".
func colons(pattern string) string { return strings.NewReplacer("{", ":", "}", "").Replace(pattern) }
