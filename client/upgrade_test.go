package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// A connection is the body of a 101 response. It can be written to.
type connection struct{ watched }

func (*connection) Write(p []byte) (int, error) { return len(p), nil }

// TestDeniedUpgrade checks that a denied upgrade is sent again like any other request, and that the caller gets the
// connection unchanged.
func TestDeniedUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &connection{}
		n := 0
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"5"}}, Body: http.NoBody}, nil
			}
			if r.Header.Get("Upgrade") != "websocket" {
				t.Errorf("header %v", r.Header)
			}
			return &http.Response{StatusCode: 101, Body: body}, nil
		})
		r := request(t, "http://api.example/")
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		resp, err := (&client.Transport{Base: base}).RoundTrip(r)
		if err != nil || resp.StatusCode != 101 || resp.Body != body || n != 2 {
			t.Errorf("%+v, %v after %d requests, want the connection after 2", resp, err, n)
		}
	})
}

// TestCanceledAfterADenial checks that the body of a denial is closed if the context ends during the wait for the retry.
func TestCanceledAfterADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &watched{size: 1 << 20, closed: make(chan bool)}
		tr := &client.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"5"}}, Body: body}, nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := tr.RoundTrip(request(t, "http://api.example/").WithContext(ctx))
		if !errors.Is(err, context.Canceled) || body.closes == 0 {
			t.Errorf("%v, closed %d times, want the context's error and a closed body", err, body.closes)
		}
	})
}
