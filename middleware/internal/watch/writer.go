package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// base watches a ResponseWriter. Through Unwrap, http.ResponseController finds the methods that are not wrapped.
type base struct {
	http.ResponseWriter
	Watch
}

// Unwrap returns the wrapped ResponseWriter.
func (w *base) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *base) WriteHeader(status int) {
	w.ResponseWriter.WriteHeader(status) // panics if there is no such status
	w.begin(status)
}

// Write implements io.Writer.
func (w *base) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.wrote(int64(n), err)
	w.call.Wrote(p, n)
	return n, err
}

// WriteString implements io.StringWriter.
func (w *base) WriteString(s string) (int, error) {
	n, err := io.WriteString(w.ResponseWriter, s)
	w.wrote(int64(n), err)
	if w.call != nil {
		w.call.Wrote([]byte(s), n)
	}
	return n, err
}

// common has what both ResponseWriters of net/http, for HTTP/1 and HTTP/2, offer beside http.ResponseWriter and io.StringWriter.
type common interface {
	flusher
	closeNotifier
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// watching watches a ResponseWriter of net/http.
type watching struct {
	base
	common
}

// Flush implements http.Flusher.
func (w *watching) Flush() { (*flushes)(&w.base).Flush() }

// FlushError is Flush for http.ResponseController.
func (w *watching) FlushError() error { return (*flushes)(&w.base).FlushError() }

// http1 watches a ResponseWriter of HTTP/1.
type http1 struct{ watching }

// ReadFrom implements io.ReaderFrom.
func (w *http1) ReadFrom(src io.Reader) (int64, error) {
	return w.readFrom(src, w, w.ResponseWriter, w.ResponseWriter.(io.ReaderFrom).ReadFrom)
}

// Hijack implements http.Hijacker.
func (w *http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return (*hijacks)(&w.base).Hijack()
}

// http2 watches a ResponseWriter of HTTP/2.
type http2 struct{ watching }

// Push implements http.Pusher.
func (w *http2) Push(target string, opts *http.PushOptions) error {
	return w.ResponseWriter.(http.Pusher).Push(target, opts)
}
