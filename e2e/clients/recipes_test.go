package clients

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"golang.org/x/oauth2"
)

// TestRecipes runs the examples of docs/recipes.md against a server that denies the first request with a wait of one
// second. Each example retries its request once, body included, and succeeds.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		send func(t *testing.T, url string) (status int, err error)
	}{
		{"net/http", func(_ *testing.T, url string) (int, error) { return status(get(obeying(), url)) }},
		{"go-github", func(t *testing.T, url string) (int, error) {
			return http.StatusOK, visit(t, must.Get(gitHub())(t), url)
		}},
		{"retryablehttp", func(_ *testing.T, url string) (int, error) {
			c := retrying()
			c.Logger, c.RetryMax = nil, 0 // so that only the Transport retries
			return status(c.Post(url, "text/plain", strings.NewReader("cargo")))
		}},
		{"resty", func(_ *testing.T, url string) (int, error) {
			resp, err := restful().R().SetBody(map[string]string{"a": "b"}).Post(url)
			return resp.StatusCode(), err
		}},
		{"oauth2", func(_ *testing.T, url string) (int, error) {
			c := authorized(context.Background(), oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"}))
			return status(c.Post(url, "text/plain", strings.NewReader("cargo")))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var bodies []string
			s := wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, r.Method+" "+string(body)+r.Header.Get("Authorization"))
				if len(bodies) == 1 {
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}), false)
			start := time.Now()
			got, err := row.send(t, s.URL)
			expect.True(t, err == nil && got == http.StatusOK && time.Since(start) >= time.Second,
				"status %d after %v: %v", got, time.Since(start), err)
			expect.True(t, len(bodies) == 2 && bodies[0] == bodies[1], "the server saw %q, want the same twice", bodies)
		})
	}
}

func status(resp *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// TestRetryable checks that go-retryablehttp, with its default options, waits for Retry-After and succeeds at its first retry.
func TestRetryable(t *testing.T) {
	atOnce(t, func(t *testing.T, s *wire.Server, served <-chan bool) {
		var sent atomic.Int32
		c := retryablehttp.NewClient()
		c.HTTPClient = s.Client()
		c.Logger = nil
		c.RequestLogHook = func(retryablehttp.Logger, *http.Request, int) { sent.Add(1) }
		for i, want := range []int32{1, 1, 2} {
			start := time.Now()
			sent.Store(0)
			resp, err := c.Get(s.URL)
			must.Do(t, err)
			resp.Body.Close()
			expect.True(t, resp.StatusCode == http.StatusOK && sent.Load() == want,
				"call %d: status %d after %d requests, want 200 after %d", i+1, resp.StatusCode, sent.Load(), want)
			if took := time.Since(start); want == 2 && took < time.Second {
				t.Errorf("call %d: retried after %v, which is sooner than Retry-After can say", i+1, took)
			}
		}
		expect.Equal(t, len(served), 3, "how often the handler ran")
	})
}

// TestOctokit checks that Octokit's throttling plugin treats a denial as a primary rate limit, waits until Reset and
// succeeds at its first retry.
func TestOctokit(t *testing.T) {
	dir := wire.Node(t, filepath.Join("testdata", "octokit"))
	atOnce(t, func(t *testing.T, s *wire.Server, _ <-chan bool) {
		checkOctokit(t, wire.Decode[event](t, must.Get(wire.Run(t, dir, nil, "node", "drive.mjs", s.URL, "3"))(t)))
	})
}

type event struct {
	Event      string
	Status     int
	Remaining  string
	RetryAfter float64
	RetryCount int
	Message    string
}

// checkOctokit allows for the plugin's extra second after Reset, and for the rounding of Reset.
func checkOctokit(t *testing.T, got []event) {
	var limited, passed int
	for _, e := range got {
		switch {
		case e.Event == "rate limit" && e.RetryCount == 0 && e.RetryAfter >= 1 && e.RetryAfter <= period.Seconds()+2:
			limited++
		case e.Event == "response" && e.Status == 200:
			passed++
		default:
			t.Errorf("event %+v", e)
		}
	}
	expect.True(t, limited == 1 && passed == 3,
		"rate limited %d times, %d passed; want 3 to pass, the last after one retry: %+v", limited, passed, got)
}
