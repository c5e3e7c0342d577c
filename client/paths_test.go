package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
	"github.com/spillgate/spillgate/core"
)

// TestManyPaths drives 200 goroutines, each with a path of its own, against a limit that all paths share: the client
// learns this from one denial at most.
func TestManyPaths(t *testing.T) {
	for _, w := range writers {
		t.Run(w.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := limited(core.PerMinute(100), w.write)
				s.latency = func() time.Duration { return rand.N(50 * time.Millisecond) }
				c := s.over(&client.Transport{MaxWait: time.Hour})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				var all sync.WaitGroup
				for i := range 200 {
					all.Go(func() {
						for n := 0; ctx.Err() == nil; n++ {
							r, _ := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://api.example/%d.%d", i, n), nil)
							if resp, err := c.Do(r); err == nil {
								resp.Body.Close()
							} else if ctx.Err() == nil {
								<-ctx.Done()
							}
						}
					})
				}
				all.Wait()
				if count := s.count(); count[200] < 380 || count[429] > 1 {
					t.Errorf("%v, want 95%% of 400 and one denial", count)
				}
			})
		})
	}
}
