package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spillgate/spillgate/client"
)

// TestUnusedBodyIsClosed checks that the body prepared for a retry is closed if there is no retry.
func TestUnusedBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, _ *http.Request) { write(w, 429, "Retry-After", "90") })
		again := &watched{size: 5, closed: make(chan bool)}
		r, _ := http.NewRequest("POST", "http://api.example/", strings.NewReader("cargo"))
		r.GetBody = func() (io.ReadCloser, error) { return again, nil }
		resp, err := (&client.Transport{Base: s}).RoundTrip(r)
		if err != nil || resp.StatusCode != 429 || again.closes != 1 {
			t.Errorf("%v, %v, the body was closed %d times, want once", resp, err, again.closes)
		}
	})
}

// TestGetBodyFails checks that the denial is returned if GetBody fails.
func TestGetBodyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, _ *http.Request) { write(w, 429, "Retry-After", "1") })
		r, _ := http.NewRequest("POST", "http://api.example/", strings.NewReader("cargo"))
		r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		resp, err := (&client.Transport{Base: s}).RoundTrip(r)
		if err != nil || resp.StatusCode != 429 || len(s.requests(start2000)) != 1 {
			t.Errorf("%v, %v after %d requests, want the denial of the first", resp, err, len(s.requests(start2000)))
		}
	})
}

// TestNilBody checks a denial without a body, which a Base in a test may return.
func TestNilBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		tr := &client.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"1"}}}, nil
			}
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})}
		if resp, err := tr.RoundTrip(request(t, "http://api.example/")); err != nil || resp.StatusCode != 200 {
			t.Errorf("%v, %v", resp, err)
		}
	})
}
