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

func stdlibAround(app App) http.Handler {
	m := http.NewServeMux()
	for _, r := range app.Routes {
		pattern := r.Pattern
		if pattern == "/" {
			pattern = "/{$}" // "/" would match every path
		}
		m.Handle(pattern, stdlibWrap(r.Handler, r.Guards))
	}
	return stdlibWrap(m, app.Guards)
}
