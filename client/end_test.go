package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// TestWaitsEndWithTheContext checks that a wait ends when the context of the request ends, with its cause, and that others
// go on.
func TestWaitsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usedUp(20 * time.Second)
		c := s.over(&client.Transport{})
		get(t, c, "/")
		ctx, cancel := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", "http://api.example/", nil)
			if _, err := c.Do(r); !errors.Is(err, io.ErrNoProgress) || time.Since(start2000) != time.Second {
				t.Errorf("%v after %v, want the cause after 1s", err, time.Since(start2000))
			}
		})
		synctest.Wait()
		all.Go(func() { get(t, c, "/") })
		time.Sleep(time.Second)
		cancel(io.ErrNoProgress)
		all.Wait()
		if sent := s.requests(start2000); len(sent) != 2 || sent[1] > 22*time.Second {
			t.Errorf("sent at %v, want the second call's after 20s", sent)
		}
	})
}

// TestWaitingForOthers checks when a call ends that waits for the response to another call, whose limits are unknown:
// with its context, or after MaxWait.
func TestWaitingForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(8 * time.Second)
			write(w, 200)
		}).over(&client.Transport{MaxWait: 5 * time.Second})
		var all sync.WaitGroup
		all.Go(func() { get(t, c, "/") })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://api.example/", nil)
		if _, err := c.Do(r); !errors.Is(err, context.DeadlineExceeded) || time.Since(start2000) != time.Second {
			t.Errorf("%v after %v, want the context's error after its second", err, time.Since(start2000))
		}
		_, err := c.Get("http://api.example/")
		if e := limitedBy(t, err); time.Since(start2000) != 6*time.Second || e.Status != 0 || !e.Until.Equal(time.Now()) {
			t.Errorf("%+v after %v, want status 0 after MaxWait", e, time.Since(start2000))
		}
		all.Wait()
	})
}

// TestErrorHasNoSecret checks that the error contains nothing of the request.
func TestErrorHasNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Base: usedUp(time.Hour)}
		for i := range 2 {
			r, _ := http.NewRequest("GET", "http://ann:hunter2@api.example/token/hunter2?key=hunter2", strings.NewReader("hunter2"))
			r.Header.Set("Authorization", "Bearer hunter2")
			_, err := tr.RoundTrip(r)
			if i == 0 {
				continue
			}
			const want = `spillgate: not sent: waiting for the rate limit "core" until 2000-01-01T01:00:00Z takes too long (announced by a response of status 200)`
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	})
}
