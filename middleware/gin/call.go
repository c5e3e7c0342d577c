package ginlimit

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/spillgate/spillgate/middleware/internal/call"
)

// A callWriter is the gin.ResponseWriter of a call of gRPC or Connect whose status a rule needs.
type callWriter struct {
	gin.ResponseWriter
	call *call.Response
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *callWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeaderNow implements gin.ResponseWriter.
func (w *callWriter) WriteHeaderNow() {
	w.call.Begin()
	w.ResponseWriter.WriteHeaderNow()
}

// Flush implements http.Flusher.
func (w *callWriter) Flush() {
	w.call.Begin()
	w.ResponseWriter.Flush()
}

// Write implements io.Writer.
func (w *callWriter) Write(p []byte) (int, error) {
	w.call.Begin()
	n, err := w.ResponseWriter.Write(p)
	w.call.Wrote(p, n)
	return n, err
}

// WriteString implements io.StringWriter.
func (w *callWriter) WriteString(s string) (int, error) {
	w.call.Begin()
	n, err := w.ResponseWriter.WriteString(s)
	w.call.Wrote([]byte(s), n)
	return n, err
}
