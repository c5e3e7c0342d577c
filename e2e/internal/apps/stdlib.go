package apps

import (
	"net/http"

	"github.com/spillgate/spillgate/middleware/stdlib"
)

func stdlibGuard(g Guard) func(http.Handler) http.Handler {
	return stdlib.New(g.Limiter, stdlib.WithHeaders(g.Headers), stdlib.WithDenyHandler(g.Deny), stdlib.WithErrorHandler(g.Fail))
}

// stdlibWrap puts guards around h, the first outermost.
func stdlibWrap(h http.Handler, guards []Guard) http.Handler {
	for i := len(guards) - 1; i >= 0; i-- {
		h = stdlibGuard(guards[i])(h)
	}
	return h
}

func mux(app App) *http.ServeMux {
	m := http.NewServeMux()
	for _, r := range app.Routes {
		pattern := r.Pattern
		if pattern == "/" {
			pattern = "/{$}" // "/" would stand for all paths
		}
		m.Handle(pattern, stdlibWrap(r.Handler, r.Guards))
	}
	return m
}

func stdlibAround(app App) http.Handler { return stdlibWrap(mux(app), app.Guards) }

func stdlibInside(app App) http.Handler { return mux(perRoute(app)) }

func stdlibOver(app App) http.Handler {
	outer := http.NewServeMux()
	outer.Handle("/", mux(app))
	return stdlibWrap(outer, app.Guards)
}

func stdlibBetween(app App) http.Handler {
	outer := http.NewServeMux()
	outer.Handle("/", stdlibWrap(mux(app), app.Guards))
	return outer
}
