package echolimit

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
	"github.com/spillgate/spillgate/middleware/internal/watch"
)

// watched serves a request whose outcome a rule needs, and settles it. If the handler returns an error, watched calls
// the HTTPErrorHandler at once, as echo's RequestLogger does with HandleError, because the status is not known before.
// Then it returns the error, which the default HTTPErrorHandler ignores, because the response is committed. Inside of
// http.TimeoutHandler, it returns nil once the response is committed.
func watched(c echo.Context, g *core.Guard, next echo.HandlerFunc) (err error) {
	// Watch the writer below echo's Response, because a handler may write to it directly: with http.Error, or in echo's
	// Timeout. Do not restore it afterwards: a handler that Timeout has abandoned may still use it.
	w, seen := watch.Writer(c.Response().Writer, g.Request())
	c.Response().Writer = w
	var unanswered error
	returned := false
	defer func() {
		a := answer(c, seen, g)
		if a.Returned, a.Err = returned, unanswered; !a.Written {
			a.Err = err
		}
		g.Settle(outcome.Of(g.Request(), a))
	}()
	err = next(c)
	switch a := answer(c, seen, g); {
	case err == nil:
	case !a.Written:
		if c.Error(err); c.Response().Committed && inTimeout(w) {
			err = nil // echo's Timeout discards the response of a handler that returns an error
		}
	case a.Status < http.StatusBadRequest:
		unanswered = err // too late: the client has another status
	}
	returned = true
	return err
}

// inTimeout reports whether w writes to http.TimeoutHandler.
func inTimeout(w http.ResponseWriter) bool {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return fmt.Sprintf("%T", w) == "*http.timeoutWriter"
		}
		w = u.Unwrap()
	}
}

// answer returns the response as far as it has been written.
func answer(c echo.Context, seen *watch.Watch, g *core.Guard) outcome.Answer {
	a := seen.Answer()
	if r := c.Response(); !a.Written && r.Committed { // a middleware in between holds it back
		a.Written, a.Status, a.Bytes = true, r.Status, r.Size
	}
	a.Status = seen.StatusOf(a.Status)
	return a
}
