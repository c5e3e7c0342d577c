package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/internal/must"
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

// serve is a server with a handler.
func serve(h http.HandlerFunc) *server { return &server{handler: h} }

// get sends a GET request, closes the response and returns its status.
func get(t testing.TB, c *http.Client, path string) int {
	t.Helper()
	resp := must.Get(c.Get("http://api.example" + path))(t)
	resp.Body.Close()
	return resp.StatusCode
}
