package clients

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

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
	r, err := c.NewRequest(t.Context(), "GET", url+"/", nil)
	must.Do(t, err)
	_, err = c.Do(r, nil)
	return err
}
