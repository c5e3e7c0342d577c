package client_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/client"
)

// TestNoGoroutines checks that a Transport starts no goroutine, not even while calls wait. In every other test,
// synctest checks that none is left behind.
func TestNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &client.Transport{Base: usedUp(3 * time.Second)}
		trip := func() {
			if resp, err := tr.RoundTrip(request(t, "http://api.example/")); err == nil {
				resp.Body.Close()
			}
		}
		trip()
		before := bubbled()
		var all sync.WaitGroup
		for range 10 {
			all.Go(trip)
		}
		synctest.Wait()
		if n := bubbled() - before; n != 10 {
			t.Errorf("%d goroutines for 10 calls that wait", n)
		}
		all.Wait()
	})
}

// bubbled returns the number of goroutines in bubbles. The goroutines of a server that another test has closed may end
// at any time.
func bubbled() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ", synctest bubble ")
}
