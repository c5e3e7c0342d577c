package client

import (
	"net/http"
	"sync"
	"time"
)

// A Transport is an http.RoundTripper that obeys rate limits. The zero value is ready to use. It starts no goroutines and
// needs no Close. It is safe for concurrent use; its fields must not change, and it must not be copied, after the first
// request.
type Transport struct {
	// Base sends the requests. If nil, it is http.DefaultTransport.
	Base http.RoundTripper

	// MaxWait bounds the sum of all waits of one request, without the time that the server takes. If 0, it is one
	// minute. If negative, no request waits.
	MaxWait time.Duration

	// Key identifies the limits that a request uses. If nil, limits belong to the scheme, the host and a hash of the
	// Authorization header. Set it if the token changes from request to request, or if another header carries the
	// credential.
	Key func(*http.Request) string

	// OnWait, if not nil, is called once per request, when the request starts to wait for an instant that the server
	// announced. wait is the time until then. It may be called concurrently.
	OnWait func(*http.Request, time.Duration)

	// Before, if not nil, is called before each attempt, when the limits of the server admit it. It may sleep. MaxWait
	// does not bound that time, so Before should obey the context of the request. If Before returns an error, the
	// request is not sent. RoundTrip then returns the error or, if it is a *LimitedError and the request was denied
	// before, the denial. Before may be called concurrently.
	//
	// Before and OnDenied connect processes that share a budget: see "Share one budget among processes" in
	// docs/recipes.md.
	Before func(*http.Request) error

	// OnDenied, if not nil, is called for each response that delays further requests: a 429, a 403 with Retry-After or
	// Remaining 0, and a 503 with Retry-After. Its duration is how long the server has asked to wait, or 0 if the
	// server named no instant or an instant in the past. It is called before RoundTrip waits or returns. It may be
	// called concurrently.
	OnDenied func(*http.Request, time.Duration)

	// NoPace sends requests as fast as possible while anything remains. Otherwise the last fifth of a window is paced: its
	// requests are sent evenly over the rest of the window. Token buckets are never paced.
	NoPace bool

	mu       sync.Mutex // guards the fields below and everything that they refer to
	accounts map[accountKey]*account
	clock    uint64 // counts arrivals, sendings and responses: it orders them
}

// RoundTrip sends r, when its limits admit it. See the package documentation for what it returns.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil {
		return t.base().RoundTrip(r)
	}
	c := &call{req: r, key: t.keyOf(r), noPace: t.NoPace}
	for {
		if err := t.wait(c); err != nil {
			return c.giveUp(err)
		}
		if err := t.before(c); err != nil {
			return c.giveUp(err)
		}
		resp, err := t.send(c)
		if !c.denied {
			return resp, err
		}
		if resp.Body == nil {
			resp.Body = http.NoBody
		}
		c.denial = resp
	}
}

// before calls Before. c counts as sent meanwhile; if Before fails or panics, it no longer does.
func (t *Transport) before(c *call) error {
	if t.Before == nil {
		return nil
	}
	if c.denial != nil && !c.kept {
		keep(c.denial)
		c.kept = true
	}
	sending := false
	defer func() {
		if !sending {
			t.settle(c, nil)
		}
	}()
	err := t.Before(c.req)
	sending = err == nil
	return err
}

// send sends the request of c once, and learns from the response.
func (t *Transport) send(c *call) (resp *http.Response, err error) {
	req := c.next()
	returned := false
	defer func() {
		if !returned { // Base panicked
			t.settle(c, nil)
		}
	}()
	resp, err = t.base().RoundTrip(req)
	returned = true
	t.settle(c, resp)
	return resp, err
}

// settle ends the sending of c: it learns from resp, which may be nil, and dispatches the calls that wait.
func (t *Transport) settle(c *call, resp *http.Response) {
	now := time.Now()
	var rep report
	if resp != nil {
		rep.read(resp, now)
	}
	t.mu.Lock()
	t.clock++
	c.account.settle(c, &rep, now, t)
	t.mu.Unlock()
	if t.OnDenied != nil && (rep.denied || rep.unavailable) {
		t.OnDenied(c.req, rep.announced())
	}
	c.denied = rep.resendable(c.req) && c.renew()
}

// CloseIdleConnections closes the idle connections of Base, if Base has a method of this name.
// http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func (t *Transport) maxWait() time.Duration {
	switch {
	case t.MaxWait == 0:
		return time.Minute
	case t.MaxWait < 0:
		return 0
	}
	return t.MaxWait
}
