package clients

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
)

// recipesCases are the cases of TestRecipes.
var recipesCases = []struct {
	name string
	send func(t *testing.T, url string) (status int, err error)
}{
	{"net/http", func(_ *testing.T, url string) (int, error) { return status(get(obeying(), url)) }},
	{"go-github", sendGitHub},
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
}

// TestRecipes runs the examples of docs/recipes.md against a server that denies the first request with a wait of one
// second. Each example retries its request once, body included, and succeeds.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, row := range recipesCases {
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
			got, err := row.send(t, s.URL+"/")
			expect.True(t, err == nil && got == http.StatusOK && time.Since(start) >= time.Second,
				"status %d after %v: %v", got, time.Since(start), err)
			expect.True(t, len(bodies) == 2 && bodies[0] == bodies[1], "the server saw %q, want the same twice", bodies)
		})
	}
}

func sendGitHub(t *testing.T, url string) (int, error) {
	c, err := gitHub()
	if err != nil {
		return 0, err
	}
	r, err := c.NewRequest(t.Context(), "GET", url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(r, nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

func status(resp *http.Response, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}
