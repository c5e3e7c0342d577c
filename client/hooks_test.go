package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestBefore checks that Before is called before each attempt, after the wait that the server asked for, and delays the attempt.
func TestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{handler: &script{responses: []response{{429, []string{"Retry-After", "10"}}, {200, nil}}}}
		r := request(t, "http://api.example/")
		var called []time.Duration
		tr := &client.Transport{Base: s, Before: func(got *http.Request) error {
			expect.Equal(t, got, r, "Before got another request")
			called = append(called, time.Since(start2000))
			time.Sleep(time.Second)
			return nil
		}}
		must.Get(tr.RoundTrip(r))(t).Body.Close()
		sent := s.requests(start2000)
		expect.True(t, len(called) == 2 && called[0] == 0 && called[1] >= 11*time.Second &&
			len(sent) == 2 && sent[0] == time.Second && sent[1] == called[1]+time.Second,
			"called at %v, sent at %v; want each attempt a second after its call", called, sent)
	})
}

// TestBeforeFails checks that nothing is sent if Before fails, that the body is closed, and that no other request waits for
// the one that was not sent.
func TestBeforeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := errors.New("shop closed")
		s := serve(ok)
		tr := &client.Transport{Before: func(r *http.Request) error {
			if r.Body != nil {
				return closed
			}
			return nil
		}}
		c := s.over(tr)
		body := &watched{size: 10, closed: make(chan bool)}
		r := request(t, "http://api.example/")
		r.Body = body
		if _, err := tr.RoundTrip(r); !errors.Is(err, closed) || body.closes.Load() != 1 {
			t.Errorf("%v, body closed %d times; want the error of Before", err, body.closes.Load())
		}
		if get(t, c, "/"); time.Since(start2000) > 0 || len(s.requests(start2000)) != 1 {
			t.Errorf("%d requests in %v, want one at once", len(s.requests(start2000)), time.Since(start2000))
		}
	})
}

// TestBeforeFreesTheConnectionOfADenial checks that a denial is read to its end before Before sleeps, also if OnDenied
// has taken as long as the server asked for.
func TestBeforeFreesTheConnectionOfADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &watched{size: 1000, closed: make(chan bool)}
		n := 0
		tr := &client.Transport{
			Base: inTurn(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"1"}}, Body: body},
				&http.Response{StatusCode: 200, Body: http.NoBody}),
			OnDenied: func(*http.Request, time.Duration) { time.Sleep(2 * time.Second) },
			Before: func(*http.Request) error {
				if n++; n > 1 && (body.read.Load() != 1000 || body.closes.Load() != 1) {
					t.Errorf("%d bytes were read, closed %d times", body.read.Load(), body.closes.Load())
				}
				return nil
			},
		}
		get(t, &http.Client{Transport: tr}, "/")
		expect.Equal(t, n, 2, "how often Before was called")
	})
}

// TestOnDenied checks which responses OnDenied is called for, and with which time.
func TestOnDenied(t *testing.T) {
	date := func(d time.Duration) string { return start2000.Add(d).UTC().Format(http.TimeFormat) }
	for _, row := range []struct {
		name, method string
		skew         time.Duration
		response     response
		want         time.Duration // -1: not called
	}{
		{"Retry-After", "GET", 0, response{429, []string{"Retry-After", "7"}}, 7 * time.Second},
		{"the longest of several", "GET", 0, response{429, []string{"Retry-After", "7", "Retry-After", "9"}}, 9 * time.Second},
		{"a date by a clock that is ahead", "GET", time.Hour, response{429, []string{"Retry-After", date(time.Hour + 7*time.Second)}}, 7 * time.Second},
		{"a date that is past", "GET", 0, response{429, []string{"Retry-After", date(-time.Hour)}}, 0},
		{"nothing", "GET", 0, response{429, nil}, 0},
		{"Retry-After beside Reset", "GET", 0, response{429, append(gitHub("60", "0", "50", "core"), "Retry-After", "7")}, 7 * time.Second},
		{"Reset", "GET", 0, response{429, gitHub("60", "0", "50", "core")}, 50 * time.Second},
		{"the limit that is used up longest", "GET", 0, response{429, []string{"RateLimit", `"a";r=0;t=5, "b";r=0;t=8, "c";r=3;t=90`}}, 8 * time.Second},
		{"a body that cannot be sent again", "POST", 0, response{429, []string{"Retry-After", "7"}}, 7 * time.Second},
		{"an hour", "GET", 0, response{429, []string{"Retry-After", "3600"}}, time.Hour},
		{"more than an hour", "GET", 0, response{429, []string{"Retry-After", "3601"}}, time.Hour},
		{"a thousand years", "GET", 0, response{429, []string{"Retry-After", "31536000000"}}, time.Hour},
		{"a Reset in a thousand years", "GET", 0, response{429, gitHub("60", "0", "31536000000", "core")}, time.Hour},
		{"503 for days", "GET", 0, response{503, []string{"Retry-After", "86400000"}}, time.Hour},
		{"403 with Retry-After", "GET", 0, response{403, []string{"Retry-After", "7"}}, 7 * time.Second},
		{"403 with Remaining 0", "GET", 0, response{403, gitHub("60", "0", "50", "core")}, 50 * time.Second},
		{"403", "GET", 0, response{403, nil}, -1},
		{"503 with Retry-After", "POST", 0, response{503, []string{"Retry-After", "7"}}, 7 * time.Second},
		{"503", "GET", 0, response{503, nil}, -1},
		{"200 with Remaining 0", "GET", 0, response{200, gitHub("60", "0", "50", "core")}, -1},
		{"from a cache", "GET", 0, response{429, []string{"Retry-After", "7", "Age", "3"}}, -1},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			s := &server{handler: &script{responses: []response{row.response, {200, nil}}}, skew: row.skew}
			got, at := time.Duration(-1), time.Duration(0)
			r := must.Get(http.NewRequest(row.method, "http://api.example/", nil))(t)
			if row.method == "POST" {
				r.Body = io.NopCloser(strings.NewReader("cargo"))
			}
			tr := &client.Transport{Base: s, OnDenied: func(of *http.Request, d time.Duration) {
				expect.True(t, of == r && got < 0, "OnDenied was called again, or for another request")
				got, at = d, time.Since(start2000)
			}}
			must.Get(tr.RoundTrip(r))(t).Body.Close()
			expect.True(t, got == row.want && at == 0, "OnDenied got %v after %v, want %v at once", got, at, row.want)
		}))
	}
}

// TestPanics checks that the bodies of the request and of the response are closed after Base or a callback panics, and that
// the next request waits only for the server.
func TestPanics(t *testing.T) {
	for name, row := range map[string]struct {
		transport *client.Transport
		getBody   func() (io.ReadCloser, error)
		response  *http.Response
	}{
		"Key":      {transport: &client.Transport{Key: func(*http.Request) string { panic("ouch") }}},
		"Before":   {transport: &client.Transport{Before: func(*http.Request) error { panic("ouch") }}},
		"Base":     {transport: new(client.Transport)},
		"OnDenied": {transport: &client.Transport{OnDenied: func(*http.Request, time.Duration) { panic("ouch") }}, response: denial("7", nil)},
		"OnWait":   {transport: &client.Transport{OnWait: func(*http.Request, time.Duration) { panic("ouch") }}, response: denial("7", nil)},
		"GetBody":  {transport: new(client.Transport), getBody: func() (io.ReadCloser, error) { panic("ouch") }, response: denial("7", nil)},
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			open := 0
			opened := func() *openBody {
				open++
				return &openBody{closed: func() { open-- }}
			}
			if row.response != nil {
				row.response.Body = opened()
			}
			row.transport.Base = roundTrip(func(r *http.Request) (*http.Response, error) {
				if row.response == nil {
					panic("ouch")
				}
				r.Body.Close()
				return row.response, nil
			})
			r := request(t, "http://api.example/")
			r.Body, r.GetBody = opened(), row.getBody
			if r.GetBody == nil {
				r.GetBody = func() (io.ReadCloser, error) { return opened(), nil }
			}
			err := expect.PanicOf(func() { _, _ = row.transport.RoundTrip(r) })
			expect.True(t, err != nil && open <= 0, "%d bodies are open after the panic %v", open, err)
			tr, wait := row.transport, time.Duration(0)
			if row.response != nil {
				wait = 7 * time.Second
			}
			tr.Key, tr.Before, tr.OnDenied, tr.OnWait = nil, nil, nil, nil
			get(t, serve(ok).over(tr), "/")
			took := time.Since(start2000)
			expect.True(t, took >= wait && took <= wait+time.Second, "the next request took %v, want %v", took, wait)
		}))
	}
}

// An openBody is empty, and calls closed when it is closed first.
type openBody struct{ closed func() }

func (b *openBody) Read([]byte) (int, error) { return 0, io.EOF }

func (b *openBody) Close() error {
	if b.closed != nil {
		b.closed()
	}
	b.closed = nil
	return nil
}

// TestOnWait checks that OnWait is called once when a request begins to wait, with the time until the announced instant.
func TestOnWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var announced []time.Duration
		var of []*http.Request
		s := &server{handler: &script{responses: []response{
			{429, []string{"Retry-After", "10"}}, {429, []string{"Retry-After", "20"}}, {200, nil},
		}}}
		tr := &client.Transport{Base: s, OnWait: func(r *http.Request, d time.Duration) { announced, of = append(announced, d), append(of, r) }}
		r := request(t, "http://api.example/")
		must.Get(tr.RoundTrip(r))(t).Body.Close()
		expect.True(t, len(announced) == 1 && announced[0] == 10*time.Second && of[0] == r, "announced %v, want once 10s", announced)
		get(t, &http.Client{Transport: tr}, "/")
		expect.Equal(t, len(announced), 1, "announced %v for a request that need not wait", announced)
	})
}

// TestOnWaitIsNotCalledWithoutAnInstant checks that OnWait is not called for a wait for the response to another request.
func TestOnWaitIsNotCalledWithoutAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			write(w, 200)
		}).over(&client.Transport{OnWait: func(_ *http.Request, d time.Duration) { t.Errorf("announced %v", d) }})
		var all sync.WaitGroup
		all.Go(func() { get(t, c, "/") })
		synctest.Wait()
		get(t, c, "/")
		all.Wait()
	})
}

// TestOnWaitIsAboutTheFuture checks that OnWait gets no instant in the past while a late response hides how many requests remain.
func TestOnWaitIsAboutTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := time.Now().Add(1000 * time.Second).Unix()
		var served atomic.Int64
		c := serve(func(w http.ResponseWriter, _ *http.Request) {
			remaining := 11 - served.Add(1)
			if remaining == 8 {
				time.Sleep(300 * time.Second)
			}
			write(w, 200, "X-RateLimit-Limit", "50", "X-RateLimit-Remaining", strconv.FormatInt(remaining, 10), "X-RateLimit-Reset", strconv.FormatInt(end, 10))
		}).over(&client.Transport{OnWait: func(_ *http.Request, d time.Duration) { t.Errorf("announced %v", d) }})
		get(t, c, "/")
		get(t, c, "/")
		time.Sleep(100 * time.Second)
		var all sync.WaitGroup
		all.Go(func() { get(t, c, "/") })
		time.Sleep(95 * time.Second)
		get(t, c, "/") // until 200 s, although it would be sent at 190 s if the server had not counted the late request
		all.Wait()
	})
}

// TestFleetSharesOneBudget has ten processes send as fast as a shared limit of 50 per second allows, to a server with the same limit. The
// processes share the limit through their hooks. A stranger's burst first causes one denial. After that, and after the requests booked by
// then, no request is denied, and at least 95% of the server's limit is used.
func TestFleetSharesOneBudget(t *testing.T) {
	const processes, callers, span = 10, 2, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := limited(core.PerSecond(50).WithBurst(5), headers.RetryAfter) // so processes learn of others' denials only through their hooks
		s.latency = func() time.Duration { return 5 * time.Millisecond }
		stranger := s.over(&client.Transport{MaxWait: -1})
		for range 4 {
			must.Equal(t, get(t, stranger, "/"), 200, "the stranger")
		}
		var strangers sync.WaitGroup
		for range 4 { // uses up the rest
			strangers.Go(func() {
				if resp, err := s.RoundTrip(request(t, "http://api.example/")); err == nil {
					resp.Body.Close()
				}
			})
		}
		time.Sleep(5 * time.Millisecond)

		store, ctx := new(core.MemoryStore), context.Background()
		begun := time.Now()
		var firstDenial, pauseEnds, served atomic.Int64
		var booked sync.Map // the instants of the decisions
		var all sync.WaitGroup
		for range processes {
			l := core.Must(core.New([]core.Rule{{
				Name: "partner", Limits: []core.Limit{core.PerSecond(50).WithBurst(1)}, MaxWait: time.Minute,
			}}, core.WithStore(store)))
			claim := core.Claim{Rule: "partner", Key: "const:all"}
			c := s.over(&client.Transport{
				Before: func(r *http.Request) error {
					d, err := l.Wait(r.Context(), claim)
					if err == nil && !d.Allowed {
						err = errors.New("too many wait")
					}
					booked.Store(r, d.At)
					if at, now := int64(d.At.Sub(begun)), int64(time.Since(begun)); firstDenial.Load() > 0 && at > firstDenial.Load() && now < pauseEnds.Load() {
						t.Errorf("a request is sent at %v that was booked at %v, during a pause", time.Duration(now), time.Duration(at))
					}
					return err
				},
				OnDenied: func(r *http.Request, d time.Duration) {
					expect.NoError(t, l.Ban(ctx, claim.Rule, claim.Key, max(d, time.Second)), "Ban")
					if firstDenial.CompareAndSwap(0, int64(time.Since(begun))) {
						pauseEnds.Store(int64(time.Since(begun) + max(d, time.Second)))
					}
					if at, _ := booked.Load(r); int64(at.(time.Time).Sub(begun)) > firstDenial.Load() {
						t.Errorf("a request is denied that was booked at %v, after the first denial", at)
					}
				},
			})
			for range callers {
				all.Go(func() {
					for time.Since(begun) < span {
						if get(t, c, "/") == 200 && time.Since(begun) < span {
							served.Add(1)
						}
					}
				})
			}
		}
		all.Wait()
		expect.NotEqual(t, firstDenial.Load(), 0, "no request was denied")
		most := int64(50 * span / time.Second)
		expect.True(t, served.Load() >= most*95/100, "%d served, want 95%% of %d", served.Load(), most)
	})
}
