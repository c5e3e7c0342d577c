package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// common has the methods of both ResponseWriters of net/http, for HTTP/1 and HTTP/2.
type common interface {
	http.ResponseWriter
	io.StringWriter
	http.Flusher
	FlushError() error
	CloseNotify() <-chan bool
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

// watching is a ResponseWriter that records what is written to it.
type watching struct {
	common
	Watch
}

// Unwrap returns the wrapped ResponseWriter, for http.ResponseController.
func (w *watching) Unwrap() http.ResponseWriter { return w.common }

// WriteHeader implements http.ResponseWriter.
func (w *watching) WriteHeader(status int) {
	w.common.WriteHeader(status) // panics if there is no such status
	w.begin(status)
}

// Write implements io.Writer.
func (w *watching) Write(p []byte) (int, error) {
	n, err := w.common.Write(p)
	w.wrote(int64(n))
	w.call.Wrote(p[:n])
	return n, err
}

// WriteString implements io.StringWriter.
func (w *watching) WriteString(s string) (int, error) {
	n, err := w.common.WriteString(s)
	w.wrote(int64(n))
	if w.call != nil {
		w.call.Wrote([]byte(s[:n]))
	}
	return n, err
}

// Flush implements http.Flusher.
func (w *watching) Flush() {
	w.begin(http.StatusOK)
	w.common.Flush()
}

// FlushError is Flush for http.ResponseController.
func (w *watching) FlushError() error {
	w.begin(http.StatusOK)
	return w.common.FlushError()
}

// http1 watches a ResponseWriter of HTTP/1.
type http1 struct{ watching }

// ReadFrom implements io.ReaderFrom.
func (w *http1) ReadFrom(src io.Reader) (int64, error) {
	return w.readFrom(src, w, w.common.(io.ReaderFrom).ReadFrom)
}

// Hijack implements http.Hijacker. It records status 101, because handlers hijack a connection to upgrade it.
func (w *http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := w.common.(http.Hijacker).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

// http2 watches a ResponseWriter of HTTP/2.
type http2 struct{ watching }

// Push implements http.Pusher.
func (w *http2) Push(target string, opts *http.PushOptions) error {
	return w.common.(http.Pusher).Push(target, opts)
}
