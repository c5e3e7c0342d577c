package client_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
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

// TestBodiesOfDenials checks that the client reads at most 64 KB of a denial's body before it closes it, and that a body that
// does not arrive does not delay the request.
func TestBodiesOfDenials(t *testing.T) {
	for _, row := range []struct{ size, hang, read int }{
		{0, 0, 0}, {1000, 0, 1000}, {64 << 10, 0, 64 << 10}, {1 << 20, 0, 64 << 10}, {1000, 1, 1}, {1 << 20, 70 << 10, 64 << 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			body := &watched{size: row.size, hang: row.hang, closed: make(chan bool)}
			n := 0
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				if n++; n > 1 {
					return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
				}
				return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"5"}}, Body: body}, nil
			})
			if status := get(t, &http.Client{Transport: &client.Transport{Base: base}}, "/"); status != 200 {
				t.Errorf("%+v: status %d", row, status)
			}
			if body.read != row.read || body.closes == 0 {
				t.Errorf("%+v: %d bytes were read, closed %d times", row, body.read, body.closes)
			}
			if took := time.Since(start2000); took < 5*time.Second || took > 6500*time.Millisecond {
				t.Errorf("%+v: took %v, want 5s", row, took)
			}
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
