package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

// A call is one request to a Transport, with all its waits and sendings.
type call struct {
	req     *http.Request
	key     accountKey
	account *account // nil before it has arrived
	route   *route
	ticket  uint64 // when it arrived, on the clock of the account: calls are sent in this order
	sent    uint64 // when it was last sent, on the same clock; 0 if never
	waited  time.Duration
	noPace  bool

	// budgets are the budgets that the call needs or, while it is in flight, the budgets that count it.
	budgets []*budget
	array   [2 + maxStates]*budget
	trying  bool // it is sent to learn the budgets of its route, although its assumed budgets are closed

	denied bool           // the last response was a denial, and the request can be sent again
	denial *http.Response // that response; nil before the first
	body   io.ReadCloser  // sent with the next attempt; nil: req.Body is sent
	kept   bool           // the body of denial was read ahead

	place // in a queue
}

// A place is the place of a call in a queue.
type place struct {
	in        *budget // nil if the call does not wait
	before    *call
	behind    *call
	turn      int64     // 1 is the first
	until     time.Time // when the first call of a queue checks again
	limit     time.Time // when its wait must end
	admitted  bool
	wake      chan struct{}
	announced bool // OnWait was called
}

// next returns the request to send, and discards the previous denial.
func (c *call) next() *http.Request {
	if c.denial == nil {
		return c.req
	}
	if !c.kept {
		keep(c.denial)
	}
	c.denial.Body.Close()
	c.denial, c.kept = nil, false
	if c.body == nil {
		return c.req
	}
	again := c.req.WithContext(c.req.Context()) // a shallow copy
	again.Body, c.body = c.body, nil
	return again
}

// renew reports whether the request can be sent again, and prepares its body.
func (c *call) renew() bool {
	if c.req.Body == nil || c.req.Body == http.NoBody {
		return true
	}
	if c.req.GetBody == nil {
		return false
	}
	body, err := c.req.GetBody()
	c.body = body
	return err == nil
}

// giveUp ends a call that will not be sent again, because of err.
func (c *call) giveUp(err error) (*http.Response, error) {
	if c.body != nil {
		c.body.Close()
	}
	if c.denial == nil {
		if c.req.Body != nil {
			c.req.Body.Close() // a RoundTripper always does
		}
		return nil, err
	}
	if _, late := errors.AsType[*LimitedError](err); late {
		return c.denial, nil
	}
	c.denial.Body.Close()
	return nil, err
}

// wakeUp makes c check again whether it may be sent.
func (c *call) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// wakeAt makes c, which is the first, check again at until.
func (c *call) wakeAt(until time.Time) {
	if !c.until.Equal(until) {
		c.until = until
		c.wakeUp()
	}
}

// expires reports whether the context of the request is about to end, so that the wait must end with the context's
// error.
func (c *call) expires(now time.Time) bool {
	deadline, ok := c.req.Context().Deadline()
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
