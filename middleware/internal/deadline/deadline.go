// Package deadline extends the deadlines of an http.Server for requests that wait for their turn.
package deadline

import (
	"net/http"
	"time"

	"github.com/spillgate/spillgate/core"
)

// Extend implements core.DeadlineExtender for the request r and its response w.
func Extend(w http.ResponseWriter, r *http.Request, wait time.Duration) bool {
	if wait == 0 {
		return canSet(w)
	}
	s, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if s == nil {
		return true
	}
	conn, turn := http.NewResponseController(w), time.Now().Add(wait)
	if s.WriteTimeout > 0 && conn.SetWriteDeadline(turn.Add(s.WriteTimeout)) != nil {
		return false
	}
	return s.ReadTimeout <= 0 || r.Body == nil || r.Body == http.NoBody || conn.SetReadDeadline(turn.Add(s.ReadTimeout)) == nil
}

// A setter sets the deadlines of a connection, as http.ResponseController does.
type setter interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// canSet reports whether an http.ResponseController finds a writer that sets deadlines.
func canSet(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case setter:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// Router returns router for the request r, whose response is w, with ExtendDeadlines.
func Router(router core.Router, w http.ResponseWriter, r *http.Request) core.Router {
	return &extender{router, w, r}
}

type extender struct {
	core.Router
	w http.ResponseWriter
	r *http.Request
}

// ExtendDeadlines implements core.DeadlineExtender.
func (e *extender) ExtendDeadlines(wait time.Duration) bool { return Extend(e.w, e.r, wait) }
