package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/must"
	"github.com/spillgate/spillgate/keyfunc"
	"github.com/spillgate/spillgate/middleware/stdlib"
)

// A server is an http.RoundTripper that serves requests from memory and records them.
type server struct {
	handler http.Handler
	skew    time.Duration        // how far its clock is ahead
	noDate  bool                 // it has no clock
	latency func() time.Duration // of each way; nil: none

	mu       sync.Mutex
	sent     []time.Time // when each request was sent
	statuses []int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.sent = append(s.sent, time.Now())
	s.mu.Unlock()
	if r.Body != nil {
		defer r.Body.Close()
	}
	if err := s.delay(r); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	in.RemoteAddr = "203.0.113.9:1234"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	if !s.noDate {
		w.Header().Set("Date", time.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	}
	s.handler.ServeHTTP(w, in)
	s.mu.Lock()
	s.statuses = append(s.statuses, w.Code)
	s.mu.Unlock()
	if err := s.delay(r); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func (s *server) delay(r *http.Request) error {
	if s.latency == nil {
		return r.Context().Err()
	}
	select {
	case <-time.After(s.latency()):
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// count returns how many responses had each status.
func (s *server) count() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := map[int]int{}
	for _, status := range s.statuses {
		n[status]++
	}
	return n
}

// requests returns when each request was sent, since start.
func (s *server) requests(start time.Time) (at []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.sent {
		at = append(at, t.Sub(start))
	}
	return at
}

// over returns a client of s through t, whose Base it sets.
func (s *server) over(t *client.Transport) *http.Client {
	t.Base = s
	return &http.Client{Transport: t}
}

func serve(h http.HandlerFunc) *server { return &server{handler: h} }

// get sends a GET request, closes the response and returns its status.
func get(t testing.TB, c *http.Client, path string) int {
	t.Helper()
	resp := must.Get(c.Get("http://api.example" + path))(t)
	resp.Body.Close()
	return resp.StatusCode
}

func inBubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func limited(l core.Limit, w headers.Writer) *server {
	limiter := core.Must(core.New([]core.Rule{l.By(keyfunc.Const("all"))}))
	return &server{handler: stdlib.New(limiter, stdlib.WithHeaders(w))(http.HandlerFunc(ok))}
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

// latencies are the times that a request takes in each direction. With random times, responses overtake each other.
var latencies = []struct {
	name    string
	latency func() time.Duration
	used    bool // this leaves enough time to use the limit
}{
	{"none", nil, true},
	{"random", func() time.Duration { return rand.N(200 * time.Millisecond) }, true},
	{"slow", func() time.Duration { return rand.N(4 * time.Second) }, false},
}

// TestNoRequestIsDenied drives 200 goroutines against 100 per minute for three minutes: none is denied, and at least 95%
// of what the limit admits is used.
func TestNoRequestIsDenied(t *testing.T) {
	for _, row := range []struct {
		name   string
		limit  core.Limit
		admits int // in three minutes
	}{
		{"bucket", core.PerMinute(100), 400},
		{"window", core.PerMinute(100).Using(core.FixedWindow), 300},
	} {
		for _, w := range writers {
			for _, l := range latencies {
				t.Run(fmt.Sprintf("%s, %s, latency %s", row.name, w.name, l.name), inBubble(func(t *testing.T) {
					s := limited(row.limit, w.write)
					s.latency = l.latency
					drive(t, s, 200, 3*time.Minute, oneUser)
					count := s.count()
					if count[429] > 0 || l.used && 100*count[200] < 95*row.admits {
						t.Errorf("statuses %v, want 95%% of %d admitted and none denied", count, row.admits)
					}
				}))
			}
		}
	}
}

// writers write the default fields, and the fields of the IETF draft, also with a line of a server behind that uses the same name.
var writers = []struct {
	name  string
	write headers.Writer
}{
	{"GitHub", headers.GitHub},
	{"IETF", headers.IETF},
	{"IETF, two servers", func(h http.Header, d core.Decision) {
		headers.IETF(h, d)
		h.Add("RateLimit", `"default";r=900;t=3000`)
		h.Add("RateLimit-Policy", `"default";q=1000;w=3600`)
	}},
}

func oneUser(int, int) string { return "/users/1" }

// drive sends requests from n goroutines for d, as fast as the transport allows: request i of goroutine g for the path of both.
func drive(t *testing.T, s *server, n int, d time.Duration, path func(g, i int) string) {
	c := s.over(&client.Transport{MaxWait: time.Hour})
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, nil)
	defer cancel()
	var all sync.WaitGroup
	for g := range n {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r, _ := http.NewRequestWithContext(ctx, "GET", "http://api.example"+path(g, i), nil)
				if resp, err := c.Do(r); err == nil {
					resp.Body.Close()
				} else if ctx.Err() == nil {
					<-ctx.Done() // too late in any case
				}
			}
		})
	}
	all.Wait()
}
