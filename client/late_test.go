package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/internal/must"
)

// limitedBy returns the LimitedError in err.
func limitedBy(t *testing.T, err error) *client.LimitedError {
	t.Helper()
	var limited *client.LimitedError
	if !errors.As(err, &limited) {
		t.Fatalf("error %v, want a LimitedError", err)
	}
	return limited
}

// usedUp is a server that has one request, and then none for d.
func usedUp(d time.Duration) *server {
	return serve(func(w http.ResponseWriter, r *http.Request) {
		write(w, 200, gitHub("60", "0", seconds(d), "core")...)
	})
}

// TestTooLongWaitFailsAtOnce checks that nothing is sent and no time passes if the wait is longer than MaxWait, or than the time
// until the deadline.
func TestTooLongWaitFailsAtOnce(t *testing.T) {
	for _, row := range []struct {
		name     string
		maxWait  time.Duration
		deadline time.Duration
		sent     bool
	}{
		{"default", 0, 0, false},
		{"a second too short", 89 * time.Second, 0, false},
		{"long enough", 90 * time.Second, 0, true},
		{"MaxWait is shorter than the deadline", 89 * time.Second, time.Hour, false},
		{"the deadline is too short", time.Hour, 90 * time.Second, false},
		{"the deadline is long enough", time.Hour, 91 * time.Second, true},
		{"never", -1, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := usedUp(90 * time.Second)
				c := s.over(&client.Transport{MaxWait: row.maxWait})
				get(t, c, "/")
				c.Timeout = row.deadline
				resp, err := c.Get("http://api.example/")
				if row.sent {
					if err != nil || time.Since(start2000) > 91*time.Second {
						t.Fatalf("after %v: %v", time.Since(start2000), err)
					}
					resp.Body.Close()
					return
				}
				e := limitedBy(t, err)
				if !e.Until.Equal(start2000.Add(90*time.Second)) || e.Status != 200 || e.Policy != "core" {
					t.Errorf("%+v, want the limit core in 90s, by a 200", e)
				}
				if time.Since(start2000) > 0 || len(s.requests(start2000)) != 1 {
					t.Errorf("after %v, %d requests, want at once, and nothing sent", time.Since(start2000), len(s.requests(start2000)))
				}
			})
		})
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
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				s := serve(func(w http.ResponseWriter, r *http.Request) {
					write(w, 429, "Retry-After", row.waits[n])
					n++
				})
				resp := must.Get(s.over(&client.Transport{}).Get("http://api.example/"))(t)
				body, err := io.ReadAll(resp.Body)
				if resp.StatusCode != 429 || string(body) != "body" || err != nil || resp.Header.Get("Retry-After") != row.waits[n-1] {
					t.Errorf("%v %q %v", resp, body, err)
				}
				if took := time.Since(start2000); took < row.took || took > row.took+5*time.Second {
					t.Errorf("took %v, want %v", took, row.took)
				}
			})
		})
	}
}

// TestDenialIsReturnedWhileOthersExtendTheWait checks that a denial is returned intact if the wait for its retry
// becomes too long.
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
	if resp.StatusCode != 429 || string(body) != text || time.Since(start2000) != 5*time.Second {
		t.Errorf("status %d, %d bytes after %v, want the 429 of %d bytes when the 503 came", resp.StatusCode, len(body), time.Since(start2000), len(text))
	}
	all.Wait()
}

// TestMaxWaitInTheQueue checks that a call in the queue ends after MaxWait.
func TestMaxWaitInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usedUp(4 * time.Second)
		c := s.over(&client.Transport{MaxWait: 10 * time.Second})
		get(t, c, "/")
		var all sync.WaitGroup
		var served, failed atomic.Int32
		for range 10 {
			all.Go(func() {
				if resp, err := c.Get("http://api.example/"); err == nil {
					served.Add(1)
					resp.Body.Close()
				} else {
					failed.Add(1)
					limitedBy(t, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start2000); served.Load() != 2 || failed.Load() != 8 || took > 10*time.Second {
			t.Errorf("%d served, %d failed after %v, want the two of 10s, one in 4s", served.Load(), failed.Load(), took)
		}
	})
}

// TestCloseIdleConnections checks that the method of Base is called, if it has one.
func TestCloseIdleConnections(t *testing.T) {
	base := &closer{}
	(&http.Client{Transport: &client.Transport{Base: base}}).CloseIdleConnections()
	(&http.Client{Transport: &client.Transport{Base: serve(nil)}}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("called %d times", base.closed)
	}
}

type closer struct {
	http.RoundTripper
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }
