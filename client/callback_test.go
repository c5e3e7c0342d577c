package client_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/internal/must"
)

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
		resp := must.Get(tr.RoundTrip(r))(t)
		resp.Body.Close()
		if len(announced) != 1 || announced[0] != 10*time.Second || of[0] != r {
			t.Errorf("announced %v, want once 10s", announced)
		}
		get(t, &http.Client{Transport: tr}, "/")
		if len(announced) != 1 {
			t.Errorf("announced %v for a request that need not wait", announced)
		}
	})
}

// TestOnWaitPanics checks that no call is left waiting after a callback panics.
func TestOnWaitPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usedUp(5 * time.Second)
		tr := &client.Transport{OnWait: func(r *http.Request, _ time.Duration) {
			if r.URL.RawQuery == "panic" {
				panic("callback")
			}
		}}
		c := s.over(tr)
		get(t, c, "/")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("OnWait was not called")
				}
			}()
			_, _ = tr.RoundTrip(request(t, "http://api.example/?panic"))
		}()
		if get(t, c, "/"); time.Since(start2000) > 6*time.Second {
			t.Errorf("the next request took %v, want 5s", time.Since(start2000))
		}
	})
}

// TestBasePanics checks that no call is left waiting after Base panics.
func TestBasePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/panic" {
				panic("base")
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})}
		func() {
			defer func() { _ = recover() }()
			_, _ = tr.RoundTrip(request(t, "http://api.example/panic"))
		}()
		get(t, &http.Client{Transport: tr}, "/")
		if time.Since(start2000) > 0 {
			t.Errorf("waited %v", time.Since(start2000))
		}
	})
}

// TestOnWaitIsNotCalledWithoutAnInstant checks that OnWait is not called for a wait for the response to another
// request.
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
