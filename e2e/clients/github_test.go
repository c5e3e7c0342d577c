package clients

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/spillgate/spillgate/core"
	"github.com/spillgate/spillgate/e2e/internal/apps"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// period is the time in which one request refills. Tests that wait for it run in parallel, and the steps before the wait take
// much less time.
const period = 4 * time.Second

func gitHubClient(t *testing.T, s *wire.Server) *github.Client {
	base := s.URL + "/"
	return must.Get(github.NewClient(github.WithHTTPClient(s.Client()), github.WithURLs(&base, &base)))(t)
}

func call(t *testing.T, c *github.Client) (*github.Response, error) {
	return c.BareDo(must.Get(c.NewRequest(t.Context(), "GET", "/", nil))(t))
}

// TestGitHub checks that go-github obeys our responses. It stores the rate of every response, and once Remaining is 0 it sends
// nothing until Reset. Reset must be neither too early, since go-github would be denied, nor too late.
func TestGitHub(t *testing.T) {
	atOnce(t, func(t *testing.T, s *wire.Server, served <-chan bool) {
		careful, other := gitHubClient(t, s), gitHubClient(t, s)
		for remaining := 1; remaining >= 0; remaining-- {
			resp := must.Get(call(t, careful))(t)
			if r := resp.Rate; r.Limit != 2 || r.Remaining != remaining || r.Used != 2-remaining || r.Resource != "api" {
				t.Errorf("rate of an admitted request: %+v, want %d of 2 left", r, remaining)
			}
		}
		local := rateLimitError(t, careful)
		denied := rateLimitError(t, other)
		expect.Equal(t, len(served), 2, "how often the handler ran")
		if got := denied.Response; got.StatusCode != 429 || got.ProtoMajor != 1 || denied.Message != "API rate limit exceeded" {
			t.Errorf("the denial is %d %q, want a 429 from the server with a readable message", got.StatusCode, denied.Message)
		}
		expect.Equal(t, local.Response.ProtoMajor, 0, "the careful client sent a request although it knew that nothing remained")
		want := github.Rate{Limit: 2, Used: 2, Resource: "api", Reset: denied.Rate.Reset}
		expect.True(t, denied.Rate == want && local.Rate.Reset.Equal(want.Reset),
			"denied with %+v, denied locally with %+v, want %+v", denied.Rate, local.Rate, want)
		wait := time.Until(denied.Rate.Reset.Time)
		must.True(t, wait <= period+time.Second, "Reset is in %v, want what one request takes to come back, rounded up", wait)
		time.Sleep(wait)
		expect.NoError(t, expect.ErrorOf(call(t, careful)), "at Reset")
	})
}

// atOnce runs f for all frameworks at once, behind a limit of two at once and one more after a period. served gets a value whenever the handler runs.
func atOnce(t *testing.T, f func(t *testing.T, s *wire.Server, served <-chan bool)) {
	t.Parallel()
	var all sync.WaitGroup
	for _, framework := range apps.Frameworks {
		all.Go(func() {
			t.Run(framework.Name, func(t *testing.T) {
				served := make(chan bool, 10)
				rule := core.Rule{Name: "api", Key: wire.Anyone, Limits: []core.Limit{core.Every(1, period).WithBurst(2)}}
				s := wire.Serve(t, framework.Build(apps.Limited(core.Must(core.New([]core.Rule{rule})), func(w http.ResponseWriter, r *http.Request) {
					served <- true
					wire.OK(w, r)
				})), false)
				f(t, s, served)
			})
		})
	}
	all.Wait()
}

func rateLimitError(t *testing.T, c *github.Client) *github.RateLimitError {
	t.Helper()
	_, err := call(t, c)
	var limited *github.RateLimitError
	must.True(t, errors.As(err, &limited), "error %v (%T), want a RateLimitError", err, err)
	return limited
}
