package client

import (
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
	ticket  uint64 // when it arrived, on the clock of the Transport: calls are sent in this order
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
