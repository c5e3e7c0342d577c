package apps

import (
	"net/http"

	"github.com/spillgate/spillgate/middleware/stdlib"
)

// stdlibWrap puts guards around h, the first outermost.
func stdlibWrap(h http.Handler, guards []Guard) http.Handler {
	for i := len(guards) - 1; i >= 0; i-- {
		h = stdlib.New(guards[i].Limiter, stdlib.WithHeaders(guards[i].Headers))(h)
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
