package client_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// TestDeadlineAfterADenial checks that a denial is returned at once if the request's deadline is before the announced instant.
func TestDeadlineAfterADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, _ *http.Request) { write(w, 429, "Retry-After", "30") })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		resp, err := (&client.Transport{Base: s}).RoundTrip(request(t, "http://api.example/").WithContext(ctx))
		if err != nil || resp.StatusCode != 429 || time.Since(start2000) > 0 {
			t.Errorf("%+v, %v after %v, want the denial at once", resp, err, time.Since(start2000))
		}
	})
}

// TestMaxWaitBeforeTheDeadline checks that MaxWait ends a wait for the response to another request if the deadline is later.
func TestMaxWaitBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{MaxWait: 5 * time.Second, Base: serve(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(8 * time.Second)
			write(w, 200)
		})}
		var all sync.WaitGroup
		all.Go(func() { get(t, &http.Client{Transport: tr}, "/") })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := tr.RoundTrip(request(t, "http://api.example/").WithContext(ctx))
		if limitedBy(t, err); time.Since(start2000) != 5*time.Second {
			t.Errorf("after %v, want 5s", time.Since(start2000))
		}
		all.Wait()
	})
}

// TestDeadlineBehindALongerWait checks that a request whose wait has become too long fails at once, although a
// request with more time waits before it.
func TestDeadlineBehindALongerWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.RawQuery == "slow":
				time.Sleep(5 * time.Second)
				write(w, 503, "Retry-After", "600")
			case time.Since(start2000) < 30*time.Second && r.URL.RawQuery == "denied":
				write(w, 429, "Retry-After", "30")
			default:
				write(w, 200)
			}
		})
		tr := &client.Transport{MaxWait: time.Hour}
		c := s.over(tr)
		get(t, c, "/")
		var all sync.WaitGroup
		for _, query := range []string{"slow", "denied"} {
			all.Go(func() { get(t, c, "/?"+query) })
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := tr.RoundTrip(request(t, "http://api.example/").WithContext(ctx))
		if limitedBy(t, err); time.Since(start2000) != 5*time.Second {
			t.Errorf("after %v, want when the 503 came", time.Since(start2000))
		}
		all.Wait()
	})
}
