package client_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// TestOnWaitPanicsAfterTheCallWasAdmitted checks that no call waits for a call whose OnWait panics after a response has
// admitted it.
func TestOnWaitPanicsAfterTheCallWasAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			left := "50"
			switch r.URL.RawQuery {
			case "slow":
				time.Sleep(20 * time.Second)
			case "last":
				left = "0"
			}
			write(w, 200, gitHub("60", left, "10", "core")...)
		})
		tr := &client.Transport{OnWait: func(r *http.Request, _ time.Duration) {
			if r.URL.RawQuery == "panic" {
				time.Sleep(25 * time.Second)
				panic("callback")
			}
		}}
		c := s.over(tr)
		var all sync.WaitGroup
		get(t, c, "/?known")
		all.Go(func() { get(t, c, "/?slow") })
		synctest.Wait()
		get(t, c, "/?last")
		all.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("OnWait was not called")
				}
			}()
			_, _ = tr.RoundTrip(request(t, "http://api.example/?panic")) // the slow response admits it
		})
		all.Wait()
		begun := time.Now()
		if get(t, c, "/"); time.Since(begun) > 0 {
			t.Errorf("the next request waited %v", time.Since(begun))
		}
	})
}

// TestDeniedRequestKeepsItsPlace checks that a denied request is sent again before requests that arrived while it was in
// flight.
func TestDeniedRequestKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			order = append(order, r.URL.RawQuery)
			n := len(order)
			mu.Unlock()
			switch n {
			case 1:
				write(w, 200)
			case 2:
				time.Sleep(2 * time.Second)
				write(w, 429, "Retry-After", "10")
			case 3:
				write(w, 429, "Retry-After", "20")
			default:
				write(w, 200)
			}
		})
		c := s.over(&client.Transport{})
		get(t, c, "/?known")
		var all sync.WaitGroup
		for _, query := range []string{"first", "second"} {
			all.Go(func() { get(t, c, "/?"+query) })
			time.Sleep(time.Second / 2)
		}
		all.Wait()
		if want := []string{"known", "first", "second", "first", "second"}; !slices.Equal(order, want) {
			t.Errorf("sent %v, want %v", order, want)
		}
	})
}

// TestDenialIsReadBeforeTheWait checks that a denial frees its connection before the wait, not after it.
func TestDenialIsReadBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &watched{size: 1000, closed: make(chan bool)}
		var n atomic.Int32
		base := roundTrip(func(*http.Request) (*http.Response, error) {
			if n.Add(1) > 1 {
				return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
			}
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"30"}}, Body: body}, nil
		})
		var all sync.WaitGroup
		all.Go(func() { get(t, &http.Client{Transport: &client.Transport{Base: base}}, "/") })
		synctest.Wait()
		if n.Load() != 1 || body.read != 1000 || body.closes != 1 {
			t.Errorf("%d requests, %d bytes were read, closed %d times: want the whole body while the request waits", n.Load(), body.read, body.closes)
		}
		all.Wait()
	})
}

// TestPastDeadline checks that a request whose deadline has passed fails with a LimitedError at once, without a call of
// OnWait.
func TestPastDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{OnWait: func(_ *http.Request, d time.Duration) { t.Errorf("announced %v", d) }}
		get(t, usedUp(20*time.Second).over(tr), "/")
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		_, err := tr.RoundTrip(request(t, "http://api.example/").WithContext(ctx))
		if limitedBy(t, err); time.Since(start2000) > 0 {
			t.Errorf("%v after %v, want it at once", err, time.Since(start2000))
		}
	})
}

// TestRequestWaitsForTheLongerLimit checks that a request waits for the limit that is closed longest, whatever their order in the
// response.
func TestRequestWaitsForTheLongerLimit(t *testing.T) {
	for _, field := range []string{`"short";r=0;t=20, "long";r=0;t=90`, `"long";r=0;t=90, "short";r=0;t=20`} {
		synctest.Test(t, func(t *testing.T) {
			c := serve(func(w http.ResponseWriter, _ *http.Request) { write(w, 200, "RateLimit", field) }).over(&client.Transport{})
			get(t, c, "/")
			_, err := c.Get("http://api.example/")
			if e := limitedBy(t, err); e.Policy != "long" || !e.Until.Equal(start2000.Add(90*time.Second)) || time.Since(start2000) > 0 {
				t.Errorf("%s: %+v after %v, want the long one at once", field, e, time.Since(start2000))
			}
		})
	}
}
