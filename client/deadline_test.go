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
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

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
		limitedBy(t, err)
		expect.Equal(t, time.Since(start2000), 5*time.Second, "after (when the 503 came)")
		all.Wait()
	})
}

func limitedBy(t *testing.T, err error) *client.LimitedError {
	t.Helper()
	var limited *client.LimitedError
	must.True(t, errors.As(err, &limited), "error %v, want a LimitedError", err)
	return limited
}

// usedUp is a server that has one request, and then none for d.
func usedUp(d time.Duration) *server {
	return serve(func(w http.ResponseWriter, r *http.Request) { write(w, 200, gitHub("60", "0", seconds(d), "core")...) })
}

// TestTooLongWaitFailsAtOnce checks that nothing is sent and no time passes if the wait is longer than MaxWait, or than the time
// until the deadline.
func TestTooLongWaitFailsAtOnce(t *testing.T) {
	for _, row := range []struct {
		name              string
		maxWait, deadline time.Duration
		sent              bool
	}{
		{"default", 0, 0, false},
		{"a second too short", 89 * time.Second, 0, false},
		{"long enough", 90 * time.Second, 0, true},
		{"MaxWait is shorter than the deadline", 89 * time.Second, time.Hour, false},
		{"the deadline is too short", time.Hour, 90 * time.Second, false},
		{"the deadline is long enough", time.Hour, 91 * time.Second, true},
		{"never", -1, 0, false},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			s := usedUp(90 * time.Second)
			c := s.over(&client.Transport{MaxWait: row.maxWait})
			get(t, c, "/")
			c.Timeout = row.deadline
			resp, err := c.Get("http://api.example/")
			if row.sent {
				must.True(t, err == nil && time.Since(start2000) <= 91*time.Second, "after %v: %v", time.Since(start2000), err)
				resp.Body.Close()
				return
			}
			e := limitedBy(t, err)
			expect.True(t, e.Until.Equal(start2000.Add(90*time.Second)) && e.Status == 200 && e.Policy == "core",
				"%+v, want the limit core in 90s, by a 200", e)
			expect.True(t, time.Since(start2000) <= 0 && len(s.requests(start2000)) == 1,
				"after %v, %d requests, want at once, and nothing sent", time.Since(start2000), len(s.requests(start2000)))
		}))
	}
}

// TestDenialIsReturnedWithItsBody checks that a denial is returned with its body intact if the wait for a retry is
// too long, or becomes too long because of other denials.
func TestDenialIsReturnedWithItsBody(t *testing.T) {
	for _, row := range []struct {
		name  string
		waits []string // Retry-After of each denial
		took  time.Duration
	}{
		{"at once", []string{"90"}, 0},
		{"at the second", []string{"40", "30"}, 40 * time.Second},
		{"at the third: all waits together", []string{"20", "20", "20", "20"}, 40 * time.Second},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			n := 0
			s := serve(func(w http.ResponseWriter, r *http.Request) {
				write(w, 429, "Retry-After", row.waits[n])
				n++
			})
			resp := must.Get(s.over(&client.Transport{}).Get("http://api.example/"))(t)
			body, err := io.ReadAll(resp.Body)
			expect.True(t, resp.StatusCode == 429 && string(body) == "body" && err == nil && resp.Header.Get("Retry-After") == row.waits[n-1],
				"%v %q %v", resp, body, err)
			took := time.Since(start2000)
			expect.True(t, took >= row.took && took <= row.took+5*time.Second, "took %v, want %v", took, row.took)
		}))
	}
}

// TestDenialIsReturnedWhileOthersExtendTheWait checks that a denial is returned intact if the wait for its retry becomes too long.
func TestDenialIsReturnedWhileOthersExtendTheWait(t *testing.T) {
	for _, size := range []int{0, 10, 64 << 10, 200_000} {
		synctest.Test(t, func(t *testing.T) { denyAndExtend(t, strings.Repeat("x", size)) })
	}
}

// denyAndExtend denies two requests with text and, while they wait, holds the key for too long.
func denyAndExtend(t *testing.T, text string) {
	s := serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "slow" {
			time.Sleep(5 * time.Second)
			write(w, 503, "Retry-After", "600")
			return
		}
		if r.URL.RawQuery == "first" {
			write(w, 200)
			return
		}
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, text)
	})
	c := s.over(&client.Transport{})
	get(t, c, "/?first")
	var all sync.WaitGroup
	all.Go(func() { get(t, c, "/?slow") })
	synctest.Wait()
	all.Go(func() {
		synctest.Wait() // behind the one that is denied
		_, err := c.Get("http://api.example/")
		if limitedBy(t, err); time.Since(start2000) != 5*time.Second {
			t.Errorf("the request behind it fails after %v, want when the 503 came", time.Since(start2000))
		}
	})
	resp := must.Get(c.Get("http://api.example/"))(t)
	body, _ := io.ReadAll(resp.Body)
	expect.True(t, resp.StatusCode == 429 && string(body) == text && time.Since(start2000) == 5*time.Second,
		"status %d, %d bytes after %v, want the 429 of %d bytes when the 503 came", resp.StatusCode, len(body), time.Since(start2000), len(text))
	all.Wait()
}

func TestCloseIdleConnections(t *testing.T) {
	base := &closer{}
	(&http.Client{Transport: &client.Transport{Base: base}}).CloseIdleConnections()
	(&http.Client{Transport: &client.Transport{Base: serve(nil)}}).CloseIdleConnections()
	expect.Equal(t, base.closed, 1, "how often called")
}

type closer struct {
	http.RoundTripper
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

// TestWaitsEndWithTheContext checks that a wait ends when the context of the request ends, with its cause, and that others go on.
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
		sent := s.requests(start2000)
		expect.True(t, len(sent) == 2 && sent[1] <= 22*time.Second, "sent at %v, want the second call's after 20s", sent)
	})
}

// TestCanceledBeforeALongWait checks that a request whose context has been canceled fails with the cause, also if its wait would
// have been too long.
func TestCanceledBeforeALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := usedUp(time.Hour / 2).over(&client.Transport{})
		get(t, c, "/")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(io.ErrNoProgress)
		_, err := c.Do(request(t, "http://api.example/").WithContext(ctx))
		expect.ErrorIs(t, err, io.ErrNoProgress, "the error")
	})
}

// TestWaitingForOthers checks when a call ends that waits for the response to another call, whose limits are unknown:
// with its context, or after MaxWait, also if its deadline is later.
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
		later, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		_, err := c.Do(request(t, "http://api.example/").WithContext(later))
		if e := limitedBy(t, err); time.Since(start2000) != 6*time.Second || e.Status != 0 || !e.Until.Equal(time.Now()) {
			t.Errorf("%+v after %v, want status 0 after MaxWait", e, time.Since(start2000))
		}
		all.Wait()
	})
}

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
			expect.True(t, err != nil && err.Error() == want, "%v, want %s", err, want)
		}
	})
}
