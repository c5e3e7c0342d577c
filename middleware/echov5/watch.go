package echolimit

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/middleware/internal/outcome"
	"github.com/spillgate/spillgate/middleware/internal/watch"
)

// watched serves a request whose outcome a rule needs, and settles it. If the handler returns an error, watched calls
// the HTTPErrorHandler at once, as echo's RequestLogger does with HandleError, because the status is not known before.
// Then it returns the error, which the default HTTPErrorHandler ignores, because the response is committed.
func watched(c *echo.Context, g *core.Guard, next echo.HandlerFunc) (err error) {
	outer, seen := c.Response(), watchResponse(c, g.Request())
	var unanswered error
	returned := false
	defer func() {
		a := seen.answer(c, g.Request())
		if a.Returned = returned; a.Written {
			a.Err = unanswered
		} else {
			a.Err = cmp.Or(a.Err, err)
		}
		g.Settle(outcome.Of(g.Request(), a))
		if c.Response() == seen.top { // no handler has replaced it
			c.SetResponse(outer)
		}
	}()
	err = next(c)
	switch a := seen.answer(c, g.Request()); {
	case err == nil:
	case !a.Written:
		c.Echo().HTTPErrorHandler(c, err)
	case a.Status < http.StatusBadRequest:
		unanswered = err // too late: the client has another status
	}
	returned = true
	return err
}

// watches watches a response in two places: below echo's Response and, if a middleware has replaced that, at
// c.Response(). A middleware such as Gzip may hold back the response until the limiter has returned, and a handler may
// bypass echo's Response.
type watches struct {
	top          http.ResponseWriter
	above, below *watch.Watch
}

func watchResponse(c *echo.Context, req *http.Request) watches {
	s := watches{top: c.Response()}
	r, _ := echo.UnwrapResponse(s.top)
	if r != nil {
		r.ResponseWriter, s.below = watch.Writer(r.ResponseWriter, req)
	}
	if s.top != http.ResponseWriter(r) {
		s.top, s.above = watch.Writer(s.top, req)
		c.SetResponse(s.top)
	}
	s.above, s.below = cmp.Or(s.above, s.below), cmp.Or(s.below, s.above)
	return s
}

// answer returns the response as far as it has been written. The client gets the status that was written below echo's
// Response. For a call, the status of the call was written above, where nothing has compressed it.
func (s *watches) answer(c *echo.Context, r *http.Request) outcome.Answer {
	a := s.written(c, r)
	a.Status = s.above.StatusOf(a.Status)
	return a
}

func (s *watches) written(c *echo.Context, r *http.Request) outcome.Answer {
	a := s.above.Answer()
	if b := s.below.Answer(); b.Written {
		a.Written, a.Status, a.Bytes, a.Cut = true, b.Status, max(a.Bytes, b.Bytes), b.Cut
	}
	if a.Written || c.Response() == s.top {
		return a
	}
	switch r, hidden := echo.UnwrapResponse(c.Response()); { // a middleware in between holds back the response
	case hidden != nil:
		a.Err = hidden
	case r.Committed:
		a.Written, a.Status, a.Bytes = true, r.Status, r.Size
	}
	return a
}
