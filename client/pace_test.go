package client_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
)

// spend sends n requests at once, and returns when each was sent.
func spend(t *testing.T, s *server, tr *client.Transport, n int) []time.Duration {
	c := s.over(tr)
	start := time.Now()
	var all sync.WaitGroup
	for range n {
		all.Go(func() { expect.Equal(t, get(t, c, "/"), 200, "status") })
	}
	all.Wait()
	return s.requests(start)
}

// TestPaceOfAWindow checks that only the last fifth of a window is spread evenly over the rest of the window.
func TestPaceOfAWindow(t *testing.T) {
	for _, w := range writers {
		t.Run(w.name, inBubble(func(t *testing.T) {
			time.Sleep(10 * time.Second)
			s := limited(core.PerMinute(100).Using(core.FixedWindow), w.write)
			sent := spend(t, s, &client.Transport{MaxWait: time.Hour}, 100)
			expect.AtMost(t, sent[79], 0, "80 requests (them at once)")
			for i, at := range sent[80:] {
				if from := time.Duration(i) * 2380 * time.Millisecond; at < from || at > from+4*time.Second {
					t.Errorf("request %d is sent at %v, want %v: 20 in 50s", 81+i, at, from)
				}
			}
		}))
	}
}

// TestNoPace checks that with NoPace all requests of a window are sent at once.
func TestNoPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(core.PerMinute(100).Using(core.FixedWindow), headers.GitHub)
		sent := spend(t, s, &client.Transport{NoPace: true, MaxWait: time.Hour}, 101)
		expect.True(t, sent[99] <= 0 && sent[100] >= time.Minute,
			"request 100 is sent at %v and 101 at %v, want 0 and after the window", sent[99], sent[100])
	})
}

// TestNoPaceForABucket checks that requests are not paced if Reset moves, and that one request is sent at a time after Remaining 0.
func TestNoPaceForABucket(t *testing.T) {
	for _, w := range writers {
		t.Run(w.name, inBubble(func(t *testing.T) {
			sent := spend(t, limited(core.PerMinute(100), w.write), &client.Transport{MaxWait: time.Hour}, 150)
			expect.AtMost(t, sent[99], 0, "100 requests (them at once)")
			if took := sent[149]; took < 30*time.Second || took > 33*time.Second {
				t.Errorf("50 more took %v, want the 30s in which they come back", took)
			}
		}))
	}
}

// TestLateTurnFailsAtOnce checks that a call that is too far behind in a paced window fails at once.
func TestLateTurnFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := limited(core.PerHour(100).Using(core.FixedWindow), headers.GitHub) // one in 3m at the end
		c := s.over(&client.Transport{MaxWait: 10 * time.Minute})
		var all sync.WaitGroup
		var served, failed atomic.Int32
		for range 100 {
			all.Go(func() {
				resp, err := c.Get("http://api.example/")
				if err != nil {
					failed.Add(1)
					e := limitedBy(t, err)
					expect.True(t, e.Status == 200 && e.Policy == "default", "%+v, want what the last 200 announced", e)
					return
				}
				resp.Body.Close()
				served.Add(1)
			})
		}
		synctest.Wait()
		if s, f := served.Load(), failed.Load(); s < 80 || s > 81 || f < 15 || f > 17 {
			t.Errorf("of requests sent at once, %d are served and %d fail; want 80 served, and only three or four failures in 10 minutes", s, f)
		}
		all.Wait()
		if s, f := served.Load(), failed.Load(); s+f != 100 || s < 83 {
			t.Errorf("%d are served, %d fail", s, f)
		}
	})
}

// TestRetryAfterInAPacedWindow checks that the first request of the last fifth of a window is sent at once, and that
// after a denial the next request is sent at Retry-After, not when the next window begins.
func TestRetryAfterInAPacedWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := []string{"10", "5", "4"}
		renewed := epoch(start2000.Add(time.Minute))
		s := serve(func(w http.ResponseWriter, _ *http.Request) {
			switch {
			case len(left) > 0:
				write(w, 200, gitHub("100", left[0], renewed, "")...)
				left = left[1:]
			case time.Since(start2000) < 15*time.Second:
				write(w, 429, append(gitHub("100", "0", renewed, ""), "Retry-After", "5")...)
			default:
				write(w, 200, gitHub("100", "50", renewed, "")...)
			}
		})
		c := s.over(&client.Transport{})
		for range 4 {
			get(t, c, "/")
		}
		sent := s.requests(start2000)
		expect.True(t, len(sent) == 5 && sent[2] == 0 && sent[3] == 12*time.Second && sent[4] >= 17*time.Second && sent[4] <= 18*time.Second,
			"sent at %v, want three at once, one five intervals later, and one 5s after its denial", sent)
	})
}
