package clients

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/headers"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

const (
	requests   = 120
	goroutines = 20
)

// limit admits 100 at once and 20 each second.
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
		base := s.URL + "/"
		c, err := github.NewClient(
			github.WithTransport(&client.Transport{Base: s.Client().Transport}),
			github.WithDisableRateLimitCheck(),
			github.WithURLs(&base, &base),
		)
		must.Do(t, err)
		return func() error {
			r, err := c.NewRequest(t.Context(), "GET", "/", nil)
			if err != nil {
				return err
			}
			_, err = c.Do(r, nil)
			return err
		}
	}},
}

// limited serves a limited application, and counts what it denies.
func limited(t *testing.T, f apps.Framework, w headers.Writer) (*wire.Server, *atomic.Int32) {
	limiter := core.Must(core.New([]core.Rule{{Name: "api", Key: wire.Anyone, Limits: []core.Limit{limit}}}))
	app := f.Build(apps.One(apps.Guard{Limiter: limiter, Headers: w}, wire.OK))
	denied := new(atomic.Int32)
	s := wire.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.ServeHTTP(&counting{w, denied}, r)
	}), false)
	return s, denied
}

// counting counts the responses other than 200.
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

// sendAll sends all requests.
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
