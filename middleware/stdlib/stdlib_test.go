package stdlib_test

import (
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/adaptertest"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

func guard(g adaptertest.Guard) func(http.Handler) http.Handler {
	if g.Log != nil {
		g.Fail = func(w http.ResponseWriter, r *http.Request, err error) {
			g.Log(err)
			stdlib.WriteError(w, r, err)
		}
	}
	if g.Denied != nil {
		g.Deny = func(w http.ResponseWriter, r *http.Request, d core.Decision) {
			g.Denied(w.Header(), d)
			stdlib.WriteDenial(w, r, d)
		}
	}
	return stdlib.New(g.Limiter, stdlib.WithHeaders(g.Headers), stdlib.WithDenyHandler(g.Deny), stdlib.WithErrorHandler(g.Fail))
}

// wrap puts guards around h, the first outermost.
func wrap(h http.Handler, guards []adaptertest.Guard) http.Handler {
	for i := len(guards) - 1; i >= 0; i-- {
		h = guard(guards[i])(h)
	}
	return h
}

// around guards the mux as a whole.
func around(app adaptertest.App) http.Handler {
	mux := http.NewServeMux()
	for _, r := range app.Routes {
		for _, method := range adaptertest.Methods {
			if method == http.MethodHead { // GET serves it
				continue
			}
			mux.Handle(method+" "+exact(r.Pattern), wrap(r.Handler, r.Guards))
		}
	}
	return wrap(app.Cleaned(mux), app.Guards)
}

// inside guards the handlers in the mux.
func inside(app adaptertest.App) http.Handler {
	mux := http.NewServeMux()
	for _, r := range app.Routes {
		mux.Handle(exact(r.Pattern), wrap(wrap(r.Handler, r.Guards), app.Guards))
	}
	return app.Cleaned(mux)
}

// nested guards a mux that holds a mux.
func nested(app adaptertest.App) http.Handler {
	inner := http.NewServeMux()
	for _, r := range app.Routes {
		inner.Handle(exact(r.Pattern), wrap(r.Handler, r.Guards))
	}
	outer := http.NewServeMux()
	outer.Handle("/", inner)
	return wrap(app.Cleaned(outer), app.Guards)
}

// between guards a mux in a mux.
func between(app adaptertest.App) http.Handler {
	inner := http.NewServeMux()
	for _, r := range app.Routes {
		inner.Handle(exact(r.Pattern), wrap(r.Handler, r.Guards))
	}
	outer := http.NewServeMux()
	outer.Handle("/", wrap(inner, app.Guards))
	return app.Cleaned(outer)
}

// exact keeps "/" from matching every path.
func exact(pattern string) string {
	if pattern == "/" {
		return "/{$}"
	}
	return pattern
}

func TestContract(t *testing.T) {
	t.Run("around", func(t *testing.T) { adaptertest.Run(t, adaptertest.Adapter{Build: around}) })
	t.Run("inside", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: inside, RoutedOnly: true}) })
	t.Run("nested", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: nested}) })
	t.Run("between", func(t *testing.T) { adaptertest.RunPlaced(t, adaptertest.Adapter{Build: between}) })
}

func FuzzCalls(f *testing.F) { adaptertest.FuzzCalls(f, adaptertest.Adapter{Build: around}) }
