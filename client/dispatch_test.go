package client_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// TestResponsePostponesOverdue checks that requests wait for the requests in flight until ten seconds after the last
// response, not after the last request.
func TestResponsePostponesOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			left := "3"
			switch r.URL.RawQuery {
			case "hang":
				<-r.Context().Done()
			case "slow":
				time.Sleep(8 * time.Second)
				left = "2"
			}
			write(w, 200, gitHub("100", left, epoch(start2000.Add(time.Hour)), "")...)
		})
		c := s.over(&client.Transport{NoPace: true})
		ctx, cancel := context.WithCancel(t.Context())
		get(t, c, "/")
		hang(ctx, t, c, "/")
		hang(ctx, t, c, "/")
		get(t, c, "/?slow")
		if get(t, c, "/"); time.Since(start2000) != 18*time.Second {
			t.Errorf("sent after %v, want ten seconds after the response", time.Since(start2000))
		}
		cancel()
		synctest.Wait()
	})
}

// hang sends a GET request that gets its response only when ctx ends.
func hang(ctx context.Context, t *testing.T, c *http.Client, path string) {
	t.Helper()
	r := request(t, "http://api.example"+path+"?hang").WithContext(ctx)
	go func() { _, _ = c.Do(r) }()
	synctest.Wait()
}

// TestLateResponseOpensItsRoute checks that requests that wait for the first response of their route are sent when it
// arrives, although its request was sent before the server was known to have limits.
func TestLateResponseOpensItsRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.RawQuery == "hang":
				<-r.Context().Done()
			case r.URL.Path == "/a" && time.Since(start2000) == 0:
				time.Sleep(3 * time.Second)
				write(w, 200)
			case r.URL.Path == "/limited":
				write(w, 200, gitHub("100", "90", "3600", "core")...)
			default:
				write(w, 200)
			}
		})
		c := s.over(&client.Transport{})
		ctx, cancel := context.WithCancel(t.Context())
		get(t, c, "/")
		var all sync.WaitGroup
		all.Go(func() { get(t, c, "/a") })
		synctest.Wait()
		time.Sleep(time.Second)
		get(t, c, "/limited")
		hang(ctx, t, c, "/a")
		if get(t, c, "/a"); time.Since(start2000) != 3*time.Second {
			t.Errorf("sent after %v, want when the first of its route was answered", time.Since(start2000))
		}
		cancel()
		all.Wait()
		synctest.Wait()
	})
}

// TestResponseOfAnotherRouteOpensALimit checks that requests that wait for a trial are sent when another route, not
// known to share their limit, gets a response that says that something remains.
func TestResponseOfAnotherRouteOpensALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			segment, _, _ := strings.Cut(r.URL.Path[1:], "/")
			switch {
			case r.URL.RawQuery == "hang":
				<-r.Context().Done()
			case segment == "other":
				write(w, 200, gitHub("100", "90", "3600", "other")...)
			case time.Since(start2000) == 0:
				write(w, 200, gitHub("100", "0", "5", "core")...)
			default:
				write(w, 200, gitHub("100", "90", "3600", "core")...)
			}
		})
		c := s.over(&client.Transport{})
		ctx, cancel := context.WithCancel(t.Context())
		get(t, c, "/core")
		get(t, c, "/other")
		time.Sleep(6 * time.Second)
		hang(ctx, t, c, "/core")
		var all sync.WaitGroup
		all.Go(func() {
			if get(t, c, "/core"); time.Since(start2000) != 7*time.Second {
				t.Errorf("sent after %v, want when the new route was answered", time.Since(start2000))
			}
		})
		time.Sleep(time.Second)
		get(t, c, "/new")
		all.Wait()
		cancel()
		synctest.Wait()
	})
}

// TestFirstRequestsThatAreOverdue checks that all requests are sent, not one at a time, if nothing is known and the
// first request is overdue.
func TestFirstRequestsThatAreOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Minute)
			write(w, 200)
		})
		c := s.over(&client.Transport{})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { get(t, c, "/") })
		}
		all.Wait()
		const later = 10 * time.Second
		if sent := s.requests(start2000); !slices.Equal(sent, []time.Duration{0, later, later, later}) {
			t.Errorf("sent at %v, want one and the others after %v", sent, later)
		}
	})
}

// TestTrialDoesNotWaitForEarlierRequests checks that a limit is tried at its instant, although an earlier request still has no
// response.
func TestTrialDoesNotWaitForEarlierRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := "50"
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "hang" {
				<-r.Context().Done()
			}
			write(w, 200, gitHub("60", left, "5", "core")...)
		})
		c := s.over(&client.Transport{})
		ctx, cancel := context.WithCancel(t.Context())
		get(t, c, "/")
		hang(ctx, t, c, "/")
		left = "0"
		get(t, c, "/")
		if get(t, c, "/"); time.Since(start2000) > 6*time.Second {
			t.Errorf("sent after %v, want 5s and the jitter", time.Since(start2000))
		}
		cancel()
		synctest.Wait()
	})
}
