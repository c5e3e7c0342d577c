package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spillgate/spillgate/bench/peers"
)

// A serverWriter has the methods of the ResponseWriter of net/http for HTTP/1, since middleware that wraps a
// ResponseWriter treats one with fewer methods differently.
type serverWriter struct{ *discard }

func (w *serverWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *serverWriter) ReadFrom(r io.Reader) (int64, error) { return io.Copy(w.discard, r) }

func (*serverWriter) Flush()                           {}
func (*serverWriter) FlushError() error                { return nil }
func (*serverWriter) CloseNotify() <-chan bool         { return nil }
func (*serverWriter) SetReadDeadline(time.Time) error  { return nil }
func (*serverWriter) SetWriteDeadline(time.Time) error { return nil }
func (*serverWriter) EnableFullDuplex() error          { return nil }

func (*serverWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// asServed passes a ResponseWriter to a router with the methods of a server's ResponseWriter.
func asServed(open func(peers.Limit) peers.Router) func(peers.Limit) peers.Router {
	return func(l peers.Limit) peers.Router {
		router := open(l)
		return func(done func()) http.Handler {
			h, w := router(done), new(serverWriter)
			return http.HandlerFunc(func(d http.ResponseWriter, r *http.Request) {
				w.discard = d.(*discard)
				h.ServeHTTP(w, r)
			})
		}
	}
}
