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

// A watched body counts the bytes that are read. If hang is not 0, it hangs after hang bytes until it is closed.
type watched struct {
	size, hang, read int
	closed           chan bool
	closes           int
}

func (b *watched) Read(p []byte) (int, error) {
	if b.hang > 0 && b.read >= b.hang {
		<-b.closed
		return 0, io.ErrClosedPipe
	}
	n := min(len(p), b.size-b.read)
	if b.hang > 0 {
		n = min(n, b.hang-b.read)
	}
	b.read += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *watched) Close() error {
	if b.closes++; b.closes == 1 {
		close(b.closed)
	}
	return nil
}

// inTurn is a Base that returns these responses one after the other.
func inTurn(responses ...*http.Response) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		next := responses[0]
		responses = responses[1:]
		return next, nil
	}
}

// denial returns a 429 to be sent again after so many seconds.
func denial(seconds string, body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {seconds}}, Body: body}
}

// TestBodiesOfDenials checks that the client reads at most 64 KB of a denial's body and closes it, which frees the connection
// before the wait, and that a body that does not arrive does not delay the request.
func TestBodiesOfDenials(t *testing.T) {
	for _, row := range []struct{ size, hang, read int }{
		{0, 0, 0}, {1000, 0, 1000}, {64 << 10, 0, 64 << 10}, {1 << 20, 0, 64 << 10}, {1000, 1, 1}, {1 << 20, 70 << 10, 64 << 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			body := &watched{size: row.size, hang: row.hang, closed: make(chan bool)}
			c := &http.Client{Transport: &client.Transport{Base: inTurn(denial("5", body), &http.Response{StatusCode: 200, Body: http.NoBody})}}
			var all sync.WaitGroup
			all.Go(func() { expect.Equal(t, get(t, c, "/"), 200, "%+v: status", row) })
			synctest.Wait()
			expect.True(t, body.read == row.read && (body.closes == 1 || row.size != 1000 || row.hang > 0),
				"%+v: %d bytes were read, closed %d times, while the request waits", row, body.read, body.closes)
			all.Wait()
			expect.True(t, body.read == row.read && body.closes != 0,
				"%+v: %d bytes were read, closed %d times", row, body.read, body.closes)
			took := time.Since(start2000)
			expect.True(t, took >= 5*time.Second && took <= 6500*time.Millisecond, "%+v: took %v, want 5s", row, took)
		})
	}
}

// TestRequestBodyIsClosed checks that the body of a request that is not sent is closed, as RoundTripper requires.
func TestRequestBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := usedUp(time.Hour)
		tr := &client.Transport{Base: s}
		resp := must.Get(tr.RoundTrip(request(t, "http://api.example/")))(t)
		resp.Body.Close()
		body := &watched{size: 10, closed: make(chan bool)}
		r := request(t, "http://api.example/")
		r.Body = body
		if _, err := tr.RoundTrip(r); err == nil || body.closes != 1 || body.read != 0 {
			t.Errorf("%v, closed %d times, %d bytes read", err, body.closes, body.read)
		}
	})
}

func request(t testing.TB, url string) *http.Request {
	t.Helper()
	return must.Get(http.NewRequest("GET", url, nil))(t)
}

// TestUnusedBodyIsClosed checks that the body prepared for a retry is closed if there is no retry.
func TestUnusedBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, _ *http.Request) { write(w, 429, "Retry-After", "90") })
		again := &watched{size: 5, closed: make(chan bool)}
		r, _ := http.NewRequest("POST", "http://api.example/", strings.NewReader("cargo"))
		r.GetBody = func() (io.ReadCloser, error) { return again, nil }
		resp, err := (&client.Transport{Base: s}).RoundTrip(r)
		expect.True(t, err == nil && resp.StatusCode == 429 && again.closes == 1,
			"%v, %v, the body was closed %d times, want once", resp, err, again.closes)
	})
}

// TestGetBodyFails checks that the denial is returned if GetBody fails.
func TestGetBodyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(func(w http.ResponseWriter, _ *http.Request) { write(w, 429, "Retry-After", "1") })
		r, _ := http.NewRequest("POST", "http://api.example/", strings.NewReader("cargo"))
		r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
		resp, err := (&client.Transport{Base: s}).RoundTrip(r)
		expect.True(t, err == nil && resp.StatusCode == 429 && len(s.requests(start2000)) == 1,
			"%v, %v after %d requests, want the denial of the first", resp, err, len(s.requests(start2000)))
	})
}

// TestNilBody checks a denial without a body, which a Base in a test may return.
func TestNilBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Base: inTurn(denial("1", nil), &http.Response{StatusCode: 200, Body: http.NoBody})}
		expect.Equal(t, must.Get(tr.RoundTrip(request(t, "http://api.example/")))(t).StatusCode, 200, "result")
	})
}

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
			expect.Equal(t, r.Header.Get("Upgrade"), "websocket", "header %v", r.Header)
			return &http.Response{StatusCode: 101, Body: body}, nil
		})
		r := request(t, "http://api.example/")
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		resp, err := (&client.Transport{Base: base}).RoundTrip(r)
		expect.True(t, err == nil && resp.StatusCode == 101 && resp.Body == body && n == 2,
			"%+v, %v after %d requests, want the connection after 2", resp, err, n)
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
		expect.True(t, errors.Is(err, context.Canceled) && body.closes != 0,
			"%v, closed %d times, want the context's error and a closed body", err, body.closes)
	})
}
