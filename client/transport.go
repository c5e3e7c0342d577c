package client

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"strings"
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
	// Remaining 0, and a 503 with Retry-After. Its duration is how long the server has asked to wait, at most an hour,
	// or 0 if the server named no instant or an instant in the past. It is called before RoundTrip waits or returns. It
	// may be called concurrently.
	OnDenied func(*http.Request, time.Duration)

	// NoPace sends requests as fast as possible while anything remains. Otherwise the last fifth of a window is paced: its
	// requests are sent evenly over the rest of the window. Token buckets are never paced.
	NoPace bool

	mu       sync.Mutex // guards the fields below and everything that they refer to
	accounts map[accountKey]*account
	arrivals uint64 // counts calls: it orders the accounts
}

// RoundTrip sends r, when its limits admit it. See the package documentation for what it returns.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil {
		return t.base().RoundTrip(r)
	}
	e := &exchange{req: r, call: call{noPace: t.NoPace}}
	returned := false
	defer func() {
		if !returned { // a callback or Base panicked
			e.close()
		}
	}()
	resp, err := t.roundTrip(e)
	returned = true
	return resp, err
}

// roundTrip is RoundTrip for a request with a URL.
func (t *Transport) roundTrip(e *exchange) (*http.Response, error) {
	e.key = t.keyOf(e.req)
	for {
		if err := t.wait(e); err != nil {
			return e.giveUp(err)
		}
		if err := t.before(e); err != nil {
			return e.giveUp(err)
		}
		resp, err := t.send(e)
		if !e.denied {
			return resp, err
		}
		if resp.Body == nil {
			resp.Body = http.NoBody
		}
		e.denial = resp
	}
}

// wait returns when e may be sent. It returns a *LimitedError if that would be too late, and the context's cause if the
// context of the request ends first.
func (t *Transport) wait(e *exchange) error {
	now := time.Now()
	t.mu.Lock()
	if e.account == nil {
		t.arrive(e)
	}
	e.limit = t.limit(e, now)
	b, _ := e.account.admit(&e.call, now)
	if b == nil {
		t.mu.Unlock()
		return nil
	}
	e.wake = make(chan struct{}, 1)
	e.admitted = false
	b.add(&e.call)
	t.mu.Unlock()
	defer func() { e.waited += time.Since(now) }()
	return t.sleep(e)
}

// limit returns when a wait that begins now must end: a moment before the deadline of the context.
func (t *Transport) limit(e *exchange, now time.Time) time.Time {
	limit := now.Add(t.maxWait() - e.waited)
	if deadline, ok := e.req.Context().Deadline(); ok && !limit.Before(deadline) {
		return deadline.Add(-1)
	}
	return limit
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

// arrive sets the account, the route and the ticket of e.
func (t *Transport) arrive(e *exchange) {
	a := t.accounts[e.key]
	if a == nil {
		a = t.open(e.key)
	}
	t.arrivals++
	a.used = t.arrivals
	a.clock++
	e.account, e.route, e.ticket = a, a.routeOf(e.req), a.clock
}

// open returns a new account. If there are too many, it forgets an old one.
func (t *Transport) open(key accountKey) *account {
	if t.accounts == nil {
		t.accounts = make(map[accountKey]*account)
	}
	if len(t.accounts) >= maxAccounts {
		delete(t.accounts, t.leastUsed())
	}
	a := newAccount()
	key.scheme, key.host = strings.Clone(key.scheme), strings.Clone(key.host) // not the whole URL
	t.accounts[key] = a
	return a
}

// leastUsed returns the key of the least recently used account of a sample, if possible of an account without requests
// in flight.
func (t *Transport) leastUsed() accountKey {
	return leastOf(t.accounts, func(a, b *account) bool {
		return a.idle() && !b.idle() || a.idle() == b.idle() && a.used < b.used
	})
}

// leastOf returns the key of the least value in a sample of a map.
func leastOf[K comparable, V any](all map[K]V, isLess func(a, b V) bool) (key K) {
	var least V
	sampled := 0
	for k, v := range all { // in random order
		if sampled++; sampled > 16 {
			break
		}
		if sampled == 1 || isLess(v, least) {
			key, least = k, v
		}
	}
	return key
}

var seed = maphash.MakeSeed()

// keyOf returns the account key of r. It hashes the credential, so that the Transport does not keep it.
func (t *Transport) keyOf(r *http.Request) accountKey {
	if t.Key != nil {
		return accountKey{host: shortName(t.Key(r))}
	}
	key := accountKey{scheme: shortName(r.URL.Scheme), host: shortName(strings.ToLower(r.URL.Host))}
	if value := r.Header["Authorization"]; len(value) > 0 {
		key.authorization = maphash.String(seed, value[0])
	}
	return key
}

// sleep waits until e is admitted or its wait ends. It removes e from its queue if it fails or panics.
func (t *Transport) sleep(e *exchange) error {
	sending := false
	defer func() {
		if !sending { // it is too late, or OnWait panicked
			t.quit(e)
		}
	}()
	ctx := e.req.Context()
	timer := time.NewTimer(time.Hour)
	for {
		done, until, known, err := t.look(e)
		switch {
		case done:
			sending = true
			return nil
		case err != nil && errors.Is(ctx.Err(), context.Canceled): // nobody waits, however long that would take
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		t.announce(e, known)
		e.keepDenial()
		timer.Reset(time.Until(until))
		select {
		case <-e.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look reports whether e may be sent. If not, it returns when to check again and the instant that was announced, or an
// error if the wait would take too long.
func (t *Transport) look(e *exchange) (done bool, until, known time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if e.in != nil {
		e.account.dispatch(e.in, now)
	}
	if e.admitted {
		return true, until, known, nil
	}
	known = e.in.expect(&e.call, now)
	if known.IsZero() && e.expires(now) {
		return false, now.Add(time.Second), known, nil
	}
	if known.After(e.limit) || !now.Before(e.limit) {
		return false, until, known, e.in.late(now, known)
	}
	until = e.limit
	if e.in.head == &e.call && e.until.Before(until) {
		until = e.until
	}
	return false, until, known, nil
}

// announce calls OnWait, once for a request.
func (t *Transport) announce(e *exchange, known time.Time) {
	if t.OnWait != nil && !e.announced && !known.IsZero() {
		e.announced = true
		t.OnWait(e.req, time.Until(known))
	}
}

// quit ends an exchange whose request is not sent: it removes the call from its queue and dispatches the calls behind it.
func (t *Transport) quit(e *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := e.in; b != nil {
		b.remove(&e.call)
		e.account.dispatch(b, time.Now())
	} else { // it was admitted just now
		e.account.settle(&e.call, &report{}, time.Now())
	}
}

// before calls Before. e counts as sent meanwhile; if Before fails or panics, it no longer does.
func (t *Transport) before(e *exchange) error {
	if t.Before == nil {
		return nil
	}
	e.keepDenial()
	sending := false
	defer func() {
		if !sending {
			t.settle(e, nil)
		}
	}()
	err := t.Before(e.req)
	sending = err == nil
	return err
}

// send sends the request of e once, and learns from the response.
func (t *Transport) send(e *exchange) (resp *http.Response, err error) {
	req := e.next()
	returned := false
	defer func() {
		if !returned { // Base panicked
			t.settle(e, nil)
		}
	}()
	resp, err = t.base().RoundTrip(req)
	returned = true
	e.received = resp
	t.settle(e, resp)
	return resp, err
}

// maxAnnounced bounds what OnDenied gets, so that one response with an absurd instant does not stop a whole fleet for days.
const maxAnnounced = time.Hour

// settle ends the sending of e: it learns from resp, which may be nil, and dispatches the calls that wait.
func (t *Transport) settle(e *exchange, resp *http.Response) {
	now := time.Now()
	var rep report
	if resp != nil {
		rep.read(resp, now)
	}
	t.mu.Lock()
	e.account.settle(&e.call, &rep, now)
	t.mu.Unlock()
	if t.OnDenied != nil && (rep.denied || rep.unavailable) {
		t.OnDenied(e.req, min(rep.announced(), maxAnnounced))
	}
	e.denied = rep.resendable(e.req) && e.renew()
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
