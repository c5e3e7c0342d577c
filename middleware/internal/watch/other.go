package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

type flusher interface {
	http.Flusher
	FlushError() error
}

type closeNotifier interface{ CloseNotify() <-chan bool }

// other watches a ResponseWriter that is not net/http's.
type other struct{ base }

// ReadFrom implements io.ReaderFrom. It reads like io.Copy to the wrapped ResponseWriter, whose own ReadFrom may begin the
// response even if src is empty.
func (w *other) ReadFrom(src io.Reader) (int64, error) {
	if _, ok := w.ResponseWriter.(io.ReaderFrom); !ok { // the writer may count on parts as large as io.Copy's
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	return w.readFrom(src, w, struct{ io.Writer }{w.ResponseWriter}, func(src io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, src) })
}

// Each of these types adds one optional interface. They are separate types because base itself must not have the methods.
type (
	flushes     base
	hijacks     base
	pushes      base
	closeNotify base
)

// Flush implements http.Flusher.
func (w *flushes) Flush() {
	w.begin(http.StatusOK)
	w.ResponseWriter.(http.Flusher).Flush()
}

// FlushError is Flush for http.ResponseController.
func (w *flushes) FlushError() error {
	if f, ok := w.ResponseWriter.(interface{ FlushError() error }); ok {
		w.begin(http.StatusOK)
		return f.FlushError()
	}
	w.Flush()
	return nil
}

// Hijack implements http.Hijacker. It records status 101, because handlers hijack a connection to upgrade it.
func (w *hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

// Push implements http.Pusher.
func (w *pushes) Push(target string, opts *http.PushOptions) error {
	return w.ResponseWriter.(http.Pusher).Push(target, opts)
}

// CloseNotify returns a channel that receives a value when the client has gone.
func (w *closeNotify) CloseNotify() <-chan bool {
	return w.ResponseWriter.(closeNotifier).CloseNotify()
}

// The combinations of these types have names because the names of their methods would otherwise make programs larger.
type (
	withF struct {
		*other
		flusher
	}
	withH struct {
		*other
		http.Hijacker
	}
	withFH struct {
		*other
		flusher
		http.Hijacker
	}
	withP struct {
		*other
		http.Pusher
	}
	withFP struct {
		*other
		flusher
		http.Pusher
	}
	withHP struct {
		*other
		http.Hijacker
		http.Pusher
	}
	withFHP struct {
		*other
		flusher
		http.Hijacker
		http.Pusher
	}
	withC struct {
		*other
		closeNotifier
	}
	withFC struct {
		*other
		flusher
		closeNotifier
	}
	withHC struct {
		*other
		http.Hijacker
		closeNotifier
	}
	withFHC struct {
		*other
		flusher
		http.Hijacker
		closeNotifier
	}
	withPC struct {
		*other
		http.Pusher
		closeNotifier
	}
	withFPC struct {
		*other
		flusher
		http.Pusher
		closeNotifier
	}
	withHPC struct {
		*other
		http.Hijacker
		http.Pusher
		closeNotifier
	}
	withFHPC struct {
		*other
		flusher
		http.Hijacker
		http.Pusher
		closeNotifier
	}
)

// withOptional returns w with the same optional interfaces as the wrapped ResponseWriter, because handlers look for them
// with type assertions: http.Flusher, http.Hijacker, http.Pusher and http.CloseNotifier.
func (w *other) withOptional() http.ResponseWriter {
	f, h, p, c := (*flushes)(&w.base), (*hijacks)(&w.base), (*pushes)(&w.base), (*closeNotify)(&w.base)
	has := 0
	_, flush := w.ResponseWriter.(http.Flusher)
	_, hijack := w.ResponseWriter.(http.Hijacker)
	_, push := w.ResponseWriter.(http.Pusher)
	_, closeNotify := w.ResponseWriter.(closeNotifier)
	for i, ok := range [...]bool{flush, hijack, push, closeNotify} {
		if ok {
			has |= 1 << i
		}
	}
	switch has {
	case 0b0001:
		return withF{w, f}
	case 0b0010:
		return withH{w, h}
	case 0b0011:
		return withFH{w, f, h}
	case 0b0100:
		return withP{w, p}
	case 0b0101:
		return withFP{w, f, p}
	case 0b0110:
		return withHP{w, h, p}
	case 0b0111:
		return withFHP{w, f, h, p}
	case 0b1000:
		return withC{w, c}
	case 0b1001:
		return withFC{w, f, c}
	case 0b1010:
		return withHC{w, h, c}
	case 0b1011:
		return withFHC{w, f, h, c}
	case 0b1100:
		return withPC{w, p, c}
	case 0b1101:
		return withFPC{w, f, p, c}
	case 0b1110:
		return withHPC{w, h, p, c}
	case 0b1111:
		return withFHPC{w, f, h, p, c}
	}
	return w
}
