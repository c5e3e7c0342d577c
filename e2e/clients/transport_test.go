package clients

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-github/v89/github"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
	"golang.org/x/oauth2"
)

const (
	requests   = 120
	goroutines = 20
)

var limit = core.Every(100, 5*time.Second)

// least is how long the requests take if the whole limit is used.
const least = (requests - 100) * 5 * time.Second / 100

// TestAllSucceed sends requests from 20 goroutines to each adapter: all succeed, none gets 429. Package client checks in bubbles that they
// use the whole limit.
func TestAllSucceed(t *testing.T) {
	var all sync.WaitGroup // goroutines call t.Run, because parallel tests are limited by the number of processors
	defer all.Wait()
	for _, framework := range apps.Frameworks {
		for _, w := range []struct {
			name  string
			write headers.Writer
		}{{"GitHub", headers.GitHub}, {"IETF", headers.IETF}} {
			for _, c := range clients {
				all.Go(func() {
					t.Run(framework.Name+", "+w.name+", "+c.name, func(t *testing.T) {
						s, denied := limited(t, framework, w.write)
						begun := time.Now()
						sendAll(t, c.build(t, s))
						if took, n := time.Since(begun), denied.Load(); n > 0 || took < least {
							t.Errorf("%d requests were denied in %v, want none in %v at least", n, took, least)
						}
					})
				})
			}
		}
	}
}

// clients send one request over a Transport, and say whether it succeeded.
var clients = []struct {
	name  string
	build func(*testing.T, *wire.Server) func() error
}{
	{"http.Client", func(t *testing.T, s *wire.Server) func() error {
		c := &http.Client{Transport: &client.Transport{Base: s.Client().Transport}}
		return func() error {
			resp, err := c.Get(s.URL)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}
	}},
	{"go-github", func(t *testing.T, s *wire.Server) func() error {
		c := must.Get(github.NewClient(github.WithTransport(&client.Transport{Base: s.Client().Transport}), github.WithDisableRateLimitCheck()))(t)
		return func() error { return visit(t, c, s.URL) }
	}},
}

// limited serves a limited application, and counts what it denies.
func limited(t *testing.T, f apps.Framework, w headers.Writer) (*wire.Server, *atomic.Int32) {
	limiter := core.Must(core.New([]core.Rule{limit.By(wire.Anyone)}))
	app := f.Build(apps.One(apps.Guard{Limiter: limiter, Headers: w}, wire.OK))
	denied := new(atomic.Int32)
	s := wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { app.ServeHTTP(&counting{w, denied}, r) }), false)
	return s, denied
}

type counting struct {
	http.ResponseWriter
	denied *atomic.Int32
}

func (w *counting) WriteHeader(status int) {
	if status != http.StatusOK {
		w.denied.Add(1)
	}
	w.ResponseWriter.WriteHeader(status)
}

func sendAll(t *testing.T, send func() error) {
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range requests / goroutines {
				expect.NoError(t, send(), "send")
			}
		})
	}
	all.Wait()
}

// TestGitHubDeniesWithoutTheOption checks that the recipe of go-github needs WithDisableRateLimitCheck: without it,
// go-github returns an error where the Transport would wait.
func TestGitHubDeniesWithoutTheOption(t *testing.T) {
	t.Parallel()
	s, sent := oneRequest(t, time.Now().Add(time.Hour))
	c := must.Get(github.NewClient(github.WithTransport(&client.Transport{Base: s.Client().Transport})))(t)
	must.Do(t, visit(t, c, s.URL))
	var own *github.RateLimitError
	if err := visit(t, c, s.URL); !errors.As(err, &own) || sent.Load() != 1 {
		t.Errorf("%v after %d requests, want the error of go-github, and nothing sent", err, sent.Load())
	}
}

// TestGitHubWaits checks that the same request waits and succeeds with the recipe.
func TestGitHubWaits(t *testing.T) {
	t.Parallel()
	reset := time.Now().Add(2 * time.Second).Truncate(time.Second)
	s, sent := oneRequest(t, reset)
	c := must.Get(gitHub())(t)
	for range 2 {
		must.Do(t, visit(t, c, s.URL))
	}
	expect.True(t, sent.Load() == 2 && !time.Now().Before(reset),
		"%d requests, %v before Reset, want 2, the second after it", sent.Load(), time.Until(reset))
}

// oneRequest returns a server that always reports that nothing remains until reset, and counts its requests.
func oneRequest(t *testing.T, reset time.Time) (*wire.Server, *atomic.Int32) {
	sent := new(atomic.Int32)
	s := wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.Header().Set("X-RateLimit-Limit", "60")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	}), false)
	return s, sent
}

func visit(t *testing.T, c *github.Client, url string) error {
	r := must.Get(c.NewRequest(t.Context(), "GET", url+"/", nil))(t)
	return expect.ErrorOf(c.Do(r, nil))
}

// TestDenialsAreFinal checks that retryablehttp does not retry after the Transport has returned a denial or a LimitedError.
func TestDenialsAreFinal(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	s := wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}), false)
	c := retrying()
	c.Logger, c.RetryWaitMin, c.RetryWaitMax = nil, time.Millisecond, time.Millisecond
	attempts := 0
	c.RequestLogHook = func(retryablehttp.Logger, *http.Request, int) { attempts++ }
	if got, err := status(c.Get(s.URL)); err != nil || got != http.StatusTooManyRequests || attempts != 1 {
		t.Errorf("status %d, %v after %d attempts, want the denial after one", got, err, attempts)
	}
	_, err := status(c.Get(s.URL))
	var limited *client.LimitedError
	expect.True(t, errors.As(err, &limited) && attempts == 2 && sent.Load() == 1,
		"%v after %d attempts and %d requests, want a LimitedError after one more attempt, and nothing sent", err, attempts, sent.Load())
}

// TestRenewedTokenKeepsTheLimits checks that the client of the oauth2 recipe knows the same limits after its token has changed.
func TestRenewedTokenKeepsTheLimits(t *testing.T) {
	t.Parallel()
	s, sent := oneRequest(t, time.Now().Add(time.Hour))
	c := authorized(context.Background(), new(renewing))
	must.Equal(t, must.Get(status(c.Get(s.URL)))(t), http.StatusOK, "status")
	_, err := status(c.Get(s.URL))
	var limited *client.LimitedError
	expect.True(t, errors.As(err, &limited) && sent.Load() == 1,
		"%v after %d requests, want a LimitedError, and nothing sent", err, sent.Load())
}

// renewing is a token source whose tokens expire at once, so that each request gets a new token.
type renewing int

func (r *renewing) Token() (*oauth2.Token, error) {
	*r++
	return &oauth2.Token{AccessToken: strconv.Itoa(int(*r)), Expiry: time.Now()}, nil
}
