package client_test

import (
	"context"
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
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// A watched body counts the bytes that are read. If hang is not 0, it hangs after hang bytes until it is closed.
type watched struct {
	size, hang   int
	closed       chan bool
	read, closes atomic.Int64
}

func (b *watched) Read(p []byte) (int, error) {
	read := int(b.read.Load())
	if b.hang > 0 && read >= b.hang {
		<-b.closed
		return 0, io.ErrClosedPipe
	}
	n := min(len(p), b.size-read)
	if b.hang > 0 {
		n = min(n, b.hang-read)
	}
	b.read.Add(int64(n))
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (b *watched) Close() error {
	if b.closes.Add(1) == 1 {
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
			expect.True(t, int(body.read.Load()) == row.read && (body.closes.Load() == 1 || row.size != 1000 || row.hang > 0),
				"%+v: %d bytes were read, closed %d times, while the request waits", row, body.read.Load(), body.closes.Load())
			all.Wait()
			expect.True(t, int(body.read.Load()) == row.read && body.closes.Load() != 0,
				"%+v: %d bytes were read, closed %d times", row, body.read.Load(), body.closes.Load())
			took := time.Since(start2000)
			expect.True(t, took >= 5*time.Second && took <= 6500*time.Millisecond, "%+v: took %v, want 5s", row, took)
		})
	}
}

// TestRequestBodyIsClosed checks that the body of a request that is not sent is closed, as RoundTripper requires.
func TestRequestBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Base: usedUp(time.Hour)}
		must.Get(tr.RoundTrip(request(t, "http://api.example/")))(t).Body.Close()
		body := &watched{size: 10, closed: make(chan bool)}
		r := request(t, "http://api.example/")
		r.Body = body
		if _, err := tr.RoundTrip(r); err == nil || body.closes.Load() != 1 || body.read.Load() != 0 {
			t.Errorf("%v, closed %d times, %d bytes read", err, body.closes.Load(), body.read.Load())
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
		expect.True(t, err == nil && resp.StatusCode == 429 && again.closes.Load() == 1,
			"%v, %v, the body was closed %d times, want once", resp, err, again.closes.Load())
	})
}

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

// TestDeniedUpgrade checks that a denied upgrade is sent again like any other request, and that the caller gets the connection unchanged.
func TestDeniedUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &connection{}
		n := 0
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			if n++; n == 1 {
				return denial("5", http.NoBody), nil
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
		tr := &client.Transport{Base: inTurn(denial("5", body))}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := tr.RoundTrip(request(t, "http://api.example/").WithContext(ctx))
		expect.True(t, errors.Is(err, context.Canceled) && body.closes.Load() != 0,
			"%v, closed %d times, want the context's error and a closed body", err, body.closes.Load())
	})
}

// A script returns its responses one after the other, repeats the last one, and records the requests.
type script struct {
	responses    []response
	bodies, keys []string
}

type response struct {
	status int
	fields []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.bodies = append(s.bodies, string(body))
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	next := s.responses[min(len(s.bodies), len(s.responses))-1]
	write(w, next.status, next.fields...)
}

// TestDenialsThatAreRetried checks after which denials a request is sent again, with the same body and key.
func TestDenialsThatAreRetried(t *testing.T) {
	upTo := strings.NewReader
	retry := []string{"Retry-After", "2"}
	for _, row := range []struct {
		name, method string
		body         io.Reader
		denial       response
		again        bool
	}{
		{"GET", "GET", nil, response{429, retry}, true},
		{"POST without a body", "POST", nil, response{429, retry}, true},
		{"POST with http.NoBody", "POST", http.NoBody, response{429, retry}, true},
		{"POST with GetBody", "POST", upTo("cargo"), response{429, retry}, true},
		{"POST with a body that cannot be read again", "POST", io.MultiReader(upTo("cargo")), response{429, retry}, false},
		{"GET with a body that cannot be read again", "GET", io.MultiReader(upTo("cargo")), response{429, retry}, false},
		{"429 without a wait", "PATCH", upTo("cargo"), response{429, nil}, true},
		{"403 with Retry-After", "POST", upTo("cargo"), response{403, retry}, true},
		{"403 with Remaining 0", "POST", upTo("cargo"), response{403, gitHub("60", "0", "2", "core")}, true},
		{"403 with Remaining", "POST", upTo("cargo"), response{403, gitHub("60", "1", "2", "core")}, false},
		{"403 without a wait", "GET", nil, response{403, nil}, false},
		{"503 with Retry-After, GET", "GET", nil, response{503, retry}, true},
		{"503 with Retry-After, PUT", "PUT", upTo("cargo"), response{503, retry}, true},
		{"503 with Retry-After, HEAD", "HEAD", nil, response{503, retry}, true},
		{"503 with Retry-After, DELETE", "DELETE", nil, response{503, retry}, true},
		{"503 with Retry-After, OPTIONS", "OPTIONS", nil, response{503, retry}, true},
		{"503 with Retry-After, TRACE", "TRACE", nil, response{503, retry}, true},
		{"503 with Retry-After, POST", "POST", upTo("cargo"), response{503, retry}, false},
		{"503 with Retry-After, PATCH", "PATCH", upTo("cargo"), response{503, retry}, false},
		{"503 without a wait", "GET", nil, response{503, nil}, false},
		{"500 with Retry-After", "GET", nil, response{500, retry}, false},
		{"502", "GET", nil, response{502, nil}, false},
		{"413 with Retry-After", "GET", nil, response{413, retry}, false},
		{"200 with Retry-After", "GET", nil, response{200, retry}, false},
		{"202 with Retry-After", "GET", nil, response{202, retry}, false},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			s := &script{responses: []response{row.denial, {200, nil}}}
			c := (&server{handler: s}).over(&client.Transport{})
			r, _ := http.NewRequest(row.method, "http://api.example/", row.body)
			r.Header.Set("Idempotency-Key", "k1")
			resp := must.Get(c.Do(r))(t)
			resp.Body.Close()
			want := map[bool]int{true: 200, false: row.denial.status}[row.again]
			must.True(t, resp.StatusCode == want && len(s.bodies) != 1 == row.again,
				"status %d after %d requests, want %d", resp.StatusCode, len(s.bodies), want)
			last := len(s.bodies) - 1
			expect.True(t, s.bodies[last] == s.bodies[0] && s.keys[last] == "k1" && (row.body != nil && row.body != http.NoBody) == (s.bodies[0] == "cargo"),
				"bodies %q, keys %q", s.bodies, s.keys)
		}))
	}
}

// TestErrorsAreNotRetried checks that an error of Base is returned unchanged, and that the next call is sent.
func TestErrorsAreNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := errors.New("connection reset")
		n := 0
		c := &http.Client{Transport: &client.Transport{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
			n++
			return nil, reset
		})}}
		for i := range 5 {
			_, err := c.Get("http://api.example/")
			must.True(t, errors.Is(err, reset) && n == i+1, "%v after %d requests", err, n)
		}
		expect.AtMost(t, time.Since(start2000), 0, "time.Since(start2000)")
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestA503PausesTheKey checks that after a 503 with Retry-After the other requests of the key wait, and requests of other keys do not.
func TestA503PausesTheKey(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		synctest.Test(t, func(t *testing.T) {
			c := (&server{handler: &script{responses: []response{{503, []string{"Retry-After", "30"}}, {200, nil}}}}).over(&client.Transport{})
			var mu sync.Mutex
			took := map[string]time.Duration{}
			var all sync.WaitGroup
			all.Go(func() {
				r, _ := http.NewRequest(method, "http://api.example/a", nil)
				if resp, err := c.Do(r); err == nil {
					resp.Body.Close()
				}
			})
			synctest.Wait()
			for _, url := range []string{"http://api.example/b/c", "http://other.example/", "https://api.example/"} {
				all.Go(func() {
					resp, err := c.Get(url)
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
					mu.Lock()
					defer mu.Unlock()
					took[url] = time.Since(start2000)
				})
				synctest.Wait()
			}
			all.Wait()
			expect.True(t, took["http://other.example/"] <= 0 && took["https://api.example/"] <= 0 && took["http://api.example/b/c"] >= 30*time.Second,
				"%s: %v", method, took)
		})
	}
}

// TestRetryAfterInThePast checks that pauses grow after denials whose instant is not in the future.
func TestRetryAfterInThePast(t *testing.T) {
	for _, row := range []struct {
		name   string
		status int
		fields []string
	}{
		{"nothing", 429, nil},
		{"Retry-After 0", 429, []string{"Retry-After", "0"}},
		{"a negative Retry-After", 429, []string{"Retry-After", "-7"}},
		{"a date that is past", 429, []string{"Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"}},
		{"garbage", 429, []string{"Retry-After", "soon", "X-RateLimit-Remaining", "NaN", "RateLimit", `"a;r=0`}},
		{"a Reset that is past", 403, gitHub("60", "0", "946684000", "core")},
		{"a wait after which the request is denied again", 429, []string{"Retry-After", "1"}},
		{"503", 503, []string{"Retry-After", "0"}},
		{"in flight", 429, []string{"Retry-After", "1", "RateLimit", `"a";r=0`, "RateLimit-Policy", `"a";q=1;qu="concurrent-requests"`}},
	} {
		t.Run(row.name, inBubble(func(t *testing.T) {
			s := serve(func(w http.ResponseWriter, r *http.Request) { write(w, row.status, row.fields...) })
			expect.Equal(t, get(t, s.over(&client.Transport{MaxWait: 20 * time.Minute}), "/"), row.status, "status")
			sent := s.requests(start2000)
			for i := 2; i < len(sent)-1; i++ {
				before, after := sent[i]-sent[i-1], sent[i+1]-sent[i]
				if after < before*3/2 && after < time.Minute || after > 65*time.Second {
					t.Errorf("request %d came %v after the one before, %d only %v", i, before, i+1, after)
				}
			}
			expect.True(t, len(sent) >= 20 && len(sent) <= 30, "%d requests in 20 minutes: %v", len(sent), sent)
		}))
	}
}

// TestDenialsThatAreNotConsecutive checks that pauses do not grow if a request is admitted after each denial, although the
// responses say that nothing remains.
func TestDenialsThatAreNotConsecutive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := serve(func(w http.ResponseWriter, _ *http.Request) {
			n++
			write(w, []int{200, 429}[n%2], append(gitHub("60", "0", "2", "core"), "Retry-After", "2")...)
		})
		for c := s.over(&client.Transport{}); n < 20; {
			get(t, c, "/")
		}
		expect.AtMost(t, time.Since(start2000), 19*2200*time.Millisecond, "20 requests, 2 seconds and the jitter apart, took")
	})
}
