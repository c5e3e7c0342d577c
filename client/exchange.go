package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

// An exchange is one request to a Transport, with all its waits and attempts.
type exchange struct {
	call
	req       *http.Request
	key       accountKey
	account   *account // nil before it has arrived
	waited    time.Duration
	announced bool // OnWait was called

	denied bool           // the last response was a denial, and the request can be sent again
	denial *http.Response // that response; nil before the first
	body   io.ReadCloser  // sent with the next attempt; nil: req.Body is sent
	kept   bool           // the body of denial was read ahead

	received *http.Response // the last response; nil before the first
}

// next returns the request to send, and discards the previous denial.
func (e *exchange) next() *http.Request {
	if e.denial == nil {
		return e.req
	}
	e.keepDenial()
	e.denial.Body.Close()
	e.denial, e.kept = nil, false
	if e.body == nil {
		return e.req
	}
	again := e.req.WithContext(e.req.Context()) // a shallow copy
	again.Body, e.body = e.body, nil
	return again
}

// keepDenial reads the body of the denial ahead, once, so that its connection can be used again.
func (e *exchange) keepDenial() {
	if e.denial != nil && !e.kept {
		keep(e.denial)
		e.kept = true
	}
}

// renew reports whether the request can be sent again, and prepares its body.
func (e *exchange) renew() bool {
	if e.req.Body == nil || e.req.Body == http.NoBody {
		return true
	}
	if e.req.GetBody == nil {
		return false
	}
	body, err := e.req.GetBody()
	e.body = body
	return err == nil
}

// close closes the bodies of the request and of the last response. Base may have closed the body of the request before.
func (e *exchange) close() {
	for _, body := range []io.Closer{e.req.Body, e.body} {
		if body != nil {
			body.Close()
		}
	}
	if e.received != nil && e.received.Body != nil {
		e.received.Body.Close()
	}
}

// giveUp ends an exchange whose request will not be sent again, because of err.
func (e *exchange) giveUp(err error) (*http.Response, error) {
	if e.body != nil {
		e.body.Close()
	}
	if e.denial == nil {
		if e.req.Body != nil {
			e.req.Body.Close() // a RoundTripper always does
		}
		return nil, err
	}
	if errors.As(err, new(*LimitedError)) {
		return e.denial, nil
	}
	e.denial.Body.Close()
	return nil, err
}

// expires reports whether the context of the request is about to end, so that the wait must end with the context's
// error.
func (e *exchange) expires(now time.Time) bool {
	deadline, ok := e.req.Context().Deadline()
	return ok && !now.Before(deadline.Add(-1))
}

const (
	// maxKept bounds how much of the body of a denial is read, so that its connection can be used again.
	maxKept = 64 << 10

	// keepTime bounds how long reading it may take.
	keepTime = time.Second
)

// keep reads up to maxKept bytes of the body of resp, and sets a body that returns the same bytes. If the whole body
// fits, the connection is free, and resp can still be returned intact. keep cuts off a body that takes longer than
// keepTime.
func keep(resp *http.Response) {
	body := resp.Body
	slow := time.AfterFunc(keepTime, func() { body.Close() })
	defer slow.Stop()
	var start bytes.Buffer
	if _, err := io.CopyN(&start, body, maxKept); errors.Is(err, io.EOF) {
		body.Close()
		resp.Body = io.NopCloser(&start)
		return
	}
	resp.Body = kept{io.MultiReader(&start, body), body}
}

// kept is a body whose start is buffered.
type kept struct {
	io.Reader
	io.Closer
}
