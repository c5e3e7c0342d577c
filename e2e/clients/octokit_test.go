package clients

import (
	"path/filepath"
	"testing"

	"github.com/spillgate/spillgate/e2e/internal/wire"
	"github.com/spillgate/spillgate/internal/expect"
	"github.com/spillgate/spillgate/internal/must"
)

// TestOctokit checks that Octokit's throttling plugin treats a denial as a primary rate limit, waits until Reset and
// succeeds at its first retry.
func TestOctokit(t *testing.T) {
	dir := wire.Node(t, filepath.Join("testdata", "octokit"))
	atOnce(t, func(t *testing.T, s *wire.Server, _ <-chan bool) {
		checkOctokit(t, wire.Decode[event](t, must.Get(wire.Run(t, dir, nil, "node", "drive.mjs", s.URL, "3"))(t)))
	})
}

// An event is a line that the script prints.
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
